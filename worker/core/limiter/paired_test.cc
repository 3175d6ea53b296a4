#include "worker/core/limiter/paired_test.h"

#include <algorithm>
#include <cmath>

namespace nightshift {
namespace {

// No comparison is more exact than this, however much two of them agree.
constexpr double kErrorMin = 0.004;

}  // namespace

PairedTest::PairedTest(int low, int high, bool high_first)
    : low_(low), high_(high), high_turn_(high_first) {}

void PairedTest::Add(double throughput) {
  if (previous_ > 0) {
    double advantage = std::log(throughput / previous_);
    if (high_turn_) advantage = -advantage;
    largest_ = count_ == 0 ? advantage : std::max(largest_, advantage);
    smallest_ = count_ == 0 ? advantage : std::min(smallest_, advantage);
    ++count_;
    sum_ += advantage;
    sum_of_squares_ += advantage * advantage;
  }
  previous_ = throughput;
  high_turn_ = !high_turn_;
}

double PairedTest::error() const {
  if (count_ < 2) return 1;
  const double mean = sum_ / count_;
  const double variance =
      std::max(0.0, sum_of_squares_ / count_ - mean * mean) * count_ / (count_ - 1);
  // Each epoch is in two comparisons: the mean of `count_` of them is only as exact as that of half
  // as many would be.
  return std::max(std::sqrt(2 * variance / count_), kErrorMin);
}

}  // namespace nightshift
