#include "coordinator/core/deadlines.h"

#include <gtest/gtest.h>

#include <limits>

namespace nightshift {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

DeadlineJob Job(double work, double seconds_left, int32_t priority = 0, int set = 0) {
  return {set, priority, work, seconds_left, /*window=*/1000, 100};
}

TEST(Deadlines, AJobWithoutOneIsNeitherServedNorLate) {
  const auto plans = PlanDeadlines({Job(1e9, kNever)});
  EXPECT_EQ(plans[0].share, 0);
  EXPECT_EQ(plans[0].late_seconds, 0);
}

// The margin is what it was at the start: near the end all that is left is wanted at once.
TEST(Deadlines, TheMarginDoesNotShrinkWithTheTime) {
  EXPECT_NEAR(PlanDeadlines({Job(2500, 150)})[0].share, 0.55, 1e-9);
  EXPECT_EQ(PlanDeadlines({Job(10, 90)})[0].share, 1);
}

// 9,000 slot-seconds in 1,000 s, of which a tenth is kept: 10 of 100 slots, and a tenth more.
TEST(Deadlines, AJobGetsWhatItNeeds) {
  const auto plans = PlanDeadlines({Job(9000, 1000), Job(1e9, kNever)});
  EXPECT_NEAR(plans[0].share, 0.11, 1e-9);
  EXPECT_EQ(plans[1].share, 0);
}

TEST(Deadlines, MoreThanThereIsGoesToTheEarliestAndTheOthersAreAtRisk) {
  const auto plans = PlanDeadlines({Job(80000, 1000), Job(80000, 1200)});
  EXPECT_EQ(plans[0].share, 1);
  EXPECT_EQ(plans[0].late_seconds, 0);
  EXPECT_EQ(plans[1].share, 1);
  EXPECT_NEAR(plans[1].late_seconds, 1600 - 1200, 1e-9);
}

// The first one cannot be in time; but it ends with its deadline, answered or not.
TEST(Deadlines, WhatIsHopelessDoesNotMakeTheOthersLate) {
  const auto plans = PlanDeadlines({Job(1e6, 100), Job(10000, 900)});
  EXPECT_NEAR(plans[0].late_seconds, 10000 - 100, 1e-9);
  EXPECT_EQ(plans[1].late_seconds, 0);
}

TEST(Deadlines, WhatHasAHigherPriorityGoesBefore) {
  const auto plans = PlanDeadlines({Job(50000, 1000), Job(70000, kNever, 1), Job(9e9, kNever, -1)});
  EXPECT_NEAR(plans[0].late_seconds, 1200 - 1000, 1e-9);
}

TEST(Deadlines, OtherModelsAreNoCompetition) {
  EXPECT_EQ(PlanDeadlines({Job(50000, 1000), Job(9e9, 500, 0, 1)})[0].late_seconds, 0);
}

TEST(Deadlines, PastItsDeadlineAJobWantsEverything) {
  const auto plans = PlanDeadlines({Job(100, -5)});
  EXPECT_EQ(plans[0].share, 1);
  EXPECT_NEAR(plans[0].late_seconds, 1, 1e-9);
}

TEST(Deadlines, WithoutABackendNothingIsSaid) {
  DeadlineJob job = Job(100, 1);
  job.slots = 0;
  EXPECT_EQ(PlanDeadlines({job})[0].late_seconds, 0);
}

}  // namespace
}  // namespace nightshift
