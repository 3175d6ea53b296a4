// The end of jobs, and their deadlines: who gets nothing more, what is called back, what is called
// for twice, what is due.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/log.h"
#include "coordinator/core/deadlines.h"
#include "coordinator/core/dispatcher_impl.h"
#include "coordinator/core/job_state.h"

namespace nightshift {
namespace {

// Nine in ten calls take at most so many times the mean, while a job's own are not known.
constexpr double kSpreadUnknown = 2;
// More than this no spread is: what is above needs no look at the jobs.
constexpr double kSpreadMax = 8;
// A worker that does not answer a recall is asked again after this.
constexpr absl::Duration kRecallAgain = absl::Seconds(1);

double LatencyOf(const Backend& backend) { return backend.latency_seconds; }

}  // namespace

double Dispatcher::Impl::FleetLatency() const {
  double seconds = 0;
  double slots = 0;
  for (const auto& [number, worker] : workers.all()) {
    if (worker.state != WorkerState::kConnected) continue;
    for (const Backend& backend : worker.backends) {
      if (!backend.reported || LatencyOf(backend) <= 0) continue;
      slots += backend.limit;
      seconds += backend.limit * LatencyOf(backend);
    }
  }
  return slots > 0 ? seconds / slots : 1;
}

double Dispatcher::Impl::SpreadOf(int model_set) const {
  const Job* largest = nullptr;
  for (const JobNumber number : jobs.active()) {
    const Job* job = jobs.Find(number);
    if (job->model_set != model_set || !job->durations.known()) continue;
    if (largest == nullptr || job->unfinished() > largest->unfinished()) largest = job;
  }
  if (largest == nullptr) return kSpreadUnknown;
  return std::min(kSpreadMax, largest->durations.Quantile(0.9, kSpreadUnknown));
}

void Dispatcher::Impl::CutOff(const Sources& sources, std::vector<Taker>* takers) {
  for (Taker& taker : *takers) taker.backend().cut_off = false;
  if (takers->size() < 2) return;
  std::vector<bool> needed(takers->size(), false);
  for (int set = 0; set < model_sets.size(); ++set) {
    const auto rest = static_cast<double>(sources.unfinished[static_cast<size_t>(set)]);
    if (rest == 0) continue;
    std::vector<size_t> serving;
    for (size_t i = 0; i < takers->size(); ++i) {
      if (Serves((*takers)[i], set)) serving.push_back(i);
    }
    const auto latency = [&](size_t i) { return LatencyOf((*takers)[i].backend()); };
    std::sort(serving.begin(), serving.end(),
              [&](size_t a, size_t b) { return latency(a) < latency(b); });
    // The sum of the speeds of those before `fast`, which are faster than the one looked at.
    size_t fast = 0;
    double speed = 0;
    double fastest = 0;
    double spread = 0;
    for (const size_t i : serving) {
      for (; latency(serving[fast]) <= kFaster * latency(i) && serving[fast] != i; ++fast) {
        if (latency(serving[fast]) <= 0) continue;
        if (fastest == 0) fastest = latency(serving[fast]);
        speed += (*takers)[serving[fast]].speed;
      }
      if (speed == 0 || !PastCutOff(latency(i), kSpreadMax, rest / speed, fastest)) {
        needed[i] = true;
        continue;
      }
      if (spread == 0) spread = SpreadOf(set);
      if (!PastCutOff(latency(i), spread, rest / speed, fastest)) needed[i] = true;
    }
  }
  for (size_t i = 0; i < takers->size(); ++i) {
    Taker& taker = (*takers)[i];
    taker.cut_off = !needed[i] && !taker.has_lane;
    taker.backend().cut_off = taker.cut_off;
  }
}

bool Dispatcher::Impl::ServesRouted(const Taker& taker, const Sources& sources) {
  for (int set = 0; set < model_sets.size(); ++set) {
    if (sources.routed[static_cast<size_t>(set)] && Serves(taker, set)) return true;
  }
  return false;
}

void Dispatcher::Impl::PlanRecalls(const std::vector<Taker>& takers, const Sources& sources,
                                   GrantPlan* plan, MonotonicTime now) {
  for (int set = 0; set < model_sets.size(); ++set) {
    if (sources.unfinished[static_cast<size_t>(set)] == 0) continue;
    const bool more = std::any_of(sources.all.begin(), sources.all.end(), [&](const Source& s) {
      return s.job->model_set == set && s.job->queue->available() > s.job->queue->in_lanes();
    });
    if (more) continue;
    double held = 0;
    double speed = 0;
    double helper = std::numeric_limits<double>::infinity();
    for (const Taker& taker : takers) {
      if (!Serves(taker, set)) continue;
      const int64_t has = leases.CountOf(taker.worker->number, taker.place);
      held += static_cast<double>(has);
      speed += taker.speed;
      if (has < taker.load.limit && !taker.cut_off) {
        helper = std::min(helper, LatencyOf(taker.backend()));
      }
    }
    if (helper == std::numeric_limits<double>::infinity() || speed <= 0) continue;
    const double done_in = std::max(held / speed, helper);
    for (const Taker& taker : takers) {
      Backend& backend = taker.backend();
      if (backend.buffered == 0 || now < backend.recall_until || !Serves(taker, set) ||
          ServesRouted(taker, sources)) {
        continue;
      }
      const int64_t count = std::min<int64_t>(
          backend.buffered, RequestsToRecall(leases.CountOf(taker.worker->number, taker.place),
                                             backend.in_flight, taker.speed, done_in));
      if (count <= 0) continue;
      backend.recall_until = now + kRecallAgain;
      Outgoing& recall = plan->recalls.emplace_back();
      recall.worker = taker.worker->number;
      recall.message.mutable_recall()->set_backend(backend.name);
      recall.message.mutable_recall()->set_count(count);
      LogDebug("worker ", taker.worker->name, " is asked to hand back ", count,
               " requests that backend ", backend.name,
               " has not started: others have nothing left to do");
    }
  }
}

// A request that takes long, and who has it.
struct Dispatcher::Impl::Slow {
  RequestId id;
  Job* job;
  const Taker* owner;
  double age;
};

std::vector<Dispatcher::Impl::Slow> Dispatcher::Impl::FindSlow(const std::vector<Taker>& takers,
                                                               MonotonicTime now) {
  std::vector<Slow> slow;
  for (const Taker& taker : takers) {
    const Backend& backend = taker.backend();
    const double since = absl::ToDoubleSeconds(now - backend.reported_at);
    for (const LongCall& call : backend.long_calls) {
      Job* job = jobs.Find(call.id.job);
      if (job == nullptr || job->ended() || job->closing || job->router != nullptr ||
          job->queue->available(Caution::kOrdinary) > 0 ||
          !JobStateInfo(job->record.state()).runnable || call.id.index >= job->queue->total()) {
        continue;
      }
      const v1::Speculation asked = job->record.options().speculation();
      if (asked == v1::SPECULATION_OFF || !job->durations.known() ||
          job->copies_made >= CopiesMaxOfJob(job->record.total())) {
        continue;
      }
      if (asked != v1::SPECULATION_ON &&
          (job->sums.cost_usd() > 0 || PaidByTheToken(backend.kind, backend.account))) {
        continue;
      }
      const Lease* lease = leases.Find(call.id);
      if (lease == nullptr || lease->worker != taker.worker->number ||
          lease->caution != Caution::kOrdinary || leases.FindCopy(call.id) != nullptr ||
          job->queue->CautionOf(call.id.index) != Caution::kOrdinary) {
        continue;
      }
      slow.push_back({call.id, job, &taker, call.age_seconds + since});
    }
  }
  std::sort(slow.begin(), slow.end(), [](const Slow& a, const Slow& b) {
    return a.age != b.age ? a.age > b.age : a.id < b.id;
  });
  return slow;
}

void Dispatcher::Impl::PlanCopies(const std::vector<Taker>& takers, GrantPlan* plan,
                                  MonotonicTime now) {
  bool one_is_free = false;
  for (const Taker& taker : takers) {
    one_is_free |= leases.CountOf(taker.worker->number, taker.place) < taker.load.limit;
  }
  if (!one_is_free) return;
  const std::vector<Slow> slow = FindSlow(takers, now);
  if (slow.empty()) return;
  int64_t slots = 0;
  for (const Taker& taker : takers) slots += taker.load.limit;
  std::vector<Grant> grants(takers.size());
  std::map<JobNumber, double> q95_of;
  for (const Slow& one : slow) {
    if (leases.copies() >= CopiesMaxAtATime(slots)) break;
    if (one.job->copies_made >= CopiesMaxOfJob(one.job->record.total())) continue;
    const auto [known, is_new] = q95_of.try_emplace(one.id.job, 0);
    if (is_new) known->second = one.job->durations.Quantile(0.95, 1);
    const double q95 = known->second;
    const bool paid_too = one.job->record.options().speculation() == v1::SPECULATION_ON;
    size_t best = takers.size();
    for (size_t i = 0; i < takers.size(); ++i) {
      const Taker& helper = takers[i];
      const Backend& backend = helper.backend();
      const WorkerNumber worker = helper.worker->number;
      if (worker == one.owner->worker->number || helper.cut_off ||
          leases.CountOf(worker, helper.place) >= helper.load.limit ||
          leases.CountOf(worker, Caution::kAccused) > 0 || !Serves(helper, one.job->model_set) ||
          (!paid_too && PaidByTheToken(backend.kind, backend.account)) ||
          !WorthACopy(one.age, LatencyOf(one.owner->backend()), LatencyOf(backend), q95)) {
        continue;
      }
      if (best == takers.size() || LatencyOf(backend) < LatencyOf(takers[best].backend())) best = i;
    }
    if (best == takers.size()) continue;
    const Taker& helper = takers[best];
    Grant& grant = grants[best];
    if (grant.lease_id == 0) {
      grant.lease_id = ++last_lease_id;
      grant.worker = helper.worker->number;
      grant.backend = helper.backend().name;
    }
    const int32_t attempt = ChargedAttempts(*one.job, one.id.index);
    const int32_t priority = one.job->record.options().priority();
    leases.AddCopy(one.id, Lease{grant.worker, helper.place, grant.lease_id, attempt,
                                 Caution::kOrdinary, priority});
    grant.items.push_back({one.id, attempt, one.job->record.run(), priority});
    LogDebug("request ", one.id.index, " of job ", one.job->record.id(), " has run for ", one.age,
             " s at worker ", one.owner->worker->name, ": worker ", helper.worker->name,
             " calls for it, too");
    ++one.job->copies_made;
    ++copies_made;
  }
  for (Grant& grant : grants) {
    if (!grant.items.empty()) plan->grants.push_back(std::move(grant));
  }
}

void Dispatcher::Impl::PlanForDeadlines(MonotonicTime now) {
  const double cost = FleetLatency();
  std::vector<double> slots(static_cast<size_t>(model_sets.size()), 0);
  for (auto& [number, worker] : workers.all()) {
    if (worker.state != WorkerState::kConnected) continue;
    for (Backend& backend : worker.backends) {
      if (!backend.reported) continue;
      for (int set = 0; set < model_sets.size(); ++set) {
        if (workers.Serves(&backend, model_sets, set)) slots[set] += backend.limit;
      }
    }
  }
  std::vector<Job*> running;
  std::vector<DeadlineJob> needs;
  bool any = false;
  for (const JobNumber number : jobs.active()) {
    Job* job = jobs.Find(number);
    if (!JobStateInfo(job->record.state()).runnable) {
      job->late_seconds = job->reserved_share = 0;
      continue;
    }
    DeadlineJob& need = needs.emplace_back();
    need.model_set = job->model_set;
    need.priority = job->record.options().priority();
    need.work = static_cast<double>(job->unfinished()) * job->work.cost(cost);
    need.seconds_left = absl::ToDoubleSeconds(job->due - now);
    need.window =
        static_cast<double>(job->record.deadline_at_ms() - job->record.created_at_ms()) / 1000;
    if (job->due.infinite()) need.seconds_left = std::numeric_limits<double>::infinity();
    need.slots = slots[static_cast<size_t>(job->model_set)];
    any |= !job->due.infinite();
    running.push_back(job);
  }
  if (!any) return;
  const std::vector<DeadlinePlan> plans = PlanDeadlines(needs);
  for (size_t i = 0; i < running.size(); ++i) {
    Job* job = running[i];
    job->reserved_share = plans[i].share;
    // A watcher sees it come, change by much, and go.
    if (std::abs(job->late_seconds - plans[i].late_seconds) > 0.1 * job->late_seconds) Touch(job);
    job->late_seconds = plans[i].late_seconds;
  }
}

}  // namespace nightshift
