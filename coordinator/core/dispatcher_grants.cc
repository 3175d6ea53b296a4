// What goes out now: who wants how much (batch_sizer), from which jobs (fair_share).
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "coordinator/core/batch_sizer.h"
#include "coordinator/core/dispatcher_impl.h"
#include "coordinator/core/fair_share.h"
#include "coordinator/core/job_state.h"

namespace nightshift {
namespace {

// Requests of a job with a route that wait in lanes: a backend that outruns the others sorts the
// job for them, and waits when it is so far ahead.
constexpr uint64_t kSortedAheadMax = uint64_t{1} << 18;

}  // namespace

// A job with requests that could go out now.
struct Dispatcher::Impl::Source {
  Job* job;
  ShareCandidate share;  // without what is available
  std::array<int64_t, kCautions> available;
  bool granted = false;

  int64_t Available(Caution caution) const { return available[static_cast<size_t>(caution)]; }
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
    LookAtLanes(job, now, next_due);
    if (job->queue->available() == 0) continue;
    Source& source = sources.emplace_back();
    source.job = job;
    source.share = {job->record.options().priority(), static_cast<int64_t>(job->queue->leased()),
                    0};
    for (int i = 0; i < kCautions; ++i) {
      source.available[i] = static_cast<int64_t>(job->queue->available(static_cast<Caution>(i)));
    }
    // Those of slower backends would gather in memory.
    if (job->queue->in_lanes() >= kSortedAheadMax) {
      source.available[static_cast<size_t>(Caution::kOrdinary)] = 0;
    }
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

void Dispatcher::Impl::AddToGrant(const Taker& taker, Source* source, int64_t count,
                                  Caution caution, Grant* grant, MonotonicTime now) {
  if (count == 0) return;
  std::vector<uint64_t> indexes;
  source->job->queue->Take(count, &indexes, caution);
  AddToGrant(taker, source, indexes, caution, grant, now);
  source->available[static_cast<size_t>(caution)] -= count;
}

void Dispatcher::Impl::AddToGrant(const Taker& taker, Source* source,
                                  absl::Span<const uint64_t> indexes, Caution caution, Grant* grant,
                                  MonotonicTime now) {
  if (indexes.empty()) return;
  if (grant->lease_id == 0) grant->lease_id = ++last_lease_id;
  Job* job = source->job;
  grant->routed |= job->router != nullptr;
  for (const uint64_t index : indexes) {
    const RequestId id{job->number, index};
    const int32_t attempt = ChargedAttempts(*job, index);
    leases.Add(id, Lease{grant->worker, taker.place, grant->lease_id, attempt, caution});
    grant->items.push_back({id, attempt, job->record.run()});
  }
  job->rate.Start(now);
  source->granted = true;
  source->share.in_flight += static_cast<int64_t>(indexes.size());
}

Grant Dispatcher::Impl::MakeGrant(const Taker& taker, int64_t count, std::vector<Source>* sources,
                                  MonotonicTime now) {
  // The careful ones first, in what room there is for them.
  constexpr Caution kShared[] = {Caution::kLone, Caution::kSuspect, Caution::kOrdinary};
  std::array<int64_t, kCautions> room{};
  for (const Caution caution : kShared) {
    const int64_t held = leases.CountOf(taker.worker->number, caution);
    room[static_cast<size_t>(caution)] = std::max<int64_t>(0, HeldMax(caution) - held);
  }
  std::vector<Source*> from;
  std::vector<ShareCandidate> candidates;
  for (Source& source : *sources) {
    ShareCandidate share = source.share;
    share.available = WaitingInLanes(*source.job, taker.backend().name);
    for (const Caution caution : kShared) {
      share.available += std::min(source.Available(caution), room[static_cast<size_t>(caution)]);
    }
    if (share.available > 0 &&
        workers.Serves(&taker.backend(), model_sets, source.job->model_set)) {
      from.push_back(&source);
      candidates.push_back(share);
    }
  }
  const std::vector<int64_t> shares = DivideGrant(count, candidates);

  Grant grant;
  grant.worker = taker.worker->number;
  grant.backend = taker.backend().name;
  for (size_t i = 0; i < from.size(); ++i) {
    // Less than its share when another job has had the room: the next plan makes up for it.
    int64_t left = shares[i];
    if (from[i]->job->router != nullptr) {
      // First what is known to be its own.
      const std::vector<uint64_t> own = TakeFromLanes(from[i]->job, taker.backend().name, left);
      AddToGrant(taker, from[i], own, Caution::kOrdinary, &grant, now);
      left -= static_cast<int64_t>(own.size());
    }
    for (const Caution caution : kShared) {
      int64_t& room_left = room[static_cast<size_t>(caution)];
      const int64_t some = std::min({left, from[i]->Available(caution), room_left});
      AddToGrant(taker, from[i], some, caution, &grant, now);
      room_left -= some;
      left -= some;
    }
  }
  return grant;
}

// Who may try accused requests now.
struct Dispatcher::Impl::Trials {
  int64_t more = 0;            // beside those under way
  WorkerNumber kept_free = 0;  // gets nothing, so that it can try one when it holds nothing
};

Dispatcher::Impl::Trials Dispatcher::Impl::PlanTrials(const std::vector<Source>& sources,
                                                      const std::vector<Taker>& takers,
                                                      MonotonicTime now) const {
  Trials trials;
  bool accused = false;
  bool other_work = false;
  for (const Source& source : sources) {
    accused |= source.Available(Caution::kAccused) > 0;
    for (const Caution caution : {Caution::kOrdinary, Caution::kSuspect, Caution::kLone}) {
      other_work |= source.Available(caution) > 0;
    }
  }
  if (!accused) return trials;
  int64_t connected = 0;
  int64_t under_way = 0;
  for (const auto& [number, worker] : workers.all()) {
    if (worker.state != WorkerState::kConnected) continue;
    ++connected;
    if (leases.CountOf(number, Caution::kAccused) > 0) ++under_way;
  }
  trials.more = std::max<int64_t>(0, TrialsMax(connected, other_work) - under_way);
  if (under_way > 0) return trials;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Taker& taker : takers) {
    const int64_t held = leases.CountOf(taker.worker->number);
    if (held >= least || !MayTry(*taker.worker, now)) continue;
    bool serves = false;
    for (const Source& source : sources) {
      serves |= source.Available(Caution::kAccused) > 0 &&
                workers.Serves(&taker.backend(), model_sets, source.job->model_set);
    }
    if (!serves) continue;
    least = held;
    trials.kept_free = taker.worker->number;
  }
  return trials;
}

Grant Dispatcher::Impl::MakeTrial(const Taker& taker, std::vector<Source>* sources,
                                  MonotonicTime now) {
  Grant grant;
  grant.worker = taker.worker->number;
  grant.backend = taker.backend().name;
  for (Source& source : *sources) {
    if (source.Available(Caution::kAccused) == 0 ||
        !workers.Serves(&taker.backend(), model_sets, source.job->model_set)) {
      continue;
    }
    AddToGrant(taker, &source, 1, Caution::kAccused, &grant, now);
    taker.worker->trial_began = now;
    break;
  }
  return grant;
}

Grant Dispatcher::Impl::GrantFor(const Taker& taker, std::vector<Source>* sources, Trials* trials,
                                 MonotonicTime now) {
  const WorkerNumber worker = taker.worker->number;
  if (leases.CountOf(worker, Caution::kAccused) > 0) return {};
  if (trials->more > 0 && leases.CountOf(worker) == 0 && MayTry(*taker.worker, now)) {
    Grant trial = MakeTrial(taker, sources, now);
    if (!trial.items.empty()) {
      --trials->more;
      return trial;
    }
  }
  if (worker == trials->kept_free) return {};
  const int64_t count = RequestsToGrant(taker.load, taker.fair);
  if (count == 0) return {};
  return MakeGrant(taker, count, sources, now);
}

GrantPlan Dispatcher::Impl::PlanGrants(MonotonicTime now) {
  MutexLock lock(&mutex);
  GrantPlan plan;
  if (!disk_hold.empty()) return plan;
  std::vector<int64_t> unfinished;
  std::vector<Source> sources = FindSources(now, &unfinished, &plan.next_due);
  if (sources.empty()) return plan;
  const std::vector<Taker> takers = FindTakers(unfinished);
  Trials trials = PlanTrials(sources, takers, now);
  for (const Taker& taker : takers) {
    Grant grant = GrantFor(taker, &sources, &trials, now);
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
