#include "worker/core/limiter/paired_test.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace nightshift {
namespace {

TEST(PairedTestTest, TakesTurns) {
  PairedTest test(8, 10, /*high_first=*/true);
  EXPECT_EQ(test.turn(), 10);
  test.Add(100);
  EXPECT_EQ(test.count(), 0);
  EXPECT_EQ(test.turn(), 8);
  test.Add(110);
  EXPECT_EQ(test.count(), 1);
  EXPECT_EQ(test.turn(), 10);
  EXPECT_NEAR(test.advantage_of_low(), std::log(1.1), 1e-9);
}

// A server that gets slower all the time favours neither level.
TEST(PairedTestTest, ADriftFavoursNeither) {
  PairedTest test(8, 10, /*high_first=*/false);
  double speed = 100;
  for (int i = 0; i < 9; ++i) {
    test.Add(speed);
    speed *= 0.95;
  }
  EXPECT_EQ(test.count(), 8);
  EXPECT_NEAR(test.advantage_of_low(), 0, 1e-9);
}

// The promise of the standard error: of two equal levels, one is called better by two errors no
// more often than chance allows. Without the factor for shared epochs it is three times as often.
TEST(PairedTestTest, ErrorIsHonest) {
  Random random(1);
  int called = 0;
  constexpr int kTests = 2000;
  for (int i = 0; i < kTests; ++i) {
    PairedTest test(8, 10, /*high_first=*/false);
    for (int turn = 0; turn < 20; ++turn) test.Add(100 * std::exp(0.1 * random.Gaussian()));
    if (std::abs(test.advantage_of_low()) > 2 * test.error()) ++called;
  }
  EXPECT_LT(called, kTests * 0.08);
  EXPECT_GT(called, kTests * 0.005);
}

TEST(PairedTestTest, AlwaysBetterMeansEveryTime) {
  PairedTest test(8, 10, /*high_first=*/false);
  test.Add(100);
  test.Add(110);
  test.Add(100);
  EXPECT_TRUE(test.high_always_better(0.05));
  test.Add(102);
  EXPECT_FALSE(test.high_always_better(0.05));
}

}  // namespace
}  // namespace nightshift
