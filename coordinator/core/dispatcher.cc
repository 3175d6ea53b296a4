#include "coordinator/core/dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "coordinator/core/dispatcher_impl.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/tenant.h"

namespace nightshift {
namespace {

absl::Status UnknownJob(JobNumber job) {
  return absl::NotFoundError(absl::StrCat("there is no job with number ", job));
}

}  // namespace

JobDraft Dispatcher::Impl::DraftOf(const Job& job) const {
  JobDraft draft;
  draft.record = job.record;
  draft.sums = job.sums;
  draft.finished = job.ended() ? job.sums.succeeded() + job.sums.failed()
                               : static_cast<int64_t>(job.queue->finished());
  draft.sampled_succeeded = job.sampled_succeeded;
  draft.sampled_failed = job.sampled_failed;
  draft.state_before = job.record.state();
  draft.frontier = job.ended() ? 0 : static_cast<int64_t>(job.queue->frontier());
  return draft;
}

void Dispatcher::Impl::SetInternalWork(JobNumber job, bool waits) {
  if (waits) {
    internal_work.insert(job);
  } else {
    internal_work.erase(job);
  }
  has_internal_work = !internal_work.empty() || !lost.empty();
}

void Dispatcher::Impl::SetLost(WorkerNumber worker, bool is_lost) {
  if (is_lost) {
    lost.insert(worker);
  } else {
    lost.erase(worker);
  }
  has_internal_work = !internal_work.empty() || !lost.empty();
}

void Dispatcher::Impl::Load(std::vector<LoadedJob> loaded, MonotonicTime now) {
  MutexLock lock(&mutex);
  const bool no_grace = options.reclaim_grace <= absl::ZeroDuration();
  const MonotonicTime holes_open_at = no_grace ? now : now + options.reclaim_grace;
  for (LoadedJob& from : loaded) {
    if (from.record.state() == v1::JOB_STATE_UNSPECIFIED ||
        from.record.state() == v1::JOB_STATE_VALIDATING) {
      LogError("job ", from.record.id(), " was never sealed: it is left out");
      continue;
    }
    auto made = std::make_unique<Job>();
    made->number = from.number;
    const bool ended = JobStateInfo(from.record.state()).terminal;
    made->sums =
        ended && from.record.has_final_sums() ? from.record.final_sums() : std::move(from.sums);
    made->record = std::move(from.record);
    made->model_set =
        model_sets.Intern({made->record.models().begin(), made->record.models().end()});
    SetRoute(made.get());
    if (!ended) {
      made->queue = std::make_unique<PendingQueue>(
          static_cast<uint64_t>(made->record.total()), from.finished_bitmaps,
          static_cast<uint64_t>(made->record.lease_frontier()), holes_open_at);
      for (const auto& [index, attempts] : from.attempts) {
        RequestAttempts& to = made->attempts[index];
        to.charged = attempts.charged();
        to.lost_workers = attempts.lost_workers();
        to.moves = attempts.moves();
        to.broke = attempts.broke();
        made->queue->SetCaution(index, made->CautionOf(to));
      }
      made->queue->Advance(now);
      if (static_cast<int64_t>(made->queue->finished()) !=
          made->sums.succeeded() + made->sums.failed()) {
        LogError("job ", made->record.id(), ": the store says ", made->queue->finished(),
                 " requests are finished but counts ", made->sums.succeeded() + made->sums.failed(),
                 "; nightshift audit ", made->record.id(), " says more");
      }
    }
    Job* job = jobs.Add(std::move(made));
    Touch(job);
    JobDraft draft = DraftOf(*job);
    Settle(&draft, absl::UnixEpoch());
    if (draft.write_row) SetInternalWork(job->number, true);
  }
}

Dispatcher::Dispatcher(DispatcherOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
Dispatcher::~Dispatcher() = default;

void Dispatcher::SetWakeUp(std::function<void()> wake_up) { impl_->wake_up = std::move(wake_up); }

void Dispatcher::Load(std::vector<LoadedJob> jobs, MonotonicTime now) {
  impl_->Load(std::move(jobs), now);
  impl_->WakeUp();
}

absl::StatusOr<Dispatcher::HelloReply> Dispatcher::OnHello(const v1::Hello& hello,
                                                           MonotonicTime now, absl::Time wall) {
  auto reply = impl_->OnHello(hello, now, wall);
  impl_->WakeUp();
  return reply;
}

v1::RateShares Dispatcher::OnReport(WorkerNumber worker, const v1::Report& report,
                                    MonotonicTime now) {
  bool matters = false;
  v1::RateShares shares = impl_->OnReport(worker, report, now, &matters);
  if (matters) impl_->WakeUp();
  return shares;
}

void Dispatcher::OnReturned(WorkerNumber worker, const v1::Returned& returned, MonotonicTime now) {
  impl_->OnReturned(worker, returned, now);
  impl_->WakeUp();
}

void Dispatcher::OnDrain(WorkerNumber worker, const v1::Drain&, MonotonicTime now) {
  impl_->OnDrain(worker, now);
  impl_->WakeUp();
}

void Dispatcher::OnStreamClosed(WorkerNumber worker, MonotonicTime now) {
  impl_->OnStreamClosed(worker, now);
  impl_->WakeUp();
}

void Dispatcher::Tick(MonotonicTime now) {
  impl_->Tick(now);
  impl_->WakeUp();
}

GrantPlan Dispatcher::PlanGrants(MonotonicTime now) { return impl_->PlanGrants(now); }

std::vector<bool> Dispatcher::Route(WorkerNumber worker, absl::Span<const RequestId> ids,
                                    absl::Span<const std::string* const> custom_ids) {
  std::vector<bool> keep = impl_->Route(worker, ids, custom_ids);
  // Somebody else may take them now, and the worker has room for others.
  if (std::find(keep.begin(), keep.end(), false) != keep.end()) impl_->WakeUp();
  return keep;
}

// No wake-up: whoever could not send would be asked to plan the same again at once.
void Dispatcher::Ungrant(WorkerNumber worker, absl::Span<const RequestId> ids, MonotonicTime) {
  impl_->Ungrant(worker, ids);
}

void Dispatcher::HoldForDisk(std::string why) {
  {
    MutexLock lock(&impl_->mutex);
    impl_->disk_hold = std::move(why);
    impl_->TouchFleet();
  }
  impl_->WakeUp();
}

absl::Status Dispatcher::TakesNewJobs() const {
  MutexLock lock(&impl_->mutex);
  if (impl_->disk_hold.empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("no new job is taken: ", impl_->disk_hold));
}

CommitPlan Dispatcher::Prepare(absl::Span<const ResultEvent> results,
                               absl::Span<const JobCommand> commands,
                               std::vector<absl::Status>* refused, MonotonicTime now,
                               absl::Time wall) {
  return impl_->Prepare(results, commands, refused, now, wall);
}

std::vector<Outgoing> Dispatcher::Apply(const CommitPlan& plan, MonotonicTime now, absl::Time) {
  std::vector<Outgoing> outgoing = impl_->Apply(plan, now);
  impl_->WakeUp();
  return outgoing;
}

bool Dispatcher::HasInternalWork() const { return impl_->has_internal_work; }

absl::StatusOr<JobNumber> Dispatcher::FindJob(absl::string_view id_or_prefix) const {
  MutexLock lock(&impl_->mutex);
  return impl_->jobs.FindId(id_or_prefix);
}

absl::StatusOr<JobNumber> Dispatcher::FindJobOf(absl::string_view tenant,
                                                absl::string_view id_or_prefix) const {
  MutexLock lock(&impl_->mutex);
  return impl_->jobs.FindId(id_or_prefix, &tenant);
}

std::optional<JobNumber> Dispatcher::FindJobByToken(absl::string_view token) const {
  MutexLock lock(&impl_->mutex);
  return impl_->jobs.FindToken(token);
}

absl::StatusOr<v1::JobStatus> Dispatcher::GetStatus(JobNumber job, MonotonicTime now) const {
  return impl_->GetStatus(job, now);
}

std::vector<JobNumber> Dispatcher::ListJobs() const {
  MutexLock lock(&impl_->mutex);
  std::vector<JobNumber> numbers;
  numbers.reserve(impl_->jobs.all().size());
  for (const auto& [number, job] : impl_->jobs.all()) numbers.push_back(number);
  std::reverse(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<Dispatcher::JobHead> Dispatcher::ListHeads() const {
  MutexLock lock(&impl_->mutex);
  std::vector<JobHead> heads;
  heads.reserve(impl_->jobs.all().size());
  for (const auto& [number, job] : impl_->jobs.all()) {
    heads.push_back({number, job->record.id(), std::string(TenantOf(job->record)),
                     job->record.created_at_ms(), JobStateInfo(job->record.state()).terminal});
  }
  std::reverse(heads.begin(), heads.end());
  return heads;
}

std::vector<v1::WorkerStatus> Dispatcher::ListWorkers(MonotonicTime now) const {
  return impl_->ListWorkers(now);
}

absl::StatusOr<v1::JobRecord> Dispatcher::GetRecord(JobNumber number) const {
  MutexLock lock(&impl_->mutex);
  const Job* job = impl_->jobs.Find(number);
  if (job == nullptr) return UnknownJob(number);
  return job->record;
}

absl::StatusOr<std::string> Dispatcher::FinishedBitmap(JobNumber number, uint32_t chunk) const {
  MutexLock lock(&impl_->mutex);
  const Job* job = impl_->jobs.Find(number);
  if (job == nullptr) return UnknownJob(number);
  if (job->ended()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->record.id(), " has ended: its bitmaps are in the store only"));
  }
  if (chunk >= job->queue->chunks()) {
    return absl::NotFoundError(absl::StrCat("job ", job->record.id(), " has no chunk ", chunk));
  }
  return job->queue->bitmap(chunk);
}

uint64_t Dispatcher::ChangeCount(JobNumber number) const {
  MutexLock lock(&impl_->mutex);
  const Job* job = impl_->jobs.Find(number);
  if (job == nullptr) return 0;
  return job->ended() ? job->version : std::max(job->version, impl_->fleet_version);
}

std::vector<JobNumber> Dispatcher::ExpiredJobs(MonotonicTime now, absl::Time wall) {
  MutexLock lock(&impl_->mutex);
  std::vector<JobNumber> expired;
  for (const JobNumber number : impl_->jobs.active()) {
    Job* const job = impl_->jobs.Find(number);
    const int64_t deadline_at_ms = job->record.deadline_at_ms();
    if (deadline_at_ms <= 0) continue;
    if (job->due_for_deadline_at_ms != deadline_at_ms) {
      job->due_for_deadline_at_ms = deadline_at_ms;
      job->due = now + (absl::FromUnixMillis(deadline_at_ms) - wall);
    }
    if (job->due <= now && CanMoveJob(job->record.state(), v1::JOB_STATE_EXPIRED)) {
      expired.push_back(number);
    }
  }
  return expired;
}

void Dispatcher::CheckConsistent() const { impl_->CheckConsistent(); }

int64_t Dispatcher::duplicate_results() const { return impl_->duplicate_results; }
int64_t Dispatcher::lapsed_leases() const { return impl_->lapsed_leases; }
int64_t Dispatcher::copies_made() const { return impl_->copies_made; }
int64_t Dispatcher::copies_out() const {
  MutexLock lock(&impl_->mutex);
  return impl_->leases.copies();
}

}  // namespace nightshift
