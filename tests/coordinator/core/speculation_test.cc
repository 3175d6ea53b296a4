#include "coordinator/core/speculation.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

TEST(Speculation, WhatTakesMuchLongerThanItWouldElsewhereIsWorthACopy) {
  EXPECT_FALSE(WorthACopy(/*age=*/11, /*owner=*/4, /*helper=*/4, /*q95=*/2));
  EXPECT_TRUE(WorthACopy(13, 4, 4, 2));
  // All calls take the same: after three of them.
  EXPECT_FALSE(WorthACopy(11.9, 4, 4, 1));
  EXPECT_TRUE(WorthACopy(12.1, 4, 4, 1));
}

TEST(Speculation, AHelperThatIsNoFasterIsNone) {
  EXPECT_FALSE(WorthACopy(20, 4, 60, 2));
  EXPECT_FALSE(WorthACopy(20, 4, 0, 2));  // nothing is known of it
}

TEST(Speculation, ASlowOwnerNeedNotBeWaitedFor) { EXPECT_TRUE(WorthACopy(13, 60, 4, 2)); }

TEST(Speculation, CopiesAreFew) {
  EXPECT_EQ(CopiesMaxOfJob(5), 1);
  EXPECT_EQ(CopiesMaxOfJob(20000), 200);
  EXPECT_EQ(CopiesMaxAtATime(4), 1);
  EXPECT_EQ(CopiesMaxAtATime(256), 12);
}

TEST(Speculation, WhatIsPaidByTheTokenIsKnown) {
  EXPECT_TRUE(PaidByTheToken("cerebras", ""));
  EXPECT_TRUE(PaidByTheToken("openai", "account"));
  EXPECT_FALSE(PaidByTheToken("vllm", ""));
}

TEST(DurationSpread, IsRelativeToTheBackendAndForgetsWhatIsOld) {
  DurationSpread spread;
  for (int i = 0; i < 19; ++i) spread.Add(2, 4);
  EXPECT_FALSE(spread.known());
  EXPECT_EQ(spread.Quantile(0.95, 7), 7);
  spread.Add(2, 4);
  spread.Add(2, 0);  // of a backend of which nothing is known
  EXPECT_DOUBLE_EQ(spread.Quantile(0.95, 7), 0.5);
  for (int i = 0; i < 1000; ++i) spread.Add(i < 900 ? 1 : 3, 1);
  EXPECT_DOUBLE_EQ(spread.Quantile(0.5, 7), 1);
  EXPECT_DOUBLE_EQ(spread.Quantile(0.95, 7), 3);
}

}  // namespace
}  // namespace nightshift
