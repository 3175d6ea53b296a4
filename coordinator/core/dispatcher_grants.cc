// What goes out now: who wants how much (batch_sizer), from which jobs (fair_share).
#include <algorithm>
#include <utility>

#include "coordinator/core/batch_sizer.h"
#include "coordinator/core/dispatcher_impl.h"
#include "coordinator/core/fair_share.h"
#include "coordinator/core/job_state.h"

namespace nightshift {

// A job with requests that could go out now.
struct Dispatcher::Impl::Source {
  Job* job;
  ShareCandidate share;
  bool granted = false;
};

// A backend that could take requests of some running job.
struct Dispatcher::Impl::Taker {
  Worker* worker;
  uint32_t place;
  BackendLoad load;
  double speed;  // its rate, or a guess while that is not known
  double fair = 0;

  Backend& backend() const { return worker->backends[place]; }
};

std::vector<Dispatcher::Impl::Source> Dispatcher::Impl::FindSources(
    MonotonicTime now, std::vector<int64_t>* unfinished, MonotonicTime* next_due) {
  std::vector<Source> sources;
  unfinished->assign(static_cast<size_t>(model_sets.size()), 0);
  for (const JobNumber number : jobs.active()) {
    Job* job = jobs.Find(number);
    int64_t& rest = (*unfinished)[static_cast<size_t>(job->model_set)];
    if (job->closing || !JobStateInfo(job->record.state()).runnable) {
      rest += static_cast<int64_t>(job->queue->leased());
      continue;
    }
    job->queue->Advance(now);
    *next_due = std::min(*next_due, job->queue->NextDue());
    rest += job->unfinished();
    const auto available = static_cast<int64_t>(job->queue->available());
    if (available == 0) continue;
    sources.push_back({job,
                       {job->record.options().priority(),
                        static_cast<int64_t>(job->queue->leased()), available}});
  }
  return sources;
}

std::vector<Dispatcher::Impl::Taker> Dispatcher::Impl::FindTakers(
    const std::vector<int64_t>& unfinished) {
  std::vector<Taker> takers;
  double rate_known = 0;
  double slots_known = 0;
  bool one_wants = false;
  for (auto& [number, worker] : workers.all()) {
    if (worker.state != WorkerState::kConnected) continue;
    for (uint32_t place = 0; place < worker.backends.size(); ++place) {
      const Backend& backend = worker.backends[place];
      if (!backend.reported || backend.limit == 0) continue;
      const BackendLoad load{backend.limit, backend.requests_per_second,
                             leases.CountOf(number, place)};
      if (load.rate > 0) {
        rate_known += load.rate;
        slots_known += static_cast<double>(load.limit);
      }
      one_wants |= WantsMore(load);
      takers.push_back({&worker, place, load, load.rate});
    }
  }
  if (!one_wants) return {};

  // While a backend's rate is not known, its slots are taken to be as fast as those that are.
  const double slot_speed = slots_known > 0 ? rate_known / slots_known : 1;
  for (Taker& taker : takers) {
    if (taker.speed <= 0) taker.speed = slot_speed * static_cast<double>(taker.load.limit);
  }
  for (int set = 0; set < model_sets.size(); ++set) {
    const auto rest = static_cast<double>(unfinished[static_cast<size_t>(set)]);
    if (rest == 0) continue;
    double speed = 0;
    for (const Taker& taker : takers) {
      if (workers.Serves(&taker.backend(), model_sets, set)) speed += taker.speed;
    }
    for (Taker& taker : takers) {
      if (workers.Serves(&taker.backend(), model_sets, set)) {
        taker.fair += rest * taker.speed / speed;
      }
    }
  }
  // The hungriest first; among equally hungry ones the fastest.
  std::stable_sort(takers.begin(), takers.end(), [](const Taker& a, const Taker& b) {
    const auto x = static_cast<double>(a.load.held) * static_cast<double>(TargetHeld(b.load));
    const auto y = static_cast<double>(b.load.held) * static_cast<double>(TargetHeld(a.load));
    return x != y ? x < y : a.speed > b.speed;
  });
  return takers;
}

Grant Dispatcher::Impl::MakeGrant(const Taker& taker, int64_t count, std::vector<Source>* sources,
                                  MonotonicTime now) {
  std::vector<Source*> from;
  std::vector<ShareCandidate> candidates;
  for (Source& source : *sources) {
    if (source.share.available > 0 &&
        workers.Serves(&taker.backend(), model_sets, source.job->model_set)) {
      from.push_back(&source);
      candidates.push_back(source.share);
    }
  }
  const std::vector<int64_t> shares = DivideGrant(count, candidates);

  Grant grant;
  grant.worker = taker.worker->number;
  grant.backend = taker.backend().name;
  std::vector<uint64_t> indexes;
  for (size_t i = 0; i < from.size(); ++i) {
    if (shares[i] == 0) continue;
    if (grant.lease_id == 0) grant.lease_id = ++last_lease_id;
    Source& source = *from[i];
    Job* job = source.job;
    indexes.clear();
    job->queue->Take(shares[i], &indexes);
    for (const uint64_t index : indexes) {
      const RequestId id{job->number, index};
      const int32_t attempt = ChargedAttempts(*job, index);
      leases.Add(id, Lease{grant.worker, taker.place, grant.lease_id, attempt});
      grant.items.push_back({id, attempt, job->record.run()});
    }
    job->rate.Start(now);
    source.granted = true;
    source.share.available -= shares[i];
    source.share.in_flight += shares[i];
  }
  return grant;
}

GrantPlan Dispatcher::Impl::PlanGrants(MonotonicTime now) {
  MutexLock lock(&mutex);
  GrantPlan plan;
  if (!disk_hold.empty()) return plan;
  std::vector<int64_t> unfinished;
  std::vector<Source> sources = FindSources(now, &unfinished, &plan.next_due);
  if (sources.empty()) return plan;
  for (const Taker& taker : FindTakers(unfinished)) {
    const int64_t count = RequestsToGrant(taker.load, taker.fair);
    if (count == 0) continue;
    Grant grant = MakeGrant(taker, count, &sources, now);
    if (grant.items.empty()) continue;
    // One message's worth now, the rest at once after it.
    if (static_cast<int64_t>(grant.items.size()) == kGrantMax) plan.next_due = now;
    plan.grants.push_back(std::move(grant));
  }
  for (const Source& source : sources) {
    if (!source.granted) continue;
    Touch(source.job);
    if (static_cast<int64_t>(source.job->queue->frontier()) > source.job->record.lease_frontier() ||
        source.job->record.started_at_ms() == 0) {
      plan.frontier_moved.push_back(source.job->number);
    }
  }
  return plan;
}

}  // namespace nightshift
