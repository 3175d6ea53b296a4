#include "worker/core/rate_meter.h"

#include <algorithm>
#include <cmath>

namespace nightshift {
namespace {

constexpr double kTimeConstantSeconds = 3;
// The sum is decayed in steps of this: an exponential for each event would cost more than the error
// of 50 ms in 3 s is worth.
constexpr int64_t kStepNanos = 50'000'000;
// Below this the correction for a short past would make a rate out of one event.
constexpr double kWatchedSecondsMin = 0.2;
constexpr int kMeanCountMax = 100;

double Seconds(MonotonicTime from, MonotonicTime to) {
  return static_cast<double>(to.nanos - from.nanos) * 1e-9;
}

}  // namespace

void RateMeter::Add(double amount, MonotonicTime now) {
  if (!started_) {
    started_ = true;
    since_ = last_ = now;
  }
  if (now.nanos - last_.nanos >= kStepNanos) {
    weight_ *= std::exp(-Seconds(last_, now) / kTimeConstantSeconds);
    last_ = now;
  }
  weight_ += amount;
}

double RateMeter::PerSecond(MonotonicTime now) const {
  if (!started_) return 0;
  const double weight = weight_ * std::exp(-Seconds(last_, now) / kTimeConstantSeconds);
  const double watched = std::max(Seconds(since_, now), kWatchedSecondsMin);
  return weight / (kTimeConstantSeconds * (1 - std::exp(-watched / kTimeConstantSeconds)));
}

void RecentMean::Add(double value) {
  if (count_ < kMeanCountMax) ++count_;
  mean_ += (value - mean_) / count_;
}

}  // namespace nightshift
