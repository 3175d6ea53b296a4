// The one writer of everything that happens to a job after it has been handed in.
//
// A single thread takes all results and commands that have arrived and commits them in rounds
// (commit_rounds.h). While one sync runs the next batch gathers: group commit without a timer. When
// a commit fails nothing of it is acknowledged, ever: the store can no longer be trusted and
// `on_broken` is called once.
//
// While the disk is too full for a commit (Store::CheckRoom) none is tried: results wait, commands
// are refused, and both go on by themselves when there is room.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_COMMIT_COMMITTER_H_
#define NIGHTSHIFT_COORDINATOR_COMMIT_COMMITTER_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "base/clock.h"
#include "coordinator/commit/command_sink.h"
#include "coordinator/commit/commit_rounds.h"
#include "coordinator/core/dispatcher.h"
#include "storage/store.h"

namespace nightshift {

class Committer final : public CommandSink {
 public:
  using Send = CommitRounds::Send;

  // The references must outlive the committer. `send` hands a message to a worker's stream, if it
  // is there; `on_broken` is called from the committer's thread.
  Committer(CommitterOptions options, Store& store, Dispatcher& dispatcher, Clock& clock, Send send,
            std::function<void(absl::Status)> on_broken);
  ~Committer() override;

  // Queues the results of one message. They are acknowledged by sequence through `send`.
  void AddResults(WorkerNumber worker, v1::ResultBatch batch);

  // `worker` has said Hello, so it sends again whatever has not been acknowledged: its results that
  // wait and are in no round yet are dropped, since else each reconnect on a full disk would leave
  // another copy of them here. To be called before the results of its new stream are added.
  void DropWaiting(WorkerNumber worker);

  absl::Status Execute(JobCommand command) override;
  void Nudge() override;

  // Commits what is queued, folds, and ends the thread. Later calls return Unavailable.
  void Shutdown();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COMMIT_COMMITTER_H_
