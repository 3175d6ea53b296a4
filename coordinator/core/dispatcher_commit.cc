// Prepare decides what a commit writes; Apply makes it true in memory once it is durable.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "coordinator/core/dispatcher_impl.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/outcome.h"
#include "coordinator/core/retry_policy.h"

namespace nightshift {
namespace {

// Rows that one commit writes for requests whose worker is lost; the rest waits for the next.
constexpr size_t kLossesPerCommitMax = 16384;

}  // namespace

JobDraft* Dispatcher::Impl::Draft(Job* job) {
  const auto it = outstanding.drafts.find(job->number);
  if (it != outstanding.drafts.end()) return &it->second;
  return &outstanding.drafts.emplace(job->number, DraftOf(*job)).first->second;
}

ResultDecision Dispatcher::Impl::Decide(const ResultEvent& event, MonotonicTime now,
                                        absl::Time wall, MonotonicTime* retry_due) {
  const v1::AttemptResult& result = event.result;
  ResultDecision decision;
  decision.id = {result.key().job(), result.key().index()};
  const uint64_t index = decision.id.index;
  Job* job = jobs.Find(decision.id.job);
  if (job == nullptr || job->ended() || !JobStateInfo(job->record.state()).takes_results ||
      index >= job->queue->total()) {
    return decision;
  }
  const RequestState state = job->queue->StateOf(index);
  if (state == RequestState::kFinished || state == RequestState::kCommitting) {
    decision.kind = ResultDecision::Kind::kDuplicate;
    return decision;
  }
  if (OfAnEarlierRun(*job, result.run(), result.kind())) return decision;
  const Lease* lease =
      state == RequestState::kLeased ? leases.FindOf(decision.id, event.worker) : nullptr;
  Measure(result, job, event.worker, lease);

  RequestAttempts attempts;
  bool has_row = false;
  if (!job->attempts.empty()) {
    const auto known = job->attempts.find(index);
    has_row = known != job->attempts.end();
    if (has_row) attempts = known->second;
  }

  v1::OutcomeKind outcome = v1::OUTCOME_UNSPECIFIED;
  int32_t counted = attempts.charged + 1;
  const bool moves_on =
      lease != nullptr && result.attempt() == lease->attempt && MovesOn(*job, lease, result);
  if (result.kind() == v1::AttemptResult::ANSWERED) {
    outcome = v1::OUTCOME_SUCCEEDED;
  } else if (moves_on) {
    // The next backend of the route is asked at once, whatever the attempts: it has failed nothing.
    decision.kind = ResultDecision::Kind::kRetry;
    const bool charged = result.charged() || result.kind() == v1::AttemptResult::REJECTED;
    decision.attempts.set_charged(attempts.charged + (charged ? 1 : 0));
    decision.attempts.set_lost_workers(attempts.lost_workers);
    decision.attempts.set_last_class(result.error_class());
    decision.attempts.set_last_error(result.error_message());
    decision.attempts.set_moves(lease->way.moves + 1);
    *retry_due = now;
  } else if (result.kind() == v1::AttemptResult::REJECTED) {
    // Sent again after it has moved the request on.
    if (job->router != nullptr && result.attempt() < attempts.charged) return decision;
    outcome = v1::OUTCOME_FAILED;
  } else {
    // A failure says something about the attempt of its holder only; of anyone else it would count
    // an attempt that somebody else is making right now. And it says it once: sent again, it names
    // an attempt that is over.
    if (lease == nullptr || result.attempt() != lease->attempt) return decision;
    // Another call for it is under way: that one decides, and this one has cost no attempt.
    if (leases.FindCopy(decision.id) != nullptr) {
      leases.Release(decision.id, event.worker);
      return decision;
    }
    const RetryDecision retry =
        DecideRetry(attempts.charged, result.charged(), job->record.options().max_attempts(),
                    absl::Milliseconds(result.retry_after_ms()), random);
    if (retry.exhausted) {
      outcome = v1::OUTCOME_FAILED;
      counted = retry.charged;
    } else {
      decision.kind = ResultDecision::Kind::kRetry;
      decision.attempts.set_charged(retry.charged);
      decision.attempts.set_lost_workers(attempts.lost_workers);
      decision.attempts.set_moves(attempts.moves);
      decision.attempts.set_last_class(result.error_class());
      decision.attempts.set_last_error(result.error_message());
      decision.attempts.set_broke(retry.charged > attempts.charged
                                      ? result.error_class() == v1::ERROR_CLASS_CONNECTION_ERROR
                                      : attempts.broke);
      *retry_due = now + retry.delay;
    }
  }
  JobDraft* draft = Draft(job);
  NoteStarted(draft, wall);
  if (outcome != v1::OUTCOME_UNSPECIFIED) {
    decision.kind = ResultDecision::Kind::kRecord;
    const Worker* worker = workers.Find(event.worker);
    FillOutcome(result, outcome, counted, worker == nullptr ? "" : worker->name,
                job->record.created_at_ms(), wall, &decision.outcome);
    if (lease != nullptr && lease->way.moved) decision.outcome.set_moved(true);
    decision.delete_attempts_row = has_row;
    CountOutcome(decision.outcome, draft);
  }
  for (const Lease* other : {leases.Find(decision.id), leases.FindCopy(decision.id)}) {
    if (other == nullptr || other->worker == event.worker) continue;
    outstanding.superseded.push_back({other->worker, decision.id});
  }
  leases.Remove(decision.id);
  job->queue->BeginCommit(index, state);
  return decision;
}

void Dispatcher::Impl::Measure(const v1::AttemptResult& result, Job* job, WorkerNumber number,
                               const Lease* lease) {
  if (!result.has_timing() || result.timing().latency_ms() < 0) return;
  // Told in whole milliseconds, and none is for nothing.
  const double seconds = std::max(0.5, static_cast<double>(result.timing().latency_ms())) / 1000;
  job->work.Add(seconds);
  const Worker* worker = workers.Find(number);
  if (lease == nullptr || worker == nullptr || result.kind() != v1::AttemptResult::ANSWERED) return;
  job->durations.Add(seconds, worker->backends[lease->backend].latency_seconds);
}

void Dispatcher::Impl::CountOutcome(const v1::OutcomeRecord& outcome, JobDraft* draft) {
  AddToSums(outcome, &draft->sums);
  ++draft->finished;
  ++(outcome.kind() == v1::OUTCOME_SUCCEEDED ? draft->sampled_succeeded : draft->sampled_failed);
}

void Dispatcher::Impl::DecideLosses(CommitPlan* plan, absl::Time wall) {
  const std::set<WorkerNumber> gone = lost;
  for (const WorkerNumber number : gone) {
    const Worker* worker = workers.Find(number);
    const bool together = worker != nullptr && worker->gone_on_trial && LostTogether(*worker);
    std::vector<RequestId> held = leases.HeldBy(number);
    const std::vector<RequestId> copies = leases.CopiesOf(number);
    held.insert(held.end(), copies.begin(), copies.end());
    bool rest = false;
    for (const RequestId& id : held) {
      if (plan->losses.size() >= kLossesPerCommitMax) return;
      if (jobs.Find(id.job)->queue->StateOf(id.index) == RequestState::kCommitting) {
        rest = true;  // both that had it are lost: one after the other
        continue;
      }
      plan->losses.push_back(DecideLoss(id, number, worker, together, wall));
      outstanding.lost_with.push_back(number);
    }
    SetLost(number, rest);
  }
}

ResultDecision Dispatcher::Impl::DecideLoss(const RequestId& id, WorkerNumber number,
                                            const Worker* worker, bool together, absl::Time wall) {
  Job* job = jobs.Find(id.job);
  const auto known = job->attempts.find(id.index);
  const bool has_row = known != job->attempts.end();
  const RequestAttempts before = has_row ? known->second : RequestAttempts{};
  const std::string name = worker == nullptr ? "" : worker->name;
  ResultDecision decision;
  decision.id = id;
  JobDraft* draft = Draft(job);
  const bool last = leases.FindCopy(id) == nullptr;
  if (last &&
      IsConvicted(before.lost_workers, worker != nullptr && worker->gone_on_trial, together)) {
    decision.kind = ResultDecision::Kind::kRecord;
    decision.delete_attempts_row = has_row;
    v1::AttemptResult result;
    result.set_backend(worker->backends[leases.Find(id)->backend].name);
    result.set_error_class(v1::ERROR_CLASS_WORKER_CRASHED);
    result.set_error_message(absl::StrCat(
        before.lost_workers + 1, " workers died while they held this request, the last (", name,
        ") while it held nothing else: it is not tried again, so that it takes "
        "no more of them down"));
    FillOutcome(result, v1::OUTCOME_FAILED, before.charged + before.lost_workers + 1, name,
                job->record.created_at_ms(), wall, &decision.outcome);
    CountOutcome(decision.outcome, draft);
    LogError("request ", id.index, " of job ", job->record.id(),
             " has failed: ", result.error_message());
  } else {
    decision.kind = ResultDecision::Kind::kRetry;
    decision.attempts.set_charged(before.charged);
    decision.attempts.set_lost_workers(before.lost_workers + 1);
    decision.attempts.set_broke(before.broke);
    decision.attempts.set_moves(before.moves);
    decision.attempts.set_last_class(v1::ERROR_CLASS_WORKER_CRASHED);
    decision.attempts.set_last_error(absl::StrCat("worker ", name, " died while it held it"));
  }
  // If another has it too, that one has the lease from now on; see ApplyLoss.
  leases.Release(id, number);
  job->queue->BeginCommit(id.index, RequestState::kLeased);
  return decision;
}

absl::Status Dispatcher::Impl::PrepareSeal(const JobCommand& command, absl::Time wall) {
  const std::string& token = command.record.idempotency_token();
  if (const auto other = jobs.FindToken(token); other.has_value()) {
    return absl::AlreadyExistsError(jobs.Find(*other)->record.id());
  }
  for (const auto& [number, draft] : outstanding.drafts) {
    // Only a job that is being sealed in this commit can have a token that is not found above.
    if (!token.empty() && draft.record.idempotency_token() == token) {
      return absl::AlreadyExistsError(draft.record.id());
    }
    if (number == command.job || draft.record.id() == command.record.id()) {
      return absl::AlreadyExistsError(draft.record.id());
    }
  }
  const auto same_id = jobs.FindId(command.record.id());
  if (jobs.Find(command.job) != nullptr ||
      (same_id.ok() && jobs.Find(*same_id)->record.id() == command.record.id())) {
    return absl::AlreadyExistsError(command.record.id());
  }
  JobDraft draft;
  draft.record = command.record;
  v1::JobRecord& record = draft.record;
  record.set_state(v1::JOB_STATE_VALIDATING);
  MoveJob(&record, v1::JOB_STATE_QUEUED, wall);
  if (record.run() == 0) record.set_run(1);
  if (record.created_at_ms() == 0) record.set_created_at_ms(absl::ToUnixMillis(wall));
  if (record.deadline_at_ms() == 0 && record.options().deadline_ms() > 0) {
    record.set_deadline_at_ms(record.created_at_ms() + record.options().deadline_ms());
  }
  draft.finished = static_cast<int64_t>(command.invalid.size());
  if (draft.finished > 0) {
    draft.sums.set_failed(draft.finished);
    (*draft.sums.mutable_failed_by_class())[v1::ERROR_CLASS_INVALID_REQUEST] = draft.finished;
  }
  draft.write_row = true;
  outstanding.drafts.emplace(command.job, std::move(draft));
  return absl::OkStatus();
}

absl::Status Dispatcher::Impl::PrepareCommand(const JobCommand& command, absl::Time wall) {
  if (command.kind == JobCommand::Kind::kSeal) return PrepareSeal(command, wall);
  const auto it = outstanding.drafts.find(command.job);
  Job* job = jobs.Find(command.job);
  if ((job == nullptr && it == outstanding.drafts.end()) ||
      (it != outstanding.drafts.end() && it->second.erase)) {
    return absl::NotFoundError(absl::StrCat("there is no job with number ", command.job));
  }
  return ApplyCommand(command, wall, it != outstanding.drafts.end() ? &it->second : Draft(job));
}

CommitPlan Dispatcher::Impl::Prepare(absl::Span<const ResultEvent> results,
                                     absl::Span<const JobCommand> commands,
                                     std::vector<absl::Status>* refused, MonotonicTime now,
                                     absl::Time wall) {
  MutexLock lock(&mutex);
  NIGHTSHIFT_CHECK(!plan_outstanding, "the last plan has not been applied");
  NIGHTSHIFT_CHECK(outstanding.drafts.empty() && outstanding.retry_due.empty(), "left-overs");
  CommitPlan plan;
  plan.decisions.resize(results.size());
  outstanding.retry_due.assign(results.size(), now);
  WorkerNumber heard = 0;
  // Answers first: one that comes together with a failed attempt of the same request was paid for,
  // and must not be taken for a second result of what is only to be tried again.
  for (const bool retries : {false, true}) {
    for (size_t i = 0; i < results.size(); ++i) {
      const ResultEvent& event = results[i];
      if ((event.result.kind() == v1::AttemptResult::RETRY) != retries) continue;
      if (event.worker != heard) {
        heard = event.worker;
        if (Worker* worker = workers.Find(heard); worker != nullptr) {
          const WorkerState before = worker->state;
          workers.Heard(worker, now);
          NoteAlive(worker, before);
        }
      }
      plan.decisions[i] = Decide(event, now, wall, &outstanding.retry_due[i]);
      if (plan.decisions[i].kind == ResultDecision::Kind::kDuplicate) ++duplicate_results;
    }
  }
  // What arrived before its worker was lost counts for more than the loss.
  DecideLosses(&plan, wall);
  // What the answers have ended has ended before the commands are looked at: a cancellation that
  // comes with the last answer is too late.
  for (auto& [number, draft] : outstanding.drafts) CompleteIfDone(&draft, wall);

  refused->clear();
  for (const JobCommand& command : commands) {
    refused->push_back(PrepareCommand(command, wall));
    if (refused->back().ok()) plan.commands.push_back(command);
  }
  for (const JobNumber number : internal_work) {
    if (Job* job = jobs.Find(number); job != nullptr) Draft(job);
  }

  for (auto& [number, draft] : outstanding.drafts) {
    Settle(&draft, wall);
    if (Job* job = jobs.Find(number); job != nullptr) {
      job->closing = draft.erase || !JobStateInfo(draft.record.state()).runnable;
    }
    if (draft.erase) {
      plan.job_writes.push_back({number, draft.record, true});
    } else if (draft.write_row) {
      draft.record.set_lease_frontier(std::max(draft.record.lease_frontier(), draft.frontier));
      plan.job_writes.push_back({number, draft.record, false});
    }
  }
  // A plan without anything to write need not be applied (a duplicate, a pause of a paused job).
  plan_outstanding =
      !plan.job_writes.empty() || !plan.losses.empty() ||
      std::any_of(plan.decisions.begin(), plan.decisions.end(), [](const auto& d) {
        return d.kind == ResultDecision::Kind::kRecord || d.kind == ResultDecision::Kind::kRetry;
      });
  if (!plan_outstanding) Forget();
  return plan;
}

void Dispatcher::Impl::Forget() {
  for (const auto& [number, draft] : outstanding.drafts) {
    if (Job* job = jobs.Find(number); job != nullptr) job->closing = false;
  }
  outstanding = Outstanding{};
}

void Dispatcher::Impl::ApplyDecision(const ResultDecision& decision, MonotonicTime due,
                                     MonotonicTime now) {
  if (decision.kind == ResultDecision::Kind::kRecord) {
    Job* job = jobs.Find(decision.id.job);
    job->queue->Finish(decision.id.index);
    if (!job->attempts.empty()) job->attempts.erase(decision.id.index);
    job->rate.Add(1, decision.outcome.usage().completion_tokens(), now);
  } else if (decision.kind == ResultDecision::Kind::kRetry) {
    Job* job = jobs.Find(decision.id.job);
    job->queue->RetryAt(decision.id.index, due);
    RequestAttempts& attempts = job->attempts[decision.id.index];
    attempts.moves = decision.attempts.moves();
    attempts.charged = decision.attempts.charged();
    attempts.broke = decision.attempts.broke();
    job->queue->SetCaution(decision.id.index, job->CautionOf(attempts));
  }
}

void Dispatcher::Impl::ApplyLoss(const ResultDecision& decision, WorkerNumber worker,
                                 MonotonicTime now) {
  if (decision.kind == ResultDecision::Kind::kRetry) {
    Job* job = jobs.Find(decision.id.job);
    RequestAttempts& attempts = job->attempts[decision.id.index];
    Worker* from = workers.Find(worker);
    // While this was being written it may have turned out to be alive.
    if (from == nullptr || from->state == WorkerState::kGone) {
      ++attempts.lost_workers;
      attempts.lost_with = worker;
      if (from != nullptr) from->losses_counted = true;
    }
  }
  ApplyDecision(decision, now, now);
  if (leases.Find(decision.id) == nullptr) return;
  const bool goes_on = jobs.Find(decision.id.job)->queue->Claim(decision.id.index);
  NIGHTSHIFT_CHECK(goes_on, "a copy of what cannot be held");
}

void Dispatcher::Impl::ApplyOpening(const JobCommand& command, MonotonicTime now) {
  const JobDraft& draft = outstanding.drafts.at(command.job);
  if (draft.erase) return;  // sealed or run again, and deleted in the same commit
  const auto total = static_cast<uint64_t>(draft.record.total());
  if (command.kind == JobCommand::Kind::kSeal) {
    auto job = std::make_unique<Job>();
    job->number = command.job;
    job->record = draft.record;
    job->model_set =
        model_sets.Intern({draft.record.models().begin(), draft.record.models().end()});
    job->queue = std::make_unique<PendingQueue>(total);
    SetRoute(job.get());
    for (const uint64_t index : command.invalid) job->queue->FinishUnused(index);
    jobs.Add(std::move(job));
  } else if (command.kind == JobCommand::Kind::kReopen) {
    Job* job = jobs.Find(command.job);
    job->queue = std::make_unique<PendingQueue>(total, command.finished_bitmaps, 0, now);
    SetRoute(job);
    job->attempts.clear();
    job->rate = RateMeter();
  }
}

void Dispatcher::Impl::ApplyDraft(JobNumber number, JobDraft draft,
                                  std::map<WorkerNumber, std::vector<RequestId>>* given_up) {
  SetInternalWork(number, false);
  Job* job = jobs.Find(number);
  const JobStateRow& state = JobStateInfo(draft.record.state());
  if ((draft.erase || !state.takes_results) && job != nullptr && !job->ended()) {
    for (const uint64_t index : job->queue->Leased()) {
      const RequestId id{number, index};
      while (const Lease* lease = leases.Find(id)) {
        const WorkerNumber holder = lease->worker;
        (*given_up)[holder].push_back(id);
        TakeBack(id, holder);
      }
    }
  }
  if (draft.erase) {
    jobs.Erase(number);
    return;
  }
  job->record = std::move(draft.record);
  job->sums = std::move(draft.sums);
  job->sampled_succeeded = draft.sampled_succeeded;
  job->sampled_failed = draft.sampled_failed;
  job->closing = false;
  if (state.terminal) {
    job->queue.reset();
    job->attempts = {};
  }
  jobs.UpdateActive(*job);
  if (job->record.state() == v1::JOB_STATE_CANCELLING) SetInternalWork(number, true);
  Touch(job);
}

std::vector<Outgoing> Dispatcher::Impl::Apply(const CommitPlan& plan, MonotonicTime now) {
  std::vector<Outgoing> outgoing;
  const auto revoke = [&outgoing](WorkerNumber worker, const std::vector<RequestId>& ids,
                                  absl::string_view why) {
    Outgoing& to = outgoing.emplace_back();
    to.worker = worker;
    v1::Revoke* message = to.message.mutable_revoke();
    message->set_why(why.data(), why.size());
    for (const RequestId& id : ids) {
      v1::RequestKey* key = message->add_keys();
      key->set_job(id.job);
      key->set_index(id.index);
    }
  };

  MutexLock lock(&mutex);
  if (!plan_outstanding) return outgoing;
  NIGHTSHIFT_CHECK(plan.decisions.size() == outstanding.retry_due.size(),
                   "this is not the plan that was prepared last");
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    ApplyDecision(plan.decisions[i], outstanding.retry_due[i], now);
  }
  NIGHTSHIFT_CHECK(plan.losses.size() == outstanding.lost_with.size(),
                   "this is not the plan that was prepared last");
  for (size_t i = 0; i < plan.losses.size(); ++i) {
    ApplyLoss(plan.losses[i], outstanding.lost_with[i], now);
  }
  // Their next attempts are due at once.
  absl::flat_hash_set<JobNumber> advanced;
  for (const ResultDecision& loss : plan.losses) {
    if (advanced.insert(loss.id.job).second) jobs.Find(loss.id.job)->queue->Advance(now);
  }
  for (const JobCommand& command : plan.commands) ApplyOpening(command, now);
  std::map<WorkerNumber, std::vector<RequestId>> given_up;
  for (auto& [number, draft] : outstanding.drafts) {
    ApplyDraft(number, std::move(draft), &given_up);
  }
  std::map<WorkerNumber, std::vector<RequestId>> superseded;
  for (const auto& [worker, id] : outstanding.superseded) superseded[worker].push_back(id);
  for (const auto& [worker, ids] : given_up) revoke(worker, ids, "the job has been stopped");
  for (const auto& [worker, ids] : superseded) {
    revoke(worker, ids, "another worker has brought the answer");
  }
  outstanding = Outstanding{};
  plan_outstanding = false;
  return outgoing;
}

}  // namespace nightshift
