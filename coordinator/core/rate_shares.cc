#include "coordinator/core/rate_shares.h"

#include <string>

namespace nightshift {
namespace {

bool IsBusy(const Backend& backend) { return backend.in_flight + backend.buffered > 0; }

// All that use one account now.
struct Users {
  int busy = 0;
  int idle = 0;
  double used = 0;  // requests per second, by the busy ones
};

Users UsersOf(const WorkerRegistry& registry, const std::string& account) {
  Users users;
  for (const auto& [number, worker] : registry.all()) {
    // One that is silent or draining still finishes calls, but starts hardly any.
    if (worker.state != WorkerState::kConnected) continue;
    for (const Backend& backend : worker.backends) {
      if (!backend.reported || backend.account != account) continue;
      if (!IsBusy(backend)) {
        ++users.idle;
        continue;
      }
      ++users.busy;
      users.used += backend.requests_per_second;
    }
  }
  return users;
}

double ShareOf(const Backend& backend, const Users& users) {
  if (users.busy == 0) return 1.0 / users.idle;
  const double idle = users.idle > 0 ? kIdleShare : 0;
  if (!IsBusy(backend)) return idle / users.idle;
  const double equal = 1.0 / users.busy;
  const double by_use = users.used > 0 ? backend.requests_per_second / users.used : equal;
  return (1 - idle) * (equal + by_use) / 2;
}

}  // namespace

v1::RateShares RateSharesOf(const WorkerRegistry& registry, const Worker& worker) {
  v1::RateShares shares;
  if (worker.state != WorkerState::kConnected) return shares;
  for (const Backend& backend : worker.backends) {
    if (!backend.reported || backend.account.empty()) continue;
    v1::RateShares::Share* const share = shares.add_shares();
    share->set_backend(backend.name);
    share->set_share(ShareOf(backend, UsersOf(registry, backend.account)));
  }
  return shares;
}

}  // namespace nightshift
