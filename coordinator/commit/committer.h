// The one writer of everything that happens to a job after it has been handed in.
//
// A single thread takes all results and commands that have arrived, asks the dispatcher what they
// mean, writes one batch (outcomes, answers, progress deltas, attempt rows, job rows), syncs, moves
// the dispatcher's memory, and only then acknowledges. While one sync runs the next batch gathers:
// group commit without a timer. When a commit fails nothing of it is acknowledged, ever: the store
// can no longer be trusted and `on_broken` is called once.
//
// While the disk is too full for a commit (Store::CheckRoom) none is tried: results wait, commands
// are refused, and both go on by themselves when there is room.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_COMMIT_COMMITTER_H_
#define NIGHTSHIFT_COORDINATOR_COMMIT_COMMITTER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "coordinator/core/dispatcher.h"
#include "storage/store.h"

namespace nightshift {

struct CommitterOptions {
  // One commit takes no more than this; the rest waits for the next.
  size_t batch_results_max = 4096;
  size_t batch_bytes_max = size_t{8} << 20;
  // A chunk with more progress deltas than this is folded into its base.
  int deltas_per_chunk_max = 64;
};

class Committer {
 public:
  using Send = std::function<void(const Outgoing&)>;

  // The references must outlive the committer. `send` hands a message to a worker's stream, if it
  // is there; `on_broken` is called from the committer's thread.
  Committer(CommitterOptions options, Store& store, Dispatcher& dispatcher, Clock& clock, Send send,
            std::function<void(absl::Status)> on_broken);
  ~Committer();

  // Queues the results of one message. They are acknowledged by sequence through `send`.
  void AddResults(WorkerNumber worker, v1::ResultBatch batch);

  // Queues a command and waits for it to be durable, or refused (the dispatcher's status, or
  // ResourceExhausted: the disk is full), or for the committer to be broken (Unavailable). Not from
  // the committer's own thread.
  absl::Status Execute(JobCommand command);

  // Makes the committer look whether the dispatcher has a transition of its own to write
  // (Dispatcher::HasInternalWork), and whether the store is still sound. Cheap; from any thread.
  void Nudge();

  // Commits what is queued, folds, and ends the thread. Later calls return Unavailable.
  void Shutdown();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COMMIT_COMMITTER_H_
