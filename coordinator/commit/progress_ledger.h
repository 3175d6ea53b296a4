// The progress rows that commits write: small deltas on the way, folded into a chunk's base now and
// then. It holds the chunks that are being worked on as the store has them, read on first touch.
//
// A commit uses it in three steps: Add for every outcome, AddRows once, Store::Commit. If the
// commit fails the ledger is ahead of the store and must not be used again.
//
// Not thread-safe: the committer's thread alone.
#ifndef NIGHTSHIFT_COORDINATOR_COMMIT_PROGRESS_LEDGER_H_
#define NIGHTSHIFT_COORDINATOR_COMMIT_PROGRESS_LEDGER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/commit/progress_chunk.h"
#include "coordinator/core/ids.h"
#include "nightshift/v1/record.pb.h"
#include "storage/store.h"
#include "storage/write_set.h"

namespace nightshift {

// Chunks that one commit folds besides those it touches: half a megabyte of bitmaps.
inline constexpr int kFoldsPerCommitMax = 64;

class ProgressLedger {
 public:
  // `total_of` tells how many requests a job has; it is asked once per chunk.
  ProgressLedger(const Store& store, int deltas_per_chunk_max,
                 std::function<absl::StatusOr<int64_t>(JobNumber)> total_of);

  // Counts an outcome into the commit being made. Internal when the request has one already or is
  // past the end of its job: then memory and disk disagree and the commit must not happen.
  absl::Status Add(JobNumber job, uint64_t index, const v1::OutcomeRecord& outcome);

  // Adds the rows of everything counted since the last call, and at most kFoldsPerCommitMax of the
  // folds that wait. The commit's number is above that of any row of the touched chunks, so it
  // rises across restarts too.
  void AddRows(WriteSet& writes);

  // The job ends with the commit being made: what is not folded yet will be, then its chunks are
  // let go.
  void Retire(JobNumber job);
  // The job's rows have been replaced or removed.
  void Forget(JobNumber job);

  // Queues every chunk that has deltas for folding.
  void FoldAll();
  bool HasFolds() const { return !folds_.empty(); }

 private:
  struct Chunk : ProgressChunk {
    explicit Chunk(ProgressChunk chunk) : ProgressChunk(std::move(chunk)) {}
    v1::ProgressDelta delta;  // of the commit being made
    bool touched = false;
    bool fold_waits = false;
  };
  struct ChunkId {
    JobNumber job = 0;
    uint32_t chunk = 0;
    friend auto operator<=>(const ChunkId&, const ChunkId&) = default;
  };

  absl::StatusOr<Chunk*> Find(ChunkId id);
  static void Fold(ChunkId id, Chunk& chunk, WriteSet& writes);
  void QueueFold(ChunkId id, Chunk& chunk);

  const Store& store_;
  const size_t deltas_max_;
  const std::function<absl::StatusOr<int64_t>(JobNumber)> total_of_;

  // Ordered, so that a job's chunks are neighbours.
  std::map<ChunkId, std::unique_ptr<Chunk>> chunks_;
  ChunkId last_id_;  // the chunk that the last Add found: most results come in runs
  Chunk* last_ = nullptr;
  std::vector<ChunkId> touched_;
  std::deque<ChunkId> folds_;
  uint64_t commit_number_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COMMIT_PROGRESS_LEDGER_H_
