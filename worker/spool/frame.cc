#include "worker/spool/frame.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"

namespace nightshift {
namespace {

constexpr char kMark[] = "nsF1";
constexpr size_t kMarkBytes = 4;
constexpr size_t kSizeAt = 4;
constexpr size_t kCheckAt = 8;
constexpr size_t kNumberAt = 16;  // the checksum covers what begins here
constexpr size_t kBodyAt = 24;
constexpr size_t kBodyBytesMin = 2;
// Of looking for frames among damaged bytes: a file made to be slow to read is given up here.
constexpr size_t kHashedBytesMax = size_t{4} << 30;

template <typename Number>
void Store(Number number, char* at) {
  for (size_t i = 0; i < sizeof(number); ++i) at[i] = static_cast<char>(number >> (8 * i));
}

template <typename Number>
Number Load(const char* at) {
  Number number = 0;
  for (size_t i = 0; i < sizeof(number); ++i) {
    number |= static_cast<Number>(static_cast<unsigned char>(at[i])) << (8 * i);
  }
  return number;
}

uint64_t Checksum(const char* frame, uint32_t body_bytes) {
  return XXH3_64bits_withSeed(frame + kNumberAt, kBodyAt - kNumberAt + body_bytes, body_bytes);
}

// The head of a frame and the beginning of its body; the caller appends the payload and calls
// EndFrame with what this has returned.
size_t BeginFrame(Frame::Kind kind, uint64_t number, absl::string_view store, std::string* out) {
  NIGHTSHIFT_CHECK(store.size() <= 255, "the id of a store is too long");
  const size_t start = out->size();
  out->append(kBodyAt, '\0');
  Store(number, out->data() + start + kNumberAt);
  out->push_back(static_cast<char>(kind));
  out->push_back(static_cast<char>(store.size()));
  out->append(store.data(), store.size());
  return start;
}

void EndFrame(size_t start, std::string* out) {
  char* frame = out->data() + start;
  const auto body_bytes = static_cast<uint32_t>(out->size() - start - kBodyAt);
  std::memcpy(frame, kMark, kMarkBytes);
  Store(body_bytes, frame + kSizeAt);
  Store(Checksum(frame, body_bytes), frame + kCheckAt);
}

// The frame at the beginning of `bytes`, if there is a whole one; its bytes to *taken.
std::optional<Frame> ReadFrame(absl::string_view bytes, size_t* taken, size_t* hashed) {
  if (bytes.size() < kBodyAt + kBodyBytesMin || std::memcmp(bytes.data(), kMark, kMarkBytes) != 0) {
    return std::nullopt;
  }
  const auto body_bytes = Load<uint32_t>(bytes.data() + kSizeAt);
  if (body_bytes < kBodyBytesMin || body_bytes > bytes.size() - kBodyAt) return std::nullopt;
  *hashed += body_bytes;
  if (Load<uint64_t>(bytes.data() + kCheckAt) != Checksum(bytes.data(), body_bytes)) {
    return std::nullopt;
  }
  Frame frame;
  const absl::string_view body = bytes.substr(kBodyAt, body_bytes);
  const auto store_bytes = static_cast<unsigned char>(body[1]);
  if (store_bytes > body.size() - kBodyBytesMin) return std::nullopt;
  frame.kind = static_cast<Frame::Kind>(body[0]);
  if (frame.kind != Frame::Kind::kResult && frame.kind != Frame::Kind::kForgot) return std::nullopt;
  frame.number = Load<uint64_t>(bytes.data() + kNumberAt);
  frame.store = body.substr(kBodyBytesMin, store_bytes);
  frame.payload = body.substr(kBodyBytesMin + store_bytes);
  *taken = kBodyAt + body_bytes;
  return frame;
}

// What a crash leaves at the end of a file: the beginning of a frame, or space that was allotted
// and never written.
bool LooksTorn(absl::string_view rest) {
  if (std::all_of(rest.begin(), rest.end(), [](char c) { return c == '\0'; })) return true;
  const size_t mark_bytes = std::min(rest.size(), kMarkBytes);
  if (std::memcmp(rest.data(), kMark, mark_bytes) != 0) return false;
  if (rest.size() < kBodyAt) return true;
  return Load<uint32_t>(rest.data() + kSizeAt) > rest.size() - kBodyAt;
}

}  // namespace

void AppendResult(uint64_t number, absl::string_view store, const v1::AttemptResult& result,
                  std::string* out) {
  const size_t start = BeginFrame(Frame::Kind::kResult, number, store, out);
  NIGHTSHIFT_CHECK(result.AppendToString(out), "a result cannot be written as bytes");
  EndFrame(start, out);
}

void AppendForgot(absl::string_view store, absl::Span<const uint64_t> numbers, std::string* out) {
  const size_t start = BeginFrame(Frame::Kind::kForgot, 0, store, out);
  for (const uint64_t number : numbers) {
    out->append(sizeof(number), '\0');
    Store(number, out->data() + out->size() - sizeof(number));
  }
  EndFrame(start, out);
}

void ForEachForgotten(const Frame& frame, absl::FunctionRef<void(uint64_t)> visit) {
  for (size_t at = 0; at + sizeof(uint64_t) <= frame.payload.size(); at += sizeof(uint64_t)) {
    visit(Load<uint64_t>(frame.payload.data() + at));
  }
}

ScanReport ScanFrames(absl::string_view bytes, absl::FunctionRef<void(const Frame&)> visit) {
  ScanReport report;
  size_t hashed = 0;
  size_t bad_from = 0;  // bytes from here up to `at` are no frame
  size_t at = 0;
  while (at < bytes.size()) {
    size_t taken = 0;
    if (const auto frame = ReadFrame(bytes.substr(at), &taken, &hashed); frame.has_value()) {
      if (at > bad_from) {
        ++report.damaged_places;
        report.damaged_bytes += static_cast<int64_t>(at - bad_from);
      }
      ++report.frames;
      visit(*frame);
      at += taken;
      bad_from = at;
      continue;
    }
    if (hashed > kHashedBytesMax) {
      report.gave_up = true;
      break;
    }
    at = std::min(bytes.find(absl::string_view(kMark, kMarkBytes), at + 1), bytes.size());
  }
  const absl::string_view rest = bytes.substr(bad_from);
  if (rest.empty()) return report;
  if (LooksTorn(rest)) {
    report.torn_bytes = static_cast<int64_t>(rest.size());
  } else {
    ++report.damaged_places;
    report.damaged_bytes += static_cast<int64_t>(rest.size());
  }
  return report;
}

}  // namespace nightshift
