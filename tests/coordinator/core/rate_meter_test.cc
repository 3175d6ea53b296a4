#include "coordinator/core/rate_meter.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

MonotonicTime At(double seconds) {
  return MonotonicTime{static_cast<int64_t>((1000 + seconds) * 1e9)};
}

TEST(RateMeter, NothingMeasuredIsNothing) {
  RateMeter meter;
  EXPECT_EQ(meter.Recent(At(0)).requests, 0);
  EXPECT_LT(meter.Remaining(10, At(0)).low_seconds, 0);
}

TEST(RateMeter, YoungMeasurementsAreDividedByTheirAge) {
  RateMeter meter;
  meter.Start(At(0));
  for (int i = 0; i < 50; ++i) meter.Add(1, 20, At(i / 10.0));
  EXPECT_NEAR(meter.Recent(At(5)).requests, 10, 0.01);
  EXPECT_NEAR(meter.Recent(At(5)).tokens, 200, 0.01);
}

TEST(RateMeter, OnlyTheLastMinuteCounts) {
  RateMeter meter;
  for (int second = 0; second < 300; ++second) {
    meter.Add(second < 200 ? 100 : 4, 0, At(second));
  }
  EXPECT_NEAR(meter.Recent(At(299.5)).requests, 4, 0.2);
  EXPECT_EQ(meter.Recent(At(400)).requests, 0);
}

TEST(RateMeter, NoEstimateBeforeTwentyAnswersOrThirtySeconds) {
  RateMeter meter;
  meter.Add(19, 0, At(1));
  EXPECT_LT(meter.Remaining(100, At(2)).low_seconds, 0);
  EXPECT_GT(meter.Remaining(100, At(31)).low_seconds, 0);
  meter.Add(1, 0, At(2));
  EXPECT_GT(meter.Remaining(100, At(2)).low_seconds, 0);
}

TEST(RateMeter, TheEstimateEnclosesASteadyRate) {
  RateMeter meter;
  for (int i = 0; i < 1200; ++i) meter.Add(1, 0, At(i / 20.0));
  const RateMeter::Eta eta = meter.Remaining(2000, At(60));
  EXPECT_LT(eta.low_seconds, 100);
  EXPECT_GT(eta.high_seconds, 100);
  EXPECT_LT(eta.high_seconds - eta.low_seconds, 20);
}

TEST(RateMeter, AStandstillHasNoEstimate) {
  RateMeter meter;
  meter.Add(100, 0, At(0));
  EXPECT_LT(meter.Remaining(5, At(500)).high_seconds, 0);
}

}  // namespace
}  // namespace nightshift
