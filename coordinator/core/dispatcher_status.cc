// What people see of jobs and workers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/units.h"
#include "coordinator/core/dispatcher_impl.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/waiting.h"

namespace nightshift {

v1::Counts Dispatcher::Impl::CountsOf(const Job& job) const {
  v1::Counts counts;
  counts.set_total(job.record.total());
  counts.set_succeeded(job.sums.succeeded());
  counts.set_failed(job.sums.failed());
  if (job.ended()) {
    counts.set_cancelled(job.record.cancelled());
    counts.set_expired(job.record.expired());
    return counts;
  }
  // A result that is being written is still out as far as anyone can rely on it.
  counts.set_in_flight(static_cast<int64_t>(job.queue->leased() + job.queue->committing()));
  // While a job is being cancelled nothing of it will be tried again.
  if (JobStateInfo(job.record.state()).takes_results) {
    counts.set_retrying(static_cast<int64_t>(job.queue->retrying()));
  }
  counts.set_pending(counts.total() - counts.succeeded() - counts.failed() - counts.in_flight() -
                     counts.retrying());
  return counts;
}

absl::StatusOr<v1::JobStatus> Dispatcher::Impl::GetStatus(JobNumber number,
                                                          MonotonicTime now) const {
  MutexLock lock(&mutex);
  const Job* job = jobs.Find(number);
  if (job == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no job with number ", number));
  }
  const v1::JobRecord& record = job->record;
  v1::JobStatus status;
  status.set_id(record.id());
  status.set_name(record.options().name());
  status.set_state(record.state());
  status.set_reason(record.reason());
  status.set_state_detail(record.state_detail());
  status.set_created_at_ms(record.created_at_ms());
  status.set_started_at_ms(record.started_at_ms());
  status.set_finished_at_ms(record.finished_at_ms());
  status.set_deadline_at_ms(record.deadline_at_ms());
  *status.mutable_counts() = CountsOf(*job);
  status.set_prompt_tokens(job->sums.prompt_tokens());
  status.set_completion_tokens(job->sums.completion_tokens());
  status.set_cost_usd(job->sums.cost_usd());
  status.set_cost_known(job->sums.cost_known());
  status.set_truncated_retries(job->sums.truncated_retries());
  status.set_empty_retries(job->sums.empty_retries());
  status.set_moved(job->sums.moved());
  *status.mutable_failed_by_class() = job->sums.failed_by_class();
  *status.mutable_options() = record.options();
  status.set_idempotency_token(record.idempotency_token());
  const bool runnable = JobStateInfo(record.state()).runnable;
  const bool held = runnable && !disk_hold.empty();
  if (held) {
    status.set_state(v1::JOB_STATE_PAUSED);
    status.set_reason(v1::PAUSE_REASON_DISK);
    status.set_state_detail(disk_hold);
    status.set_waiting_for(absl::StrCat("paused: ", disk_hold));
  } else {
    status.set_waiting_for(WaitingFor(*job, workers, model_sets, now));
  }

  if (runnable && !held && job->late_seconds > 0) {
    status.set_at_risk(absl::StrCat("with the backends there are now it would end about ",
                                    HumanDuration(absl::Seconds(job->late_seconds)),
                                    " after its deadline, and what is not answered by then "
                                    "expires; another worker, or a higher "
                                    "--priority for it, would help"));
  }

  RateMeter::Eta eta;
  if (!job->ended()) {
    const RateMeter::Rates rates = job->rate.Recent(now);
    status.set_requests_per_second(rates.requests);
    status.set_tokens_per_second(rates.tokens);
    if (runnable && !held) eta = job->rate.Remaining(job->unfinished(), now);
  }
  status.set_eta_low_seconds(eta.low_seconds);
  status.set_eta_high_seconds(eta.high_seconds);
  return status;
}

std::vector<v1::WorkerStatus> Dispatcher::Impl::ListWorkers(MonotonicTime now) const {
  MutexLock lock(&mutex);
  std::vector<v1::WorkerStatus> list;
  for (const auto& [number, worker] : workers.all()) {
    v1::WorkerStatus& status = list.emplace_back();
    status.set_name(worker.name);
    status.set_session(worker.session);
    status.set_version(worker.version);
    const absl::string_view word = WorkerStateWord(worker.state);
    status.set_state(word.data(), word.size());
    status.set_connected_at_ms(worker.connected_at_ms);
    status.set_last_seen_seconds(std::max(0.0, absl::ToDoubleSeconds(now - worker.last_heard)));
    status.set_leased(leases.CountOf(number));
    for (const Backend& backend : worker.backends) {
      v1::WorkerBackendStatus* to = status.add_backends();
      to->set_name(backend.name);
      to->set_kind(backend.kind);
      to->set_url(backend.url);
      *to->mutable_models() = {backend.models.begin(), backend.models.end()};
      to->set_state(backend.state);
      to->set_detail(backend.detail);
      to->set_limit(backend.limit);
      to->set_in_flight(backend.in_flight);
      to->set_buffered(backend.buffered);
      to->set_requests_per_second(backend.requests_per_second);
      to->set_tokens_per_second(backend.tokens_per_second);
      to->set_latency_seconds(backend.latency_seconds);
      to->set_waiting_for(backend.waiting_for);
      if (backend.cut_off && backend.waiting_for.empty() && leases.size() > 0) {
        to->set_waiting_for("nothing more of this work: faster backends end it sooner");
      }
      to->set_explain(backend.explain);
      if (backend.load_told) *to->mutable_load() = backend.load;
    }
  }
  return list;
}

void Dispatcher::Impl::CheckConsistent() const {
  MutexLock lock(&mutex);
  int64_t leased = 0;
  for (const auto& [number, job] : jobs.all()) {
    NIGHTSHIFT_CHECK(job->ended() == JobStateInfo(job->record.state()).terminal,
                     absl::StrCat("job ", job->record.id(), " has ended only half"));
    NIGHTSHIFT_CHECK(job->ended() == (jobs.active().count(number) == 0), "active jobs");
    const v1::Counts counts = CountsOf(*job);
    NIGHTSHIFT_CHECK(counts.succeeded() + counts.failed() + counts.cancelled() + counts.expired() +
                             counts.pending() + counts.in_flight() + counts.retrying() ==
                         counts.total(),
                     absl::StrCat("job ", job->record.id(), ": the counts do not add up"));
    NIGHTSHIFT_CHECK(counts.pending() >= 0, "more requests are out than there are");
    if (job->ended()) continue;
    job->queue->CheckConsistent();
    NIGHTSHIFT_CHECK(
        static_cast<int64_t>(job->queue->finished()) == job->sums.succeeded() + job->sums.failed(),
        absl::StrCat("job ", job->record.id(), ": sums and bitmap disagree"));
    for (const auto& [index, attempts] : job->attempts) {
      NIGHTSHIFT_CHECK(job->queue->CautionOf(index) == job->CautionOf(attempts),
                       absl::StrCat("request ", index, " is handed out with the wrong caution"));
    }
    for (const uint64_t index : job->queue->Leased()) {
      NIGHTSHIFT_CHECK(leases.Find({number, index}) != nullptr,
                       absl::StrCat("request ", index, " is leased to nobody"));
      ++leased;
    }
  }
  // Beside them those whose holder is lost and whose copy goes on, while that is being written.
  NIGHTSHIFT_CHECK(plan_outstanding ? leased <= leases.size() : leased == leases.size(),
                   "the lease table holds requests of no job");
  int64_t held = 0;
  for (const auto& [number, worker] : workers.all()) held += leases.CountOf(number);
  NIGHTSHIFT_CHECK(held == leases.size() + leases.copies(),
                   "the lease table holds leases of no worker");
}

}  // namespace nightshift
