#include "worker/core/retry_budget.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

TEST(RetryBudgetTest, AHundredOrSoInAdvanceThenAFewPerSecond) {
  RetryBudget budget;
  const MonotonicTime now{1};
  int at_once = 0;
  MonotonicTime due;
  while ((due = budget.Take(now)) <= now) ++at_once;
  EXPECT_EQ(at_once, RetryBudget::kMax / RetryBudget::kCost);
  EXPECT_EQ(due - now, absl::Milliseconds(200));
  EXPECT_EQ(budget.Take(now) - now, absl::Milliseconds(400)) << "each its own moment";
  // A success is worth half a try.
  for (int i = 0; i < 6; ++i) budget.OnSuccess();
  EXPECT_LE(budget.Take(now), now);
}

// However many there are, none waits longer than the bound.
TEST(RetryBudgetTest, DelaysAndNeverFails) {
  RetryBudget budget;
  const MonotonicTime now{1};
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_LE(budget.Take(now) - now, RetryBudget::kWaitMax);
  }
  EXPECT_LE(budget.Take(now + 2 * RetryBudget::kWaitMax), now + 2 * RetryBudget::kWaitMax);
}

TEST(RetryBudgetTest, IsNeverMoreThanFull) {
  RetryBudget budget;
  for (int i = 0; i < 1000; ++i) budget.OnSuccess();
  const MonotonicTime now = MonotonicTime{1} + absl::Hours(1);
  int at_once = 0;
  while (budget.Take(now) <= now) ++at_once;
  EXPECT_EQ(at_once, RetryBudget::kMax / RetryBudget::kCost);
}

}  // namespace
}  // namespace nightshift
