#include "coordinator/core/worker_registry.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

// True when the words or models changed.
bool SetInfo(Backend* backend, const v1::BackendInfo& info) {
  bool changed = backend->state != info.state() || backend->detail != info.detail();
  backend->kind = info.kind();
  backend->url = info.url();
  backend->state = info.state();
  backend->detail = info.detail();
  backend->account = info.account();
  backend->server = info.server();
  if (!std::equal(backend->models.begin(), backend->models.end(), info.models().begin(),
                  info.models().end())) {
    backend->models.assign(info.models().begin(), info.models().end());
    backend->serves.clear();
    changed = true;
  }
  return changed;
}

}  // namespace

absl::StatusOr<Worker*> WorkerRegistry::Hello(const v1::Hello& hello, MonotonicTime now,
                                              absl::Time wall) {
  if (absl::string_view(hello.protocol()) != kWorkerProtocol) {
    return absl::InvalidArgumentError(
        absl::StrCat("this coordinator speaks ", kWorkerProtocol, ", the worker \"",
                     hello.protocol(), "\": install the same version of nightshift on both"));
  }
  if (hello.session().empty() || hello.name().empty()) {
    return absl::InvalidArgumentError("the worker's Hello has no name or no session");
  }
  if (hello.backends_size() > kBackendsPerWorkerMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", hello.name(), " has ", hello.backends_size(),
                     " backends; one worker can have ", kBackendsPerWorkerMax));
  }
  WorkerNumber& number = by_session_[hello.session()];
  if (number == 0) {
    number = ++last_number_;
    workers_[number].number = number;
    workers_[number].session = hello.session();
    workers_[number].first_heard = now;
  }
  Worker* worker = &workers_[number];
  MoveWorker(&worker->state, WorkerState::kConnected);
  worker->name = hello.name();
  worker->version = hello.version();
  worker->stream_open = true;
  worker->drain_said = false;
  worker->connected_at_ms = absl::ToUnixMillis(wall);
  worker->last_heard = now;
  for (Backend& backend : worker->backends) backend.reported = false;
  for (const v1::BackendInfo& info : hello.backends()) {
    SetInfo(&worker->backends[BackendPlace(worker, info.name())], info);
  }
  return worker;
}

Worker* WorkerRegistry::Find(WorkerNumber number) {
  const auto it = workers_.find(number);
  return it == workers_.end() ? nullptr : &it->second;
}

const Worker* WorkerRegistry::Find(WorkerNumber number) const {
  const auto it = workers_.find(number);
  return it == workers_.end() ? nullptr : &it->second;
}

void WorkerRegistry::Heard(Worker* worker, MonotonicTime now) {
  worker->last_heard = std::max(worker->last_heard, now);
  // Messages that were under way when the stream broke prove nothing about a new one.
  if (!worker->stream_open) return;
  if (worker->state == WorkerState::kSilent || worker->state == WorkerState::kGone) {
    MoveWorker(&worker->state,
               worker->drain_said ? WorkerState::kDraining : WorkerState::kConnected);
  }
}

bool WorkerRegistry::Report(Worker* worker, const v1::Report& report, MonotonicTime now) {
  const WorkerState before = worker->state;
  Heard(worker, now);
  bool changed = worker->state != before;
  for (const v1::BackendReport& figures : report.backends()) {
    if (worker->backends.size() >= static_cast<size_t>(kBackendsPerWorkerMax) &&
        std::none_of(worker->backends.begin(), worker->backends.end(),
                     [&](const Backend& b) { return b.name == figures.info().name(); })) {
      continue;
    }
    Backend& backend = worker->backends[BackendPlace(worker, figures.info().name())];
    changed |= SetInfo(&backend, figures.info());
    changed |= backend.waiting_for != figures.waiting_for();
    changed |= (backend.limit > 0 && backend.reported) != (figures.limit() > 0);
    backend.reported = true;
    backend.limit = std::max(figures.limit(), 0);
    backend.in_flight = figures.in_flight();
    backend.buffered = figures.buffered();
    // A rate that is no number would poison everybody's share.
    const double rate = figures.requests_per_second();
    backend.requests_per_second = std::isfinite(rate) ? std::max(rate, 0.0) : 0;
    backend.tokens_per_second = figures.tokens_per_second();
    const double latency = figures.latency_seconds();
    backend.latency_seconds = std::isfinite(latency) ? std::max(latency, 0.0) : 0;
    backend.long_calls.clear();
    for (const v1::LongCall& call : figures.long_calls()) {
      if (backend.long_calls.size() >= static_cast<size_t>(kLongCallsMax)) break;
      backend.long_calls.push_back({{call.key().job(), call.key().index()}, call.age_seconds()});
    }
    backend.reported_at = now;
    backend.load_told = figures.has_load();
    if (backend.load_told) backend.load = figures.load();
    backend.waiting_for = figures.waiting_for();
    backend.explain = figures.explain();
  }
  return changed;
}

void WorkerRegistry::Drain(Worker* worker, MonotonicTime now) {
  worker->drain_said = true;
  Heard(worker, now);
  if (worker->state != WorkerState::kGone) MoveWorker(&worker->state, WorkerState::kDraining);
}

void WorkerRegistry::StreamClosed(Worker* worker, MonotonicTime now) {
  worker->stream_open = false;
  worker->stream_closed_at = now;
  if (worker->state == WorkerState::kConnected) MoveWorker(&worker->state, WorkerState::kSilent);
}

void WorkerRegistry::Gone(Worker* worker, MonotonicTime now) {
  MoveWorker(&worker->state, WorkerState::kGone);
  worker->gone_at = now;
}

uint32_t WorkerRegistry::BackendPlace(Worker* worker, absl::string_view name) {
  for (size_t place = 0; place < worker->backends.size(); ++place) {
    if (absl::string_view(worker->backends[place].name) == name) {
      return static_cast<uint32_t>(place);
    }
  }
  if (worker->backends.size() >= static_cast<size_t>(kBackendsPerWorkerMax)) return 0;
  worker->backends.emplace_back();
  worker->backends.back().name = std::string(name.data(), name.size());
  return static_cast<uint32_t>(worker->backends.size() - 1);
}

bool WorkerRegistry::Serves(Backend* backend, const ModelSets& sets, int set) const {
  if (backend->serves.size() <= static_cast<size_t>(set)) backend->serves.resize(set + 1, 0);
  signed char& known = backend->serves[set];
  if (known == 0) known = sets.Serves(backend->models, set) ? 1 : -1;
  return known > 0;
}

std::vector<Worker*> WorkerRegistry::Overdue(MonotonicTime now, absl::Duration ttl,
                                             absl::Duration reconnect_grace) {
  std::vector<Worker*> overdue;
  for (auto& [number, worker] : workers_) {
    if (worker.state == WorkerState::kGone) continue;
    const bool stays_away = !worker.stream_open && now - worker.stream_closed_at > reconnect_grace;
    if (stays_away || now - worker.last_heard > ttl) overdue.push_back(&worker);
  }
  return overdue;
}

std::vector<Worker*> WorkerRegistry::Predecessors(const Worker& worker) {
  std::vector<Worker*> found;
  for (auto& [number, other] : workers_) {
    if (number != worker.number && other.name == worker.name && !other.stream_open &&
        other.state != WorkerState::kGone) {
      found.push_back(&other);
    }
  }
  return found;
}

bool WorkerRegistry::Sweep(MonotonicTime now) {
  bool changed = false;
  for (auto it = workers_.begin(); it != workers_.end();) {
    Worker& worker = it->second;
    if (worker.state == WorkerState::kConnected && now - worker.last_heard > kSilentAfter) {
      MoveWorker(&worker.state, WorkerState::kSilent);
      changed = true;
    }
    // An open stream may still bring something, and then the worker must be known.
    if (worker.state == WorkerState::kGone && !worker.stream_open &&
        now - worker.gone_at > kGoneKept) {
      by_session_.erase(worker.session);
      it = workers_.erase(it);
      changed = true;
    } else {
      ++it;
    }
  }
  return changed;
}

}  // namespace nightshift
