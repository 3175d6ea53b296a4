// The committer's work without its thread: what has arrived becomes rounds, and each round one
// commit. A round takes results and commands in order of arrival, asks the dispatcher what they
// mean, writes one batch (outcomes, answers, progress deltas, attempt rows, job rows), syncs, moves
// the dispatcher's memory, and only then acknowledges and answers.
//
// Not thread-safe: whoever drives it is blocked for as long as the store's commit takes. Committer
// does that on a thread of its own, the simulation in simulated time.
#ifndef NIGHTSHIFT_COORDINATOR_COMMIT_COMMIT_ROUNDS_H_
#define NIGHTSHIFT_COORDINATOR_COMMIT_COMMIT_ROUNDS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "coordinator/commit/commit_observer.h"
#include "coordinator/commit/progress_ledger.h"
#include "coordinator/core/dispatcher.h"
#include "storage/store.h"
#include "storage/write_set.h"

namespace nightshift {

struct CommitterOptions {
  // One commit takes no more than this; the rest waits for the next.
  size_t batch_results_max = 4096;
  size_t batch_bytes_max = size_t{8} << 20;
  // A chunk with more progress deltas than this is folded into its base.
  int deltas_per_chunk_max = 64;
  // Told of every round; may be null, and must outlive the committer.
  CommitObserver* observer = nullptr;
};

// A command and its answer; belongs to whoever waits for it.
struct WaitingCommand {
  JobCommand command;
  absl::Status status;
  bool done = false;
};

class CommitRounds {
 public:
  // Hands a message to a worker's stream, if it is there.
  using Send = std::function<void(const Outgoing&)>;
  // Called once per round with the commands whose `status` is set for good.
  using Answer = std::function<void(const std::vector<WaitingCommand*>&)>;

  // The references must outlive it.
  CommitRounds(CommitterOptions options, Store& store, Dispatcher& dispatcher, Clock& clock,
               Send send, Answer answer);

  // Results of one message of a worker.
  void Add(WorkerNumber worker, v1::ResultBatch batch);
  // Forgets the results of `worker` that no round has taken: it sends them again.
  void DropWaiting(WorkerNumber worker);
  // Must stay until it is answered, or given back by TakeUnanswered.
  void Add(WaitingCommand* command);

  // Whether a round has something to do: what was added, folds, or a transition of the
  // dispatcher's own. A round without anything to do looks at the store's health, no more.
  bool HasWork() const { return !messages_.empty() || !commands_.empty() || more_; }

  // Whether the next round, which is taken together here if it was not, may write something. One
  // that does not needs no room, and says nothing about the disk.
  bool NeedsRoom();
  // Whether the disk has room for that round: ResourceExhausted when it is too full. The round
  // stays for another look, or for DoRound. Only after NeedsRoom.
  absl::Status CheckRoom() const;

  // On error nothing of the round is acknowledged or answered, and no other round may follow.
  absl::Status DoRound();

  // Queues every chunk that has deltas for folding. True when there are any.
  bool FoldAll();

  // Gives up all commands, those of the round that was taken together too: whoever asks answers
  // them.
  std::vector<WaitingCommand*> TakeUnanswered();

 private:
  struct Message {
    WorkerNumber worker = 0;
    v1::ResultBatch batch;
    int next = 0;  // the first result that has not been taken
  };

  absl::StatusOr<int64_t> TotalOf(JobNumber job) const;
  void TakeRound();
  void TakeResults();
  void TakeCommands();
  absl::Status CheckConditions(const WriteSet& extra) const;
  void Acknowledge();

  const CommitterOptions options_;
  Store& store_;
  Dispatcher& dispatcher_;
  Clock& clock_;
  const Send send_;
  const Answer answer_;

  ProgressLedger ledger_;
  std::deque<Message> messages_;
  std::deque<WaitingCommand*> commands_;
  bool more_;

  // What the present round works on.
  std::vector<ResultEvent> results_;
  std::vector<WaitingCommand*> waiting_;
  bool taken_ = false;  // the two above are the next round's
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COMMIT_COMMIT_ROUNDS_H_
