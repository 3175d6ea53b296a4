// Exponential backoff with full jitter: the wait before try k is uniform in
// [0, min(max, initial * 2^k)), so that clients that failed together do not come back together.
// Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
#ifndef NIGHTSHIFT_BASE_BACKOFF_H_
#define NIGHTSHIFT_BASE_BACKOFF_H_

#include "absl/time/time.h"
#include "base/random.h"

namespace nightshift {

struct BackoffOptions {
  absl::Duration initial = absl::Seconds(1);
  absl::Duration max = absl::Seconds(60);
};

// `failures` counts what has failed in a row so far: 0 gives a wait below `initial`.
absl::Duration FullJitter(const BackoffOptions& options, int failures, Random& random);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_BACKOFF_H_
