// Which requests of a job a reader has dealt with, and the cursor that carries it to a later read.
//
//   cursor := base64url( 'n' 1, varint job, varint run, varint position, chunk states )
//   chunk states := { varint (count * 4 + kind) [payload] }
//     kind 0: `count` chunks of which nothing is seen      kind 1: `count` chunks seen whole
//     kind 2: one chunk, `count` runs: varint lengths, unseen and seen in turn
//     kind 3: one chunk, bitmap of `count` bytes
//   Chunks after the last state are unseen.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_SEEN_SET_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_SEEN_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/core/ids.h"

namespace nightshift {

// Not thread-safe. Memory: at most one bit per request.
class SeenSet {
 public:
  explicit SeenSet(int64_t total);

  bool Contains(uint64_t index) const;
  // Marks a request that is not marked yet.
  void Add(uint64_t index);
  // Marks a chunk of which nothing is marked yet.
  void AddChunk(uint32_t chunk);
  bool ContainsChunk(uint32_t chunk) const { return chunks_[chunk].seen == SizeOf(chunk); }
  bool ContainsNoneOf(uint32_t chunk) const { return chunks_[chunk].seen == 0; }
  uint64_t count() const { return count_; }
  uint64_t total() const { return total_; }
  uint32_t chunk_count() const { return static_cast<uint32_t>(chunks_.size()); }
  // The bitmap of a chunk; may be shorter than the chunk (the rest is unseen). Not for whole ones.
  absl::string_view bitmap(uint32_t chunk) const { return chunks_[chunk].bitmap; }

  void AppendStates(std::string* out) const;
  // InvalidArgument when `states` is not of a job of this size.
  absl::Status ReadStates(absl::string_view states);

 private:
  struct Chunk {
    uint32_t seen = 0;
    std::string bitmap;  // empty when nothing or everything is seen
  };
  uint32_t SizeOf(uint32_t chunk) const;
  absl::Status ReadChunk(uint32_t chunk, uint64_t kind, uint64_t count, absl::string_view* rest);

  const uint64_t total_;
  uint64_t count_ = 0;
  std::vector<Chunk> chunks_;
};

struct OutputCursor {
  JobNumber job = 0;
  int32_t run = 0;
  uint64_t position = 0;  // of a reader in input order
};

// A cursor longer than this is not made: the reader's place is too scattered to be carried about.
inline constexpr size_t kCursorBytesMax = size_t{256} << 10;

// Empty when it would be longer than kCursorBytesMax.
std::string EncodeCursor(const OutputCursor& cursor, const SeenSet& seen);
// InvalidArgument when `text` is no cursor of this job.
absl::Status DecodeCursor(absl::string_view text, JobNumber job, OutputCursor* cursor,
                          SeenSet* seen);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_SEEN_SET_H_
