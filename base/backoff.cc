#include "base/backoff.h"

#include <algorithm>
#include <cmath>

namespace nightshift {

absl::Duration FullJitter(const BackoffOptions& options, int failures, Random& random) {
  const int exponent = std::clamp(failures, 0, 30);
  const absl::Duration ceiling = std::min(options.max, options.initial * std::ldexp(1.0, exponent));
  return ceiling * random.Unit();
}

}  // namespace nightshift
