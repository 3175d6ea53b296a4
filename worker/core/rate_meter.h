// How much per second, over the last few seconds: an exponentially weighted rate. Events that
// happened t seconds ago count e^(-t/3 s); the first seconds are corrected for the time that has
// not been watched yet, so that a new backend is not taken for a slow one.
#ifndef NIGHTSHIFT_WORKER_CORE_RATE_METER_H_
#define NIGHTSHIFT_WORKER_CORE_RATE_METER_H_

#include <cstdint>

#include "base/clock.h"

namespace nightshift {

class RateMeter {
 public:
  void Add(double amount, MonotonicTime now);
  double PerSecond(MonotonicTime now) const;

 private:
  bool started_ = false;
  MonotonicTime since_;  // of the first amount
  MonotonicTime last_;   // when `weight_` was last decayed
  double weight_ = 0;
};

// The mean of the last values: plain for the first hundred, then each new one counts a hundredth.
class RecentMean {
 public:
  void Add(double value);
  double value() const { return mean_; }  // 0 before the first

 private:
  int count_ = 0;
  double mean_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_RATE_METER_H_
