#include "coordinator/core/rate_shares.h"

#include <algorithm>

namespace nightshift {
namespace {

Backend::Counted KindOf(const Backend& backend) {
  return backend.in_flight + backend.buffered > 0 ? Backend::Counted::kBusy
                                                  : Backend::Counted::kIdle;
}

}  // namespace

void RateShares::Count(Backend* backend) {
  const Backend::Counted kind = KindOf(*backend);
  if (backend->counted == kind) return;
  Users& users = users_[backend->account];
  if (backend->counted == Backend::Counted::kBusy) --users.busy;
  if (backend->counted == Backend::Counted::kIdle) --users.idle;
  ++(kind == Backend::Counted::kBusy ? users.busy : users.idle);
  backend->counted = kind;
}

void RateShares::AddUp(WorkerRegistry& registry) {
  users_.clear();
  for (auto& [number, worker] : registry.all()) {
    for (Backend& backend : worker.backends) {
      backend.counted = Backend::Counted::kNot;
      // One that is silent or draining still finishes calls, but starts hardly any.
      if (worker.state != WorkerState::kConnected || !backend.reported) continue;
      if (backend.account.empty()) continue;
      Count(&backend);
      if (backend.counted == Backend::Counted::kBusy) {
        users_[backend.account].used += backend.requests_per_second;
      }
    }
  }
}

v1::RateShares RateShares::Of(Worker* worker, WorkerRegistry& registry, MonotonicTime now) {
  v1::RateShares shares;
  if (worker->state != WorkerState::kConnected) return shares;
  if (!added_up_at_.has_value() || now >= *added_up_at_ + kAddUpEvery) {
    AddUp(registry);
    added_up_at_ = now;
  }
  for (Backend& backend : worker->backends) {
    if (!backend.reported || backend.account.empty()) continue;
    Count(&backend);
    const Users& users = users_[backend.account];
    const double idle = users.idle > 0 ? kIdleShare : 0;
    v1::RateShares::Share* const share = shares.add_shares();
    share->set_backend(backend.name);
    if (users.busy == 0) {
      share->set_share(1.0 / std::max(1, users.idle));
    } else if (backend.counted == Backend::Counted::kIdle) {
      share->set_share(idle / std::max(1, users.idle));
    } else {
      const double equal = 1.0 / users.busy;
      // Its own rate may be newer than the sum.
      const double used = std::max(users.used, backend.requests_per_second);
      const double by_use = used > 0 ? backend.requests_per_second / used : equal;
      share->set_share((1 - idle) * (equal + by_use) / 2);
    }
  }
  return shares;
}

}  // namespace nightshift
