// How several workers share one account with a rate limit, each of which would believe to have all
// of it.
//
// Those that have something to call get equal parts, half of it by what they have used lately: a
// worker that cannot use its part for another reason leaves most of it to the others. One with
// nothing to do keeps a little, to begin with until its next report. All shares of an account add
// up to at most 1; while reports cross, to a little more for a second.
//
// Every report asks, so what the accounts' users come to is kept: a worker that asks is counted as
// it is now, and the whole fleet is added up anew at most every kAddUpEvery. So a report costs its
// own backends, whatever the size of the fleet; that another one has gone is known a moment later.
//
// Pure; used by the dispatcher under its lock.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_RATE_SHARES_H_
#define NIGHTSHIFT_COORDINATOR_CORE_RATE_SHARES_H_

#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/core/worker_registry.h"
#include "nightshift/v1/worker.pb.h"

namespace nightshift {

// Of all that idle workers of an account keep together.
inline constexpr double kIdleShare = 0.05;

class RateShares {
 public:
  static constexpr absl::Duration kAddUpEvery = absl::Milliseconds(100);

  // For the backends of `worker`, which is in `registry`, that name an account; empty when none
  // does.
  v1::RateShares Of(Worker* worker, WorkerRegistry& registry, MonotonicTime now);

 private:
  // All that use one account.
  struct Users {
    int busy = 0;
    int idle = 0;
    double used = 0;  // requests per second, by the busy ones
  };

  void AddUp(WorkerRegistry& registry);
  // Moves the backend to the busy or idle users, if it is not among them.
  void Count(Backend* backend);

  absl::flat_hash_map<std::string, Users> users_;  // by account
  std::optional<MonotonicTime> added_up_at_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_RATE_SHARES_H_
