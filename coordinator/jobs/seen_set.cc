#include "coordinator/jobs/seen_set.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "coordinator/commit/progress_chunk.h"

namespace nightshift {
namespace {

enum ChunkKind : uint64_t { kNothing = 0, kWhole = 1, kRuns = 2, kBitmap = 3 };

constexpr absl::string_view kMagic = "n1";

absl::Status BadCursor() {
  return absl::InvalidArgumentError(
      "the cursor is not one of this job; leave it out to read from the start");
}

void AppendVarint(std::string* out, uint64_t number) {
  for (; number >= 0x80; number >>= 7) out->push_back(static_cast<char>(number | 0x80));
  out->push_back(static_cast<char>(number));
}

bool TakeVarint(absl::string_view* from, uint64_t* number) {
  *number = 0;
  for (int shift = 0; shift < 64 && !from->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(from->front());
    from->remove_prefix(1);
    *number |= uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

// The chunk's bits as runs, unseen and seen in turn; returns their number.
uint64_t MakeRuns(absl::string_view bitmap, std::string* out) {
  uint64_t runs = 0;
  uint64_t length = 0;
  bool seen = false;
  for (uint64_t bit = 0; bit < bitmap.size() * 8; ++bit) {
    if (BitIsSet(bitmap, bit) != seen) {
      AppendVarint(out, length);
      ++runs;
      length = 0;
      seen = !seen;
    }
    ++length;
  }
  if (seen) {
    AppendVarint(out, length);
    ++runs;
  }
  return runs;
}

}  // namespace

SeenSet::SeenSet(int64_t total)
    : total_(total < 0 ? 0 : static_cast<uint64_t>(total)), chunks_(ChunkCount(total)) {}

uint32_t SeenSet::SizeOf(uint32_t chunk) const {
  return ChunkSize(static_cast<int64_t>(total_), chunk);
}

bool SeenSet::Contains(uint64_t index) const {
  const auto chunk = static_cast<uint32_t>(index / kChunkRequests);
  return ContainsChunk(chunk) || BitIsSet(chunks_[chunk].bitmap, index % kChunkRequests);
}

void SeenSet::Add(uint64_t index) {
  const auto number = static_cast<uint32_t>(index / kChunkRequests);
  Chunk& chunk = chunks_[number];
  const uint32_t size = SizeOf(number);
  if (chunk.bitmap.empty()) chunk.bitmap.assign((size + 7) / 8, '\0');
  SetBit(chunk.bitmap, index % kChunkRequests);
  ++chunk.seen;
  ++count_;
  if (chunk.seen == size) std::string().swap(chunk.bitmap);
}

void SeenSet::AddChunk(uint32_t chunk) {
  chunks_[chunk].seen = SizeOf(chunk);
  count_ += SizeOf(chunk);
}

void SeenSet::AppendStates(std::string* out) const {
  for (uint32_t chunk = 0; chunk < chunks_.size();) {
    const uint64_t kind = ContainsChunk(chunk)       ? kWhole
                          : chunks_[chunk].seen == 0 ? kNothing
                                                     : kRuns;
    if (kind != kRuns) {
      uint32_t end = chunk;
      while (end < chunks_.size() &&
             (kind == kWhole ? ContainsChunk(end) : chunks_[end].seen == 0)) {
        ++end;
      }
      if (kind == kNothing && end == chunks_.size()) return;
      AppendVarint(out, uint64_t{end - chunk} * 4 + kind);
      chunk = end;
      continue;
    }
    const std::string& bitmap = chunks_[chunk].bitmap;
    std::string runs;
    const uint64_t count = MakeRuns(bitmap, &runs);
    if (runs.size() < bitmap.size()) {
      AppendVarint(out, count * 4 + kRuns);
      out->append(runs);
    } else {
      AppendVarint(out, bitmap.size() * 4 + kBitmap);
      out->append(bitmap);
    }
    ++chunk;
  }
}

absl::Status SeenSet::ReadChunk(uint32_t chunk, uint64_t kind, uint64_t count,
                                absl::string_view* rest) {
  const uint64_t begin = chunk * kChunkRequests;
  const uint32_t size = SizeOf(chunk);
  if (kind == kBitmap) {
    if (count > rest->size() || count > (size + 7) / 8) return BadCursor();
    for (uint64_t bit = 0; bit < count * 8; ++bit) {
      if (!BitIsSet(rest->substr(0, count), bit)) continue;
      if (bit >= size) return BadCursor();
      Add(begin + bit);
    }
    rest->remove_prefix(count);
    return absl::OkStatus();
  }
  uint64_t at = 0;
  bool run_seen = false;
  for (uint64_t run = 0; run < count; ++run, run_seen = !run_seen) {
    uint64_t length = 0;
    if (!TakeVarint(rest, &length) || length > size - at) return BadCursor();
    for (uint64_t end = at + length; at < end; ++at) {
      if (run_seen) Add(begin + at);
    }
  }
  return absl::OkStatus();
}

absl::Status SeenSet::ReadStates(absl::string_view states) {
  NIGHTSHIFT_CHECK(count_ == 0, "states are read into an empty set");
  for (uint32_t chunk = 0; !states.empty();) {
    uint64_t tag = 0;
    if (!TakeVarint(&states, &tag)) return BadCursor();
    const uint64_t kind = tag % 4;
    const uint64_t count = tag / 4;
    if (kind == kNothing || kind == kWhole) {
      if (count > chunks_.size() - chunk) return BadCursor();
      for (const uint64_t end = chunk + count; chunk < end; ++chunk) {
        if (kind == kWhole) AddChunk(chunk);
      }
    } else {
      if (chunk == chunks_.size()) return BadCursor();
      RETURN_IF_ERROR(ReadChunk(chunk++, kind, count, &states));
    }
  }
  return absl::OkStatus();
}

std::string EncodeCursor(const OutputCursor& cursor, const SeenSet& seen) {
  std::string bytes(kMagic.data(), kMagic.size());
  AppendVarint(&bytes, cursor.job);
  AppendVarint(&bytes, static_cast<uint32_t>(cursor.run));
  AppendVarint(&bytes, cursor.position);
  seen.AppendStates(&bytes);
  std::string text = absl::WebSafeBase64Escape(bytes);
  if (text.size() > kCursorBytesMax) text.clear();
  return text;
}

absl::Status DecodeCursor(absl::string_view text, JobNumber job, OutputCursor* cursor,
                          SeenSet* seen) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(text, &bytes)) return BadCursor();
  absl::string_view rest = bytes;
  if (rest.substr(0, kMagic.size()) != kMagic) return BadCursor();
  rest.remove_prefix(kMagic.size());
  uint64_t run = 0;
  if (!TakeVarint(&rest, &cursor->job) || !TakeVarint(&rest, &run) ||
      !TakeVarint(&rest, &cursor->position)) {
    return BadCursor();
  }
  cursor->run = static_cast<int32_t>(run);
  if (cursor->job != job || cursor->position > seen->total()) return BadCursor();
  return seen->ReadStates(rest);
}

}  // namespace nightshift
