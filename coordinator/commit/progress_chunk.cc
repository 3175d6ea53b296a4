#include "coordinator/commit/progress_chunk.h"

#include <bit>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/commit/progress_sums.h"
#include "storage/record.h"

namespace nightshift {
namespace {

absl::Status Contradiction(const ParsedProgressKey& key, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("progress of job number ", key.job, ", chunk ", key.chunk,
                                          ", row ", key.commit, ": ", what));
}

}  // namespace

uint32_t CountBits(absl::string_view bitmap) {
  uint32_t count = 0;
  size_t at = 0;
  for (; at + 8 <= bitmap.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bitmap.data() + at, 8);
    count += static_cast<uint32_t>(std::popcount(word));
  }
  for (; at < bitmap.size(); ++at) {
    count += static_cast<uint32_t>(std::popcount(static_cast<uint8_t>(bitmap[at])));
  }
  return count;
}

absl::Status ProgressChunk::AddRow(absl::string_view key, absl::string_view value) {
  const std::optional<ParsedProgressKey> parsed = ParseProgressKey(key);
  if (!parsed.has_value()) return absl::DataLossError("a progress row has a key of another length");
  if (parsed->commit == 0) {
    v1::ProgressBase base;
    RETURN_IF_ERROR(DecodeRecord(key, value, &base));
    if (finished != 0) return Contradiction(*parsed, "a second base");
    if (base.finished().size() > bitmap.size()) {
      return Contradiction(*parsed, "finishes requests past the end of the job");
    }
    std::memcpy(bitmap.data(), base.finished().data(), base.finished().size());
    if (size % 8 != 0 && (static_cast<uint8_t>(bitmap.back()) >> (size % 8)) != 0) {
      return Contradiction(*parsed, "finishes requests past the end of the job");
    }
    finished = CountBits(bitmap);
    AddSums(base.sums(), &sums);
    return absl::OkStatus();
  }
  v1::ProgressDelta delta;
  RETURN_IF_ERROR(DecodeRecord(key, value, &delta));
  for (const uint32_t offset : delta.offsets()) {
    if (offset >= size) return Contradiction(*parsed, "finishes requests past the end of the job");
    if (BitIsSet(bitmap, offset)) {
      return Contradiction(*parsed, absl::StrCat("finishes request ", offset,
                                                 " of the chunk, which was finished already"));
    }
    SetBit(bitmap, offset);
    ++finished;
  }
  AddSums(delta.sums(), &sums);
  deltas.push_back(parsed->commit);
  return absl::OkStatus();
}

absl::StatusOr<ProgressChunk> ReadChunk(const Store& store, JobNumber job, uint32_t chunk,
                                        int64_t total) {
  ProgressChunk result(ChunkSize(total, chunk));
  const std::unique_ptr<StoreIterator> rows =
      store.Scan(Family::kProgress, ProgressKey(job, chunk, 0), ProgressKey(job, chunk + 1, 0));
  for (; rows->Valid(); rows->Next()) {
    RETURN_IF_ERROR(result.AddRow(rows->key(), rows->value()));
  }
  RETURN_IF_ERROR(rows->status());
  return result;
}

v1::ProgressBase MakeBase(absl::string_view bitmap, const v1::ProgressSums& sums) {
  size_t length = bitmap.size();
  while (length > 0 && bitmap[length - 1] == '\0') --length;
  v1::ProgressBase base;
  base.set_finished(bitmap.data(), length);
  *base.mutable_sums() = sums;
  return base;
}

}  // namespace nightshift
