#include "coordinator/commit/commit_rounds.h"

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "coordinator/commit/commit_rows.h"

namespace nightshift {
namespace {

// Commands that one commit takes; the rest waits for the next.
constexpr size_t kCommandsPerCommitMax = 1024;
// Room for the row beside each answer, and for folds, job rows and what others write at the same
// time: generous, since too little means a commit that the store refuses.
constexpr size_t kRowBytesPerResult = 2048;
constexpr size_t kOtherBytes = size_t{8} << 20;

// Whether the command was decided on rows that any other command for the same job may change.
bool RestsOnRows(JobCommand::Kind kind) {
  return kind == JobCommand::Kind::kReopen || kind == JobCommand::Kind::kDelete;
}

}  // namespace

CommitRounds::CommitRounds(CommitterOptions options, Store& store, Dispatcher& dispatcher,
                           Clock& clock, Send send, Answer answer)
    : options_(options),
      store_(store),
      dispatcher_(dispatcher),
      clock_(clock),
      send_(std::move(send)),
      answer_(std::move(answer)),
      ledger_(store, options.deltas_per_chunk_max, [this](JobNumber job) { return TotalOf(job); }),
      more_(dispatcher.HasInternalWork()) {}

absl::StatusOr<int64_t> CommitRounds::TotalOf(JobNumber job) const {
  ASSIGN_OR_RETURN(const v1::JobRecord record, dispatcher_.GetRecord(job));
  return record.total();
}

void CommitRounds::Add(WorkerNumber worker, v1::ResultBatch batch) {
  messages_.push_back({worker, std::move(batch)});
}

void CommitRounds::DropWaiting(WorkerNumber worker) {
  std::erase_if(messages_, [worker](const Message& message) { return message.worker == worker; });
}

void CommitRounds::Add(WaitingCommand* command) { commands_.push_back(command); }

void CommitRounds::TakeRound() {
  if (std::exchange(taken_, true)) return;
  TakeResults();
  TakeCommands();
}

bool CommitRounds::NeedsRoom() {
  TakeRound();
  return !results_.empty() || !waiting_.empty() || more_;
}

absl::Status CommitRounds::CheckRoom() const {
  size_t bytes = results_.size() * kRowBytesPerResult + kOtherBytes;
  for (const ResultEvent& event : results_) bytes += event.result.body().size();
  for (const WaitingCommand* waiting : waiting_) bytes += waiting->command.extra.byte_size();
  return store_.CheckRoom(bytes);
}

void CommitRounds::TakeResults() {
  results_.clear();
  size_t bytes = 0;
  while (!messages_.empty()) {
    Message& message = messages_.front();
    auto& results = *message.batch.mutable_results();
    for (; message.next < results.size(); ++message.next) {
      v1::AttemptResult& result = results[message.next];
      const bool full = results_.size() >= options_.batch_results_max ||
                        bytes + result.body().size() > options_.batch_bytes_max;
      // One result alone may be larger than the limit.
      if (full && !results_.empty()) return;
      bytes += result.body().size();
      results_.push_back({message.worker, std::move(result)});
    }
    messages_.pop_front();
  }
}

void CommitRounds::TakeCommands() {
  waiting_.clear();
  absl::flat_hash_set<JobNumber> jobs;
  while (!commands_.empty() && waiting_.size() < kCommandsPerCommitMax) {
    WaitingCommand* const next = commands_.front();
    const bool first_of_job = jobs.insert(next->command.job).second;
    if (!first_of_job && RestsOnRows(next->command.kind)) break;
    waiting_.push_back(next);
    commands_.pop_front();
    if (RestsOnRows(next->command.kind)) break;
  }
}

absl::Status CommitRounds::CheckConditions(const WriteSet& extra) const {
  for (const WriteSet::Condition& condition : extra.conditions()) {
    const absl::StatusOr<std::string> value = store_.Get(condition.family, condition.key);
    if (!value.ok() && !absl::IsNotFound(value.status())) return value.status();
    const bool holds = condition.present ? value.ok() && *value == condition.value : !value.ok();
    if (!holds) {
      return absl::AbortedError("the job has changed in the meantime; look at it and try again");
    }
  }
  return absl::OkStatus();
}

absl::Status CommitRounds::DoRound() {
  TakeRound();
  taken_ = false;
  // Nobody else writes a sealed job's rows, so what a command rests on can be checked here, and one
  // stale command does not undo everybody's commit.
  std::vector<JobCommand> asked;
  std::vector<WaitingCommand*> askers;
  for (WaitingCommand* waiting : waiting_) {
    waiting->status = CheckConditions(waiting->command.extra);
    if (!waiting->status.ok()) continue;
    asked.push_back(std::move(waiting->command));
    askers.push_back(waiting);
  }
  std::vector<absl::Status> refused;
  CommitPlan plan = dispatcher_.Prepare(results_, asked, &refused, clock_.Now(), clock_.WallNow());
  std::vector<const WriteSet*> extras;
  for (size_t i = 0; i < asked.size(); ++i) {
    askers[i]->status = refused[i];
    if (refused[i].ok()) extras.push_back(&asked[i].extra);
  }

  WriteSet writes;
  RETURN_IF_ERROR(AddCommitRows(plan, absl::MakeSpan(results_), extras, ledger_, writes));
  const bool progressed = !results_.empty() || !waiting_.empty() || !writes.empty();
  if (writes.empty()) {
    // Others write too (submissions); whoever saw it fail nudges.
    RETURN_IF_ERROR(store_.Health());
  } else {
    RETURN_IF_ERROR(store_.Commit(std::move(writes)));
  }

  const std::vector<Outgoing> messages_out =
      dispatcher_.Apply(plan, clock_.Now(), clock_.WallNow());
  if (options_.observer != nullptr) options_.observer->OnCommit(results_, plan);
  Acknowledge();
  for (const Outgoing& message : messages_out) send_(message);
  if (!waiting_.empty()) answer_(std::exchange(waiting_, {}));
  // A round that did nothing changes nothing by being repeated.
  more_ = progressed && (ledger_.HasFolds() || dispatcher_.HasInternalWork());
  return absl::OkStatus();
}

void CommitRounds::Acknowledge() {
  // Dropped and duplicate ones too: the worker need not keep them. By number of the worker, so that
  // equal rounds send in equal order.
  std::map<WorkerNumber, Outgoing> by_worker;
  Outgoing* last = nullptr;
  for (const ResultEvent& event : results_) {
    if (last == nullptr || last->worker != event.worker) {
      last = &by_worker[event.worker];
      last->worker = event.worker;
    }
    last->message.mutable_acknowledge()->add_sequences(event.result.sequence());
  }
  for (const auto& [worker, message] : by_worker) send_(message);
}

bool CommitRounds::FoldAll() {
  ledger_.FoldAll();
  more_ = more_ || ledger_.HasFolds();
  return ledger_.HasFolds();
}

std::vector<WaitingCommand*> CommitRounds::TakeUnanswered() {
  std::vector<WaitingCommand*> unanswered = std::exchange(waiting_, {});
  unanswered.insert(unanswered.end(), commands_.begin(), commands_.end());
  commands_.clear();
  return unanswered;
}

}  // namespace nightshift
