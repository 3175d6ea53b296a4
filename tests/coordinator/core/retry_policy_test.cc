#include "coordinator/core/retry_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace nightshift {
namespace {

TEST(RetryPolicy, TheLastAllowedAttemptEndsIt) {
  Random random(1);
  EXPECT_FALSE(DecideRetry(3, true, 5, {}, random).exhausted);
  const RetryDecision last = DecideRetry(4, true, 5, {}, random);
  EXPECT_TRUE(last.exhausted);
  EXPECT_EQ(last.charged, 5);
  EXPECT_TRUE(DecideRetry(0, true, 1, {}, random).exhausted);
}

TEST(RetryPolicy, FiveAttemptsWhenTheJobSaysNothing) {
  Random random(1);
  EXPECT_FALSE(DecideRetry(kMaxAttemptsDefault - 2, true, 0, {}, random).exhausted);
  EXPECT_TRUE(DecideRetry(kMaxAttemptsDefault - 1, true, 0, {}, random).exhausted);
}

TEST(RetryPolicy, UnchargedAttemptsNeverEndIt) {
  Random random(1);
  const RetryDecision decision = DecideRetry(4, false, 5, {}, random);
  EXPECT_FALSE(decision.exhausted);
  EXPECT_EQ(decision.charged, 4);
  EXPECT_LT(decision.delay, kUnchargedInitial);
}

TEST(RetryPolicy, DelaysGrowAndAreSpreadAndBounded) {
  Random random(7);
  for (int charged = 0; charged < 12; ++charged) {
    absl::Duration longest, shortest = absl::InfiniteDuration();
    const absl::Duration bound = std::min(kRetryMax, kRetryInitial * (1 << charged));
    for (int i = 0; i < 300; ++i) {
      const absl::Duration delay = DecideRetry(charged, true, 100, {}, random).delay;
      ASSERT_LE(delay, bound);
      longest = std::max(longest, delay);
      shortest = std::min(shortest, delay);
    }
    EXPECT_GT(longest, bound * 0.9);
    EXPECT_LT(shortest, bound * 0.1);
  }
}

TEST(RetryPolicy, TheBackendsWishIsAFloorWithJitterOnTop) {
  Random random(7);
  for (int i = 0; i < 100; ++i) {
    const absl::Duration delay = DecideRetry(0, true, 5, absl::Seconds(30), random).delay;
    EXPECT_GE(delay, absl::Seconds(30));
    EXPECT_LE(delay, absl::Seconds(31));
  }
  EXPECT_LE(DecideRetry(0, true, 5, absl::Hours(90), random).delay, kRetryAfterMax + kRetryInitial);
  EXPECT_GE(DecideRetry(0, true, 5, absl::Seconds(-9), random).delay, absl::ZeroDuration());
}

}  // namespace
}  // namespace nightshift
