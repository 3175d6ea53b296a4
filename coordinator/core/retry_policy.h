// Whether a request whose attempt failed is tried again, and when.
//
// A charged attempt counts against the job's max_attempts and backs off exponentially with full
// jitter. An uncharged one (a limit, an overload, a worker that drains: the request is not to
// blame) counts for nothing and comes back soon. A backend's own wish is honoured, with the jitter
// on top so that what it sent away together does not come back together.
//
// Pure but for the Random& it is given.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_RETRY_POLICY_H_
#define NIGHTSHIFT_COORDINATOR_CORE_RETRY_POLICY_H_

#include <cstdint>

#include "absl/time/time.h"
#include "base/random.h"

namespace nightshift {

inline constexpr int32_t kMaxAttemptsDefault = 5;
inline constexpr absl::Duration kRetryInitial = absl::Seconds(1);
inline constexpr absl::Duration kRetryMax = absl::Seconds(60);
inline constexpr absl::Duration kUnchargedInitial = absl::Milliseconds(500);
// A backend that asks for longer is asked again after this all the same.
inline constexpr absl::Duration kRetryAfterMax = absl::Hours(1);

struct RetryDecision {
  int32_t charged = 0;     // attempts charged so far, this one included
  bool exhausted = false;  // no further attempt: the request has failed
  absl::Duration delay;    // until the next attempt, when there is one
};

// `charged_before`: attempts charged before this one. `max_attempts`: 0 = kMaxAttemptsDefault.
// `retry_after`: the backend's wish, zero when it has none.
RetryDecision DecideRetry(int32_t charged_before, bool charged, int32_t max_attempts,
                          absl::Duration retry_after, Random& random);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_RETRY_POLICY_H_
