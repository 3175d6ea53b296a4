#include "coordinator/commit/committer.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "coordinator/commit/commit_rows.h"
#include "coordinator/commit/progress_ledger.h"

namespace nightshift {
namespace {

// Commands that one commit takes; the rest waits for the next.
constexpr size_t kCommandsPerCommitMax = 1024;
// How often a full disk is looked at again.
constexpr absl::Duration kFullDiskLook = absl::Milliseconds(500);
// Room for the row beside each answer, and for folds, job rows and what others write at the same
// time: generous, since too little means a commit that the store refuses.
constexpr size_t kRowBytesPerResult = 2048;
constexpr size_t kOtherBytes = size_t{8} << 20;

absl::Status Closed() {
  return absl::UnavailableError("the coordinator is shutting down; try again when it is back");
}

// Whether the command was decided on rows that any other command for the same job may change.
bool RestsOnRows(JobCommand::Kind kind) {
  return kind == JobCommand::Kind::kReopen || kind == JobCommand::Kind::kDelete;
}

}  // namespace

struct Committer::Impl {
  // A command and the thread that waits for it; lives on that thread's stack.
  struct Waiting {
    JobCommand command;
    absl::Status status;
    bool done = false;
  };
  struct Message {
    WorkerNumber worker = 0;
    v1::ResultBatch batch;
    int next = 0;  // the first result that has not been taken
  };
  // What one round works on.
  struct Round {
    std::vector<ResultEvent> results;
    std::vector<Waiting*> waiting;
    size_t bytes = 0;  // about what it writes
    bool empty() const { return results.empty() && waiting.empty(); }
  };

  Impl(CommitterOptions options_in, Store& store_in, Dispatcher& dispatcher_in, Clock& clock_in,
       Send send_in, std::function<void(absl::Status)> on_broken_in)
      : options(options_in),
        store(store_in),
        dispatcher(dispatcher_in),
        clock(clock_in),
        send(std::move(send_in)),
        on_broken(std::move(on_broken_in)),
        ledger(store, options.deltas_per_chunk_max,
               [this](JobNumber job) { return TotalOf(job); }) {}

  absl::StatusOr<int64_t> TotalOf(JobNumber job) const {
    ASSIGN_OR_RETURN(const v1::JobRecord record, dispatcher.GetRecord(job));
    return record.total();
  }

  void Run();
  // Takes what has arrived; waits while there is nothing and nothing more is to be done. False when
  // it is time to stop and nothing is left.
  bool TakeArrivals(bool more);
  Round NextRound();
  // Waits while the disk is too full to commit the round: results stay, commands are refused. False
  // when it is time to stop instead.
  bool AwaitRoom(Round& round);
  void AnswerCommands(const absl::Status& status, std::vector<Waiting*> waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Status DoRound(Round& round, bool* progressed);
  absl::Status CheckConditions(const WriteSet& extra) const;
  void Acknowledge(const std::vector<ResultEvent>& results);
  void Finish(const std::vector<Waiting*>& waiting);
  void Break(const absl::Status& why, const std::vector<Waiting*>& waiting);

  const CommitterOptions options;
  Store& store;
  Dispatcher& dispatcher;
  Clock& clock;
  const Send send;
  const std::function<void(absl::Status)> on_broken;

  // The committer's thread alone.
  ProgressLedger ledger;
  std::deque<Message> messages;
  std::deque<Waiting*> commands;

  // Nothing is called while it is held.
  Mutex mutex;
  CondVar arrived;   // something for the thread
  CondVar finished;  // something for those in Execute
  std::vector<Message> new_messages ABSL_GUARDED_BY(mutex);
  std::vector<Waiting*> new_commands ABSL_GUARDED_BY(mutex);
  bool nudged ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  absl::Status closed ABSL_GUARDED_BY(mutex);  // why nothing more is taken

  std::atomic<std::thread::id> thread_id;
  Mutex join_mutex;
  std::thread thread ABSL_GUARDED_BY(join_mutex);
};

bool Committer::Impl::TakeArrivals(bool more) {
  MutexLock lock(&mutex);
  const bool idle = messages.empty() && commands.empty() && !more;
  while (idle && new_messages.empty() && new_commands.empty() && !nudged && !stopping) {
    arrived.Wait(&mutex);
  }
  const bool asked = std::exchange(nudged, false);
  for (Message& message : new_messages) messages.push_back(std::move(message));
  new_messages.clear();
  commands.insert(commands.end(), new_commands.begin(), new_commands.end());
  new_commands.clear();
  return !stopping || !messages.empty() || !commands.empty() || more || asked;
}

Committer::Impl::Round Committer::Impl::NextRound() {
  Round round;
  size_t bytes = 0;
  while (!messages.empty()) {
    Message& message = messages.front();
    auto& results = *message.batch.mutable_results();
    for (; message.next < results.size(); ++message.next) {
      v1::AttemptResult& result = results[message.next];
      const bool full = round.results.size() >= options.batch_results_max ||
                        bytes + result.body().size() > options.batch_bytes_max;
      // One result alone may be larger than the limit.
      if (full && !round.results.empty()) break;
      bytes += result.body().size();
      round.results.push_back({message.worker, std::move(result)});
    }
    if (message.next < results.size()) break;
    messages.pop_front();
  }

  absl::flat_hash_set<JobNumber> jobs;
  while (!commands.empty() && round.waiting.size() < kCommandsPerCommitMax) {
    Waiting* const next = commands.front();
    const bool first_of_job = jobs.insert(next->command.job).second;
    if (!first_of_job && RestsOnRows(next->command.kind)) break;
    round.waiting.push_back(next);
    commands.pop_front();
    if (RestsOnRows(next->command.kind)) break;
  }
  round.bytes = bytes + round.results.size() * kRowBytesPerResult + kOtherBytes;
  for (const Waiting* waiting : round.waiting) round.bytes += waiting->command.extra.byte_size();
  return round;
}

bool Committer::Impl::AwaitRoom(Round& round) {
  bool told = false;
  for (;;) {
    const absl::Status room = store.CheckRoom(round.bytes);
    if (!absl::IsResourceExhausted(room)) {
      if (told) LogInfo("the disk has room again: what has waited is committed");
      return true;
    }
    if (!std::exchange(told, true)) {
      LogWarning("nothing is committed for now, results wait: ", room.message());
    }
    MutexLock lock(&mutex);
    AnswerCommands(room, std::exchange(round.waiting, {}));
    if (stopping) return false;
    arrived.WaitFor(&mutex, kFullDiskLook);
  }
}

void Committer::Impl::AnswerCommands(const absl::Status& status, std::vector<Waiting*> waiting) {
  waiting.insert(waiting.end(), commands.begin(), commands.end());
  waiting.insert(waiting.end(), new_commands.begin(), new_commands.end());
  commands.clear();
  new_commands.clear();
  for (Waiting* one : waiting) {
    one->status = status;
    one->done = true;
  }
  finished.SignalAll();
}

absl::Status Committer::Impl::CheckConditions(const WriteSet& extra) const {
  for (const WriteSet::Condition& condition : extra.conditions()) {
    const absl::StatusOr<std::string> value = store.Get(condition.family, condition.key);
    if (!value.ok() && !absl::IsNotFound(value.status())) return value.status();
    const bool holds = condition.present ? value.ok() && *value == condition.value : !value.ok();
    if (!holds) {
      return absl::AbortedError("the job has changed in the meantime; look at it and try again");
    }
  }
  return absl::OkStatus();
}

absl::Status Committer::Impl::DoRound(Round& round, bool* progressed) {
  // This thread is the only writer of a sealed job's rows, so what a command rests on can be
  // checked here, and one stale command does not undo everybody's commit.
  std::vector<JobCommand> asked;
  std::vector<Waiting*> askers;
  for (Waiting* waiting : round.waiting) {
    waiting->status = CheckConditions(waiting->command.extra);
    if (!waiting->status.ok()) continue;
    asked.push_back(std::move(waiting->command));
    askers.push_back(waiting);
  }
  std::vector<absl::Status> refused;
  CommitPlan plan =
      dispatcher.Prepare(round.results, asked, &refused, clock.Now(), clock.WallNow());
  std::vector<const WriteSet*> extras;
  for (size_t i = 0; i < asked.size(); ++i) {
    askers[i]->status = refused[i];
    if (refused[i].ok()) extras.push_back(&asked[i].extra);
  }

  WriteSet writes;
  RETURN_IF_ERROR(AddCommitRows(plan, absl::MakeSpan(round.results), extras, ledger, writes));
  *progressed = !round.empty() || !writes.empty();
  if (writes.empty()) {
    // Others write too (submissions); whoever saw it fail nudges.
    RETURN_IF_ERROR(store.Health());
  } else {
    RETURN_IF_ERROR(store.Commit(std::move(writes)));
  }

  const std::vector<Outgoing> messages_out = dispatcher.Apply(plan, clock.Now(), clock.WallNow());
  Acknowledge(round.results);
  for (const Outgoing& message : messages_out) send(message);
  Finish(round.waiting);
  return absl::OkStatus();
}

void Committer::Impl::Acknowledge(const std::vector<ResultEvent>& results) {
  // Dropped and duplicate ones too: the worker need not keep them.
  absl::flat_hash_map<WorkerNumber, Outgoing> by_worker;
  Outgoing* last = nullptr;
  for (const ResultEvent& event : results) {
    if (last == nullptr || last->worker != event.worker) {
      last = &by_worker[event.worker];
      last->worker = event.worker;
    }
    last->message.mutable_acknowledge()->add_sequences(event.result.sequence());
  }
  for (const auto& [worker, message] : by_worker) send(message);
}

void Committer::Impl::Finish(const std::vector<Waiting*>& waiting) {
  if (waiting.empty()) return;
  MutexLock lock(&mutex);
  for (Waiting* one : waiting) one->done = true;
  finished.SignalAll();
}

void Committer::Impl::Break(const absl::Status& why, const std::vector<Waiting*>& waiting) {
  const absl::Status unavailable = absl::UnavailableError(absl::StrCat(
      "the coordinator's store can no longer be trusted (", why.message(),
      "); nothing of this was confirmed. Restart the coordinator: it goes on from what is safe"));
  {
    MutexLock lock(&mutex);
    closed = unavailable;
    AnswerCommands(unavailable, waiting);
    new_messages.clear();
  }
  messages.clear();
  LogError("a commit failed: ", why.ToString(), "; no result is acknowledged any more");
  if (on_broken) on_broken(why);
}

void Committer::Impl::Run() {
  thread_id = std::this_thread::get_id();
  bool more = dispatcher.HasInternalWork();
  bool folding = false;  // the last rounds of a shutdown
  for (;;) {
    if (!TakeArrivals(more)) {
      if (folding) break;
      folding = true;
      ledger.FoldAll();
      if (!ledger.HasFolds()) break;
    }
    Round round = NextRound();
    const bool may_write = !round.empty() || ledger.HasFolds() || dispatcher.HasInternalWork();
    // When it is time to stop: what has not been committed stays with its workers.
    if (may_write && !AwaitRoom(round)) break;
    bool progressed = false;
    const absl::Status status = DoRound(round, &progressed);
    if (!status.ok()) {
      Break(status, round.waiting);
      return;
    }
    // A round that did nothing changes nothing by being repeated.
    more = progressed && (ledger.HasFolds() || dispatcher.HasInternalWork());
  }
  MutexLock lock(&mutex);
  closed = Closed();
}

Committer::Committer(CommitterOptions options, Store& store, Dispatcher& dispatcher, Clock& clock,
                     Send send, std::function<void(absl::Status)> on_broken)
    : impl_(std::make_unique<Impl>(options, store, dispatcher, clock, std::move(send),
                                   std::move(on_broken))) {
  MutexLock lock(&impl_->join_mutex);
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

Committer::~Committer() { Shutdown(); }

void Committer::AddResults(WorkerNumber worker, v1::ResultBatch batch) {
  if (batch.results().empty()) return;
  MutexLock lock(&impl_->mutex);
  if (impl_->stopping || !impl_->closed.ok()) return;  // the worker keeps and resends them
  impl_->new_messages.push_back({worker, std::move(batch)});
  impl_->arrived.Signal();
}

absl::Status Committer::Execute(JobCommand command) {
  Impl::Waiting waiting;
  waiting.command = std::move(command);
  MutexLock lock(&impl_->mutex);
  if (!impl_->closed.ok()) return impl_->closed;
  if (impl_->stopping) return Closed();
  impl_->new_commands.push_back(&waiting);
  impl_->arrived.Signal();
  while (!waiting.done) impl_->finished.Wait(&impl_->mutex);
  return waiting.status;
}

void Committer::Nudge() {
  MutexLock lock(&impl_->mutex);
  impl_->nudged = true;
  impl_->arrived.Signal();
}

void Committer::Shutdown() {
  {
    MutexLock lock(&impl_->mutex);
    impl_->stopping = true;
    impl_->arrived.Signal();
  }
  // From on_broken: the thread is at its end, and whoever destroys this waits for it.
  if (impl_->thread_id.load() == std::this_thread::get_id()) return;
  MutexLock lock(&impl_->join_mutex);
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace nightshift
