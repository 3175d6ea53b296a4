// How several workers share one account with a rate limit, each of which would believe to have all
// of it.
//
// Those that have something to call get equal parts, half of it by what they have used lately: a
// worker that cannot use its part for another reason leaves most of it to the others. One with
// nothing to do keeps a little, to begin with until its next report. All shares of an account add
// up to at most 1; while reports cross, to a little more for a second.
//
// Pure.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_RATE_SHARES_H_
#define NIGHTSHIFT_COORDINATOR_CORE_RATE_SHARES_H_

#include "coordinator/core/worker_registry.h"
#include "nightshift/v1/worker.pb.h"

namespace nightshift {

// Of all that idle workers of an account keep together.
inline constexpr double kIdleShare = 0.05;

// For the backends of `worker` that name an account; empty when none does.
v1::RateShares RateSharesOf(const WorkerRegistry& registry, const Worker& worker);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_RATE_SHARES_H_
