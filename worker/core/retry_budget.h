// How many calls may be tries after failures: one for every two answers, a hundred or so in
// advance, and a few per second in any case. So a backend that fails often is not called several
// times as often because of it. Those that are over wait; none fails for it.
//
// Pure; lives on the worker's loop thread.
#ifndef NIGHTSHIFT_WORKER_CORE_RETRY_BUDGET_H_
#define NIGHTSHIFT_WORKER_CORE_RETRY_BUDGET_H_

#include <algorithm>

#include "absl/time/time.h"
#include "base/clock.h"

namespace nightshift {

class RetryBudget {
 public:
  static constexpr double kMax = 250;
  static constexpr double kCost = 2;        // of one try
  static constexpr double kPerSecond = 10;  // whatever happens
  // The longest wait: a request that is found to wait longer goes then.
  static constexpr absl::Duration kWaitMax = absl::Seconds(60);

  void OnSuccess() { level_ = std::min(kMax, level_ + 1); }

  // Takes one try, and returns when it may be made: not after `now`, or later.
  MonotonicTime Take(MonotonicTime now) {
    const double flowed = kPerSecond * std::max(0.0, absl::ToDoubleSeconds(now - at_));
    level_ = std::min(kMax, level_ + flowed);
    at_ = now;
    level_ = std::max(level_ - kCost, -kPerSecond * absl::ToDoubleSeconds(kWaitMax));
    return level_ >= 0 ? now : now + absl::Seconds(-level_ / kPerSecond);
  }

 private:
  double level_ = kMax;
  MonotonicTime at_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_RETRY_BUDGET_H_
