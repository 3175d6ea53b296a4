// Jobs with a route: which lanes a backend takes from, and where a request belongs once its
// custom_id is known.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "coordinator/core/dispatcher_impl.h"
#include "coordinator/core/job_state.h"

namespace nightshift {
namespace {

// A lane that nobody serves is given to the next after this; at once when a backend that serves it
// says that it is broken.
constexpr absl::Duration kAbsentGrace = absl::Seconds(10);

}  // namespace

void Dispatcher::Impl::SetRoute(Job* job) {
  job->router.reset();
  job->lanes.clear();
  if (!job->record.options().has_route()) return;
  job->router = std::make_unique<Router>(job->record.options().route());
  job->lanes.resize(static_cast<size_t>(job->router->lanes()) + 1);
}

void Dispatcher::Impl::LookAtLanes(Job* job, MonotonicTime now, MonotonicTime* next_due) {
  if (job->router == nullptr) return;
  for (size_t number = 1; number < job->lanes.size(); ++number) {
    const auto lane = static_cast<Lane>(number);
    bool up = false;
    bool broken = false;
    for (auto& [worker_number, worker] : workers.all()) {
      if (worker.state != WorkerState::kConnected) continue;
      for (Backend& backend : worker.backends) {
        if (!job->router->Serves(lane, backend.name) ||
            !workers.Serves(&backend, model_sets, job->model_set)) {
          continue;
        }
        const bool fails = backend.state == "broken" || backend.state == "refused";
        // Without room for a single call it is left alone: a quota that is used up, say.
        const bool full = backend.reported && backend.limit == 0;
        up |= !fails && !full && backend.state != "starting";
        broken |= fails;
      }
    }
    LaneState& state = job->lanes[number];
    if (up || !state.seen.has_value()) state.seen = now;
    const MonotonicTime given_up = *state.seen + kAbsentGrace;
    state.down = !up && (broken || now >= given_up);
    if (!up && !state.down) *next_due = std::min(*next_due, given_up);
  }
}

int Dispatcher::Impl::StepsTo(const Job& job, Lane lane, const std::string& backend) const {
  for (int steps = 0;; ++steps) {
    if (job.router->Serves(lane, backend)) return steps;
    const Lane next = job.router->Next(lane);
    if (!job.lanes[lane].down || next == lane) return -1;
    lane = next;
  }
}

int64_t Dispatcher::Impl::WaitingInLanes(const Job& job, const std::string& backend) const {
  if (job.router == nullptr) return 0;
  int64_t waiting = 0;
  for (size_t lane = 1; lane < job.lanes.size(); ++lane) {
    const auto some = static_cast<int64_t>(job.queue->waiting(static_cast<Lane>(lane)));
    if (some > 0 && StepsTo(job, static_cast<Lane>(lane), backend) >= 0) waiting += some;
  }
  return waiting;
}

std::vector<uint64_t> Dispatcher::Impl::TakeFromLanes(Job* job, const std::string& backend,
                                                      int64_t count) {
  std::vector<uint64_t> indexes;
  for (size_t lane = 1; lane < job->lanes.size(); ++lane) {
    if (job->queue->waiting(static_cast<Lane>(lane)) == 0 ||
        StepsTo(*job, static_cast<Lane>(lane), backend) < 0) {
      continue;
    }
    job->queue->TakeLane(static_cast<Lane>(lane), count - static_cast<int64_t>(indexes.size()),
                         &indexes);
  }
  return indexes;
}

std::vector<bool> Dispatcher::Impl::Route(WorkerNumber number, absl::Span<const RequestId> ids,
                                          absl::Span<const std::string* const> custom_ids) {
  MutexLock lock(&mutex);
  NIGHTSHIFT_CHECK(ids.size() == custom_ids.size(), "a custom_id for each request");
  std::vector<bool> keep(ids.size(), true);
  const Worker* worker = workers.Find(number);
  for (size_t i = 0; i < ids.size(); ++i) {
    Job* job = jobs.Find(ids[i].job);
    const Lease* lease = leases.Find(ids[i]);
    if (worker == nullptr || job == nullptr || job->ended() || job->router == nullptr ||
        lease == nullptr || lease->worker != number || lease->caution != Caution::kOrdinary) {
      continue;
    }
    const auto known = job->attempts.find(ids[i].index);
    const int moves = known == job->attempts.end() ? 0 : known->second.moves;
    const Lane first = job->router->First(*custom_ids[i]);
    Lane lane = first;
    for (int step = 0; step < moves; ++step) lane = job->router->Next(lane);
    const std::string& backend = worker->backends[lease->backend].name;
    const int steps = StepsTo(*job, lane, backend);
    if (steps < 0) {
      keep[i] = false;
      leases.Remove(ids[i]);
      job->queue->Defer(ids[i].index, lane);
      Touch(job);
      continue;
    }
    for (int step = 0; step < steps; ++step) lane = job->router->Next(lane);
    leases.SetWay(ids[i], {.moves = moves + steps,
                           .last = job->router->Next(lane) == lane,
                           .moved = !job->router->Serves(first, backend)});
  }
  return keep;
}

LeaseWay Dispatcher::Impl::ClaimedWay(const Job& job, uint64_t index, absl::string_view backend) {
  LeaseWay way;
  if (job.router == nullptr) return way;
  const auto known = job.attempts.find(index);
  way.moves = known == job.attempts.end() ? 0 : known->second.moves;
  way.moved = way.moves > 0;
  // Any way that may be its own and goes on: at worst the last backend is asked once more.
  way.last = !job.router->MayMoveOn(way.moves, backend);
  return way;
}

bool Dispatcher::Impl::MovesOn(const Job& job, const Lease* lease,
                               const v1::AttemptResult& result) {
  if (job.router == nullptr || lease == nullptr || lease->way.last) return false;
  switch (result.error_class()) {
    // These say something about the backend, not about the request.
    case v1::ERROR_CLASS_RATE_LIMITED:
    case v1::ERROR_CLASS_TIMEOUT:
    case v1::ERROR_CLASS_CONNECTION_ERROR:
    case v1::ERROR_CLASS_SERVER_ERROR:
    case v1::ERROR_CLASS_INCOMPLETE_RESPONSE:
    case v1::ERROR_CLASS_MODEL_NOT_FOUND:
    case v1::ERROR_CLASS_AUTH:
      return result.kind() != v1::AttemptResult::ANSWERED;
    default:
      return false;
  }
}

}  // namespace nightshift
