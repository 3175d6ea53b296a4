// Which jobs the next requests for a backend come from: strictly the highest priority first; inside
// one priority the jobs with the fewest requests in flight are raised to one level, so that jobs
// that run side by side have about the same number of requests at work, whatever their size.
//
// Pure; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_FAIR_SHARE_H_
#define NIGHTSHIFT_COORDINATOR_CORE_FAIR_SHARE_H_

#include <cstdint>
#include <vector>

namespace nightshift {

struct ShareCandidate {
  int32_t priority = 0;
  int64_t in_flight = 0;  // over all backends
  int64_t available = 0;  // could go out now
};

// How many of `count` requests each candidate gives, same order; the sum is the smaller of `count`
// and all that is available. Among equals, the earlier candidate gives the odd one.
std::vector<int64_t> DivideGrant(int64_t count, const std::vector<ShareCandidate>& candidates);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_FAIR_SHARE_H_
