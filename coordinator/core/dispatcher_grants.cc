// What goes out now: who wants how much (batch_sizer), from which jobs (fair_share).
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "coordinator/core/dispatcher_impl.h"
#include "coordinator/core/job_state.h"

namespace nightshift {
namespace {

// Requests of a job with a route that wait in lanes: a backend that outruns the others sorts the
// job for them, and waits when it is so far ahead.
constexpr uint64_t kSortedAheadMax = uint64_t{1} << 18;

}  // namespace

Dispatcher::Impl::Sources Dispatcher::Impl::FindSources(MonotonicTime now,
                                                        MonotonicTime* next_due) {
  Sources sources;
  sources.unfinished.assign(static_cast<size_t>(model_sets.size()), 0);
  sources.routed.assign(static_cast<size_t>(model_sets.size()), false);
  sources.cost = FleetLatency();
  for (const JobNumber number : jobs.active()) {
    Job* job = jobs.Find(number);
    int64_t& rest = sources.unfinished[static_cast<size_t>(job->model_set)];
    if (job->closing || !JobStateInfo(job->record.state()).runnable) {
      rest += static_cast<int64_t>(job->queue->leased());
      job->joined = false;
      continue;
    }
    job->queue->Advance(now);
    *next_due = std::min(*next_due, job->queue->NextDue());
    LookAtLanes(job, now, next_due);
    // What waits in lanes is for those who serve them: see SetFair.
    rest += job->unfinished() - static_cast<int64_t>(job->queue->in_lanes());
    if (job->router != nullptr && job->unfinished() > 0) {
      sources.routed[static_cast<size_t>(job->model_set)] = true;
    }
    if (job->queue->available() == 0) {
      job->joined &= job->queue->leased() > 0;
      continue;
    }
    Source& source = sources.all.emplace_back();
    source.job = job;
    source.priority = job->record.options().priority();
    source.out = static_cast<int64_t>(job->queue->leased());
    source.reserved = 0;
    for (int i = 0; i < kCautions; ++i) {
      source.available[i] = static_cast<int64_t>(job->queue->available(static_cast<Caution>(i)));
    }
    sources.classes.push_back(source.priority);
    // Those of slower backends would gather in memory.
    if (job->queue->in_lanes() >= kSortedAheadMax) {
      source.available[static_cast<size_t>(Caution::kOrdinary)] = 0;
    }
  }
  std::sort(sources.classes.begin(), sources.classes.end(), std::greater<>());
  sources.classes.erase(std::unique(sources.classes.begin(), sources.classes.end()),
                        sources.classes.end());
  return sources;
}

std::vector<Dispatcher::Impl::Taker> Dispatcher::Impl::FindTakers(const Sources& sources) {
  std::vector<Taker> takers;
  double speed_known = 0;
  double slots_known = 0;
  bool one_wants = false;
  const int32_t highest =
      sources.classes.empty() ? std::numeric_limits<int32_t>::min() : sources.classes.front();
  for (auto& [number, worker] : workers.all()) {
    if (worker.state != WorkerState::kConnected) continue;
    for (uint32_t place = 0; place < worker.backends.size(); ++place) {
      const Backend& backend = worker.backends[place];
      if (!backend.reported || backend.limit == 0) continue;
      const double speed = SpeedOf(backend.limit, backend.in_flight, backend.buffered,
                                   backend.requests_per_second, backend.latency_seconds);
      BackendLoad load{backend.limit, speed, leases.CountFrom(highest, number, place)};
      one_wants |= WantsMore(load);
      load.held = leases.CountOf(number, place);
      if (speed > 0) {
        speed_known += speed;
        slots_known += static_cast<double>(load.limit);
      }
      takers.push_back({&worker, place, load, speed});
    }
  }
  if (!one_wants) return {};

  // While a backend's speed is not known, its slots are taken to be as fast as those that are.
  const double slot_speed = slots_known > 0 ? speed_known / slots_known : 1;
  for (Taker& taker : takers) {
    if (taker.speed <= 0) taker.speed = slot_speed * static_cast<double>(taker.load.limit);
  }
  SetFair(sources, &takers);
  CutOff(sources, &takers);
  // The hungriest first; among equally hungry ones the fastest.
  std::stable_sort(takers.begin(), takers.end(), [](const Taker& a, const Taker& b) {
    const auto x = static_cast<double>(a.load.held) * static_cast<double>(TargetHeld(b.load));
    const auto y = static_cast<double>(b.load.held) * static_cast<double>(TargetHeld(a.load));
    return x != y ? x < y : a.speed > b.speed;
  });
  return takers;
}

void Dispatcher::Impl::SetFair(const Sources& sources, std::vector<Taker>* takers) {
  for (int set = 0; set < model_sets.size(); ++set) {
    const auto rest = static_cast<double>(sources.unfinished[static_cast<size_t>(set)]);
    if (rest == 0) continue;
    double speed = 0;
    for (const Taker& taker : *takers) {
      if (Serves(taker, set)) speed += taker.speed;
    }
    for (Taker& taker : *takers) {
      if (Serves(taker, set)) taker.fair += rest * taker.speed / speed;
    }
  }
  // What it holds of a job with a route is where it belongs: what waits in its lanes comes on top.
  for (Taker& taker : *takers) {
    if (!ServesRouted(taker, sources)) continue;
    taker.fair = std::max(taker.fair, static_cast<double>(taker.load.held));
  }
  for (const Source& source : sources.all) {
    if (source.job->queue->in_lanes() > 0) SetFairOfLanes(*source.job, takers);
  }
}

void Dispatcher::Impl::SetFairOfLanes(const Job& job, std::vector<Taker>* takers) {
  for (size_t number = 1; number < job.lanes.size(); ++number) {
    const auto lane = static_cast<Lane>(number);
    const auto waiting = static_cast<double>(job.queue->waiting(lane));
    if (waiting == 0) continue;
    std::vector<Taker*> serving;
    double speed = 0;
    for (Taker& taker : *takers) {
      if (!Serves(taker, job.model_set) || StepsTo(job, lane, taker.backend().name) < 0) continue;
      serving.push_back(&taker);
      speed += taker.speed;
    }
    for (Taker* taker : serving) {
      taker->fair += waiting * taker->speed / speed;
      taker->has_lane = true;
    }
  }
}

void Dispatcher::Impl::Join(const std::vector<Taker>& takers, Sources* sources) {
  for (Source& source : sources->all) {
    Job* job = source.job;
    if (job->joined) continue;
    const double weight = job->weight();
    double level = std::numeric_limits<double>::infinity();
    for (const JobNumber number : jobs.active()) {
      const Job* other = jobs.Find(number);
      if (!other->joined || other == job) continue;
      bool competes = false;
      for (const Taker& taker : takers) {
        competes |= Serves(taker, job->model_set) && Serves(taker, other->model_set);
      }
      if (competes) level = std::min(level, other->work.Base(other->weight()));
    }
    if (level < std::numeric_limits<double>::infinity()) job->work.StartAt(level, weight);
  }
  for (Source& source : sources->all) source.job->joined = true;
}

void Dispatcher::Impl::Reserve(const std::vector<Taker>& takers, Sources* sources) {
  for (Source& source : sources->all) {
    if (source.job->reserved_share <= 0) continue;
    int64_t held = 0;
    for (const Taker& taker : takers) {
      if (Serves(taker, source.job->model_set)) held += TargetHeld(taker.load);
    }
    source.reserved =
        static_cast<int64_t>(std::ceil(source.job->reserved_share * static_cast<double>(held)));
  }
}

void Dispatcher::Impl::AddToGrant(const Taker& taker, Source* source, int64_t count,
                                  Caution caution, int32_t priority, Grant* grant,
                                  MonotonicTime now) {
  if (count == 0) return;
  std::vector<uint64_t> indexes;
  source->job->queue->Take(count, &indexes, caution);
  AddToGrant(taker, source, indexes, caution, priority, grant, now);
  source->available[static_cast<size_t>(caution)] -= count;
}

void Dispatcher::Impl::AddToGrant(const Taker& taker, Source* source,
                                  absl::Span<const uint64_t> indexes, Caution caution,
                                  int32_t priority, Grant* grant, MonotonicTime now) {
  if (indexes.empty()) return;
  if (grant->lease_id == 0) grant->lease_id = ++last_lease_id;
  Job* job = source->job;
  grant->routed |= job->router != nullptr;
  for (const uint64_t index : indexes) {
    const RequestId id{job->number, index};
    const int32_t attempt = ChargedAttempts(*job, index);
    leases.Add(id, Lease{grant->worker, taker.place, grant->lease_id, attempt, caution, priority});
    grant->items.push_back({id, attempt, job->record.run(), priority});
  }
  job->rate.Start(now);
  source->granted = true;
  source->out += static_cast<int64_t>(indexes.size());
}

int64_t Dispatcher::Impl::LoneAt(const Worker& worker, uint32_t place) const {
  const std::string& server = worker.backends[place].server;
  if (server.empty()) return leases.CountOf(worker.number, place, Caution::kLone);
  int64_t lone = 0;
  for (const auto& [number, other] : workers.all()) {
    if (leases.CountOf(number, Caution::kLone) == 0) continue;
    for (uint32_t at = 0; at < other.backends.size(); ++at) {
      if (other.backends[at].server == server) lone += leases.CountOf(number, at, Caution::kLone);
    }
  }
  return lone;
}

ShareCandidate Dispatcher::Impl::Candidate(const Source& source, double unknown_cost) {
  const Job& job = *source.job;
  ShareCandidate share;
  share.weight = job.weight();
  share.level = job.work.Level(source.out, share.weight, unknown_cost);
  share.cost = job.work.cost(unknown_cost);
  share.reserved = std::max<int64_t>(0, source.reserved - source.out);
  share.due = job.due;
  return share;
}

int64_t Dispatcher::Impl::AddClass(const Taker& taker, int64_t count, int32_t priority,
                                   int32_t as_priority, Sources* sources, Grant* grant,
                                   MonotonicTime now) {
  if (count <= 0) return 0;
  // The careful ones first, in what room there is for them.
  constexpr Caution kShared[] = {Caution::kLone, Caution::kSuspect, Caution::kOrdinary};
  const bool any_lone =
      std::any_of(sources->all.begin(), sources->all.end(), [&](const Source& source) {
        return source.priority == priority && source.Available(Caution::kLone) > 0;
      });
  std::array<int64_t, kCautions> room{};
  for (const Caution caution : kShared) {
    // That of lone ones takes a walk over the fleet.
    if (caution == Caution::kLone && !any_lone) continue;
    const int64_t held = caution == Caution::kLone ? LoneAt(*taker.worker, taker.place)
                                                   : leases.CountOf(taker.worker->number, caution);
    room[static_cast<size_t>(caution)] = std::max<int64_t>(0, HeldMax(caution) - held);
  }
  std::vector<Source*> from;
  std::vector<ShareCandidate> candidates;
  for (Source& source : sources->all) {
    if (source.priority != priority || !Serves(taker, source.job->model_set)) continue;
    int64_t available = WaitingInLanes(*source.job, taker.backend().name);
    for (const Caution caution : kShared) {
      available += std::min(source.Available(caution), room[static_cast<size_t>(caution)]);
    }
    if (available == 0) continue;
    from.push_back(&source);
    candidates.push_back(Candidate(source, sources->cost));
    candidates.back().available = available;
  }
  const std::vector<int64_t> shares = DivideGrant(count, candidates);
  const size_t before = grant->items.size();
  for (size_t i = 0; i < from.size(); ++i) {
    // Less than its share when another job has had the room: the next plan makes up for it.
    int64_t left = shares[i];
    if (from[i]->job->router != nullptr) {
      // First what is known to be its own.
      const std::vector<uint64_t> own = TakeFromLanes(from[i]->job, taker.backend().name, left);
      AddToGrant(taker, from[i], own, Caution::kOrdinary, as_priority, grant, now);
      left -= static_cast<int64_t>(own.size());
    }
    for (const Caution caution : kShared) {
      int64_t& room_left = room[static_cast<size_t>(caution)];
      const int64_t some = std::min({left, from[i]->Available(caution), room_left});
      AddToGrant(taker, from[i], some, caution, as_priority, grant, now);
      room_left -= some;
      left -= some;
    }
  }
  return static_cast<int64_t>(grant->items.size() - before);
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
    if (source.Available(Caution::kAccused) == 0 || !Serves(taker, source.job->model_set)) {
      continue;
    }
    AddToGrant(taker, &source, 1, Caution::kAccused, source.priority, &grant, now);
    taker.worker->trial_began = now;
    break;
  }
  return grant;
}

Grant Dispatcher::Impl::GrantFor(const Taker& taker, Sources* sources, Trials* trials,
                                 MonotonicTime now) {
  const WorkerNumber worker = taker.worker->number;
  if (leases.CountOf(worker, Caution::kAccused) > 0) return {};
  if (trials->more > 0 && leases.CountOf(worker) == 0 && MayTry(*taker.worker, now)) {
    Grant trial = MakeTrial(taker, &sources->all, now);
    if (!trial.items.empty()) {
      --trials->more;
      return trial;
    }
  }
  if (worker == trials->kept_free || taker.cut_off) return {};
  Grant grant;
  grant.worker = worker;
  grant.backend = taker.backend().name;
  for (size_t i = 0; i < sources->classes.size(); ++i) {
    const int32_t priority = sources->classes[i];
    // What it holds of lower ones does not count: it starts these first.
    BackendLoad load = taker.load;
    load.held = leases.CountFrom(priority, worker, taker.place);
    const int64_t count = RequestsToGrant(load, taker.fair);
    const int64_t granted = AddClass(taker, count, priority, priority, sources, &grant, now);
    if (granted == 0) continue;
    const size_t end = std::min(sources->classes.size(), i + 1 + kFloorClassesMax);
    for (size_t lower = i + 1; lower < end; ++lower) {
      const int32_t kept = sources->classes[lower];
      const int64_t credit = class_floor.Credit(kept, granted);
      class_floor.Spend(kept, AddClass(taker, credit, kept, priority, sources, &grant, now));
    }
  }
  return grant;
}

GrantPlan Dispatcher::Impl::PlanGrants(MonotonicTime now) {
  MutexLock lock(&mutex);
  GrantPlan plan;
  if (!disk_hold.empty()) return plan;
  Sources sources = FindSources(now, &plan.next_due);
  if (sources.all.empty() && leases.size() == 0) return plan;
  const std::vector<Taker> takers = FindTakers(sources);
  if (takers.empty()) return plan;
  Join(takers, &sources);
  Reserve(takers, &sources);
  Trials trials = PlanTrials(sources.all, takers, now);
  for (const Taker& taker : takers) {
    Grant grant = GrantFor(taker, &sources, &trials, now);
    if (grant.items.empty()) continue;
    // One message's worth now, the rest at once after it.
    if (static_cast<int64_t>(grant.items.size()) >= kGrantMax) plan.next_due = now;
    plan.grants.push_back(std::move(grant));
  }
  for (const Source& source : sources.all) {
    if (!source.granted) continue;
    Touch(source.job);
    if (static_cast<int64_t>(source.job->queue->frontier()) > source.job->record.lease_frontier() ||
        source.job->record.started_at_ms() == 0) {
      plan.frontier_moved.push_back(source.job->number);
    }
  }
  if (takers.size() > 1) {
    PlanRecalls(takers, sources, &plan, now);
    if (options.speculates) PlanCopies(takers, &plan, now);
  }
  return plan;
}

}  // namespace nightshift
