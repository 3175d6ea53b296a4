// One chunk of a job's progress, put together from its base row and the deltas since.
#ifndef NIGHTSHIFT_COORDINATOR_COMMIT_PROGRESS_CHUNK_H_
#define NIGHTSHIFT_COORDINATOR_COMMIT_PROGRESS_CHUNK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/core/ids.h"
#include "nightshift/v1/record.pb.h"
#include "storage/keys.h"
#include "storage/store.h"

namespace nightshift {

// Bytes of the bitmap of a whole chunk.
inline constexpr size_t kChunkBitmapBytes = kChunkRequests / 8;

// Requests of chunk `chunk` in a job of `total`; 0 past the end.
inline uint32_t ChunkSize(int64_t total, uint32_t chunk) {
  const uint64_t begin = chunk * kChunkRequests;
  const uint64_t all = total < 0 ? 0 : static_cast<uint64_t>(total);
  if (begin >= all) return 0;
  return static_cast<uint32_t>(all - begin < kChunkRequests ? all - begin : kChunkRequests);
}
inline uint32_t ChunkCount(int64_t total) {
  return total <= 0 ? 0 : static_cast<uint32_t>((total + kChunkRequests - 1) / kChunkRequests);
}

inline bool BitIsSet(absl::string_view bitmap, uint64_t bit) {
  return bit / 8 < bitmap.size() && (static_cast<uint8_t>(bitmap[bit / 8]) >> (bit % 8) & 1) != 0;
}
inline void SetBit(std::string& bitmap, uint64_t bit) {
  bitmap[bit / 8] = static_cast<char>(static_cast<uint8_t>(bitmap[bit / 8]) | 1u << (bit % 8));
}
uint32_t CountBits(absl::string_view bitmap);

struct ProgressChunk {
  std::string bitmap;  // of `size` requests, rounded up to whole bytes
  uint32_t size = 0;
  uint32_t finished = 0;  // bits set
  v1::ProgressSums sums;
  std::vector<uint64_t> deltas;  // commit numbers of the delta rows, rising

  // An empty chunk of `size` requests.
  explicit ProgressChunk(uint32_t size_in = 0) : bitmap((size_in + 7) / 8, '\0'), size(size_in) {}

  // Adds one row of the chunk. DataLoss when it is damaged or contradicts what is there already (a
  // request finished twice, or past the end of the job).
  absl::Status AddRow(absl::string_view key, absl::string_view value);
};

// Reads the rows of one chunk.
absl::StatusOr<ProgressChunk> ReadChunk(const Store& store, JobNumber job, uint32_t chunk,
                                        int64_t total);

// The base row's message for a chunk; zero bytes at the end of the bitmap are left out.
v1::ProgressBase MakeBase(absl::string_view bitmap, const v1::ProgressSums& sums);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COMMIT_PROGRESS_CHUNK_H_
