#include "coordinator/core/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace nightshift {
namespace {

using Shares = std::vector<int64_t>;

ShareCandidate Job(double level, int64_t available, double weight = 1, double cost = 1) {
  ShareCandidate job;
  job.level = level;
  job.available = available;
  job.weight = weight;
  job.cost = cost;
  return job;
}

ShareCandidate Due(int64_t seconds, int64_t reserved, int64_t available, double level = 0) {
  ShareCandidate job = Job(level, available);
  job.reserved = reserved;
  job.due = MonotonicTime() + absl::Seconds(seconds);
  return job;
}

TEST(FairShare, OneJobGivesAll) { EXPECT_EQ(DivideGrant(10, {Job(5, 100)}), (Shares{10})); }

TEST(FairShare, NoMoreThanThereIs) {
  EXPECT_EQ(DivideGrant(10, {Job(0, 3), Job(0, 2)}), (Shares{3, 2}));
  EXPECT_EQ(DivideGrant(10, {}), Shares{});
}

TEST(FairShare, TheJobThatHasHadLessIsRaised) {
  EXPECT_EQ(DivideGrant(10, {Job(20, 100), Job(14, 100)}), (Shares{2, 8}));
  EXPECT_EQ(DivideGrant(4, {Job(20, 100), Job(14, 100)}), (Shares{0, 4}));
}

TEST(FairShare, TheEarlierGivesTheOddOne) {
  EXPECT_EQ(DivideGrant(3, {Job(0, 9), Job(0, 9)}), (Shares{2, 1}));
}

TEST(FairShare, WhatASmallJobCannotGiveTheOthersDo) {
  EXPECT_EQ(DivideGrant(12, {Job(0, 100), Job(0, 2), Job(0, 100)}), (Shares{5, 2, 5}));
}

TEST(FairShare, WeightsAreProportions) {
  EXPECT_EQ(DivideGrant(70, {Job(0, 100), Job(0, 100, 2), Job(0, 100, 4)}), (Shares{10, 20, 40}));
}

// Ten-second calls and one-second calls: the same time, not the same number.
TEST(FairShare, LongCallsCountForMore) {
  EXPECT_EQ(DivideGrant(55, {Job(0, 100, 1, 10), Job(0, 100)}), (Shares{5, 50}));
}

TEST(FairShare, WhatADeadlineNeedsGoesFirstAndNoMore) {
  EXPECT_EQ(DivideGrant(10, {Job(0, 100), Due(60, 6, 100, 1000)}), (Shares{4, 6}));
  // The earlier deadline first.
  EXPECT_EQ(DivideGrant(10, {Due(90, 8, 100), Due(60, 8, 100)}), (Shares{2, 8}));
  // What is reserved and not there is the others'.
  EXPECT_EQ(DivideGrant(10, {Job(0, 100), Due(60, 6, 2)}), (Shares{8, 2}));
}

TEST(FairShare, LevelsAreEqualUpToOneWhereThereIsWork) {
  const uint64_t seed = 20261130;
  Random random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<ShareCandidate> jobs(1 + random.Below(6));
    int64_t all = 0;
    for (ShareCandidate& job : jobs) {
      job.level = random.Unit() * 50;
      job.weight = 1 + static_cast<double>(random.Below(4));
      job.cost = 0.1 + random.Unit() * 5;
      job.available = static_cast<int64_t>(random.Below(60));
      all += job.available;
    }
    const auto count = static_cast<int64_t>(random.Below(200));
    const Shares shares = DivideGrant(count, jobs);
    ASSERT_EQ(std::accumulate(shares.begin(), shares.end(), int64_t{0}), std::min(count, all))
        << "seed " << seed << " round " << round;
    for (size_t a = 0; a < jobs.size(); ++a) {
      ASSERT_GE(shares[a], 0);
      ASSERT_LE(shares[a], jobs[a].available);
      for (size_t b = 0; b < jobs.size(); ++b) {
        if (shares[a] == jobs[a].available || shares[b] == 0) continue;
        // b would not have been given its last one while a stood lower.
        const double step_b = jobs[b].cost / jobs[b].weight;
        const double step_a = jobs[a].cost / jobs[a].weight;
        ASSERT_LE(jobs[b].level + step_b * static_cast<double>(shares[b] - 1),
                  jobs[a].level + step_a * static_cast<double>(shares[a]) + 1e-9)
            << "seed " << seed << " round " << round;
      }
    }
  }
}

TEST(JobWork, LevelsAreMeasuredTimeByWeight) {
  JobWork work;
  EXPECT_DOUBLE_EQ(work.Level(10, 2, 3), 15);  // nothing measured: 3 s each
  work.Add(4);
  work.Add(6);
  EXPECT_DOUBLE_EQ(work.cost(3), 5);
  EXPECT_DOUBLE_EQ(work.Level(10, 2, 3), (10 + 50) / 2);
}

TEST(JobWork, AJobThatComesLateStartsBesideTheOthersAndNeverFallsBack) {
  JobWork work;
  work.Add(10);
  work.StartAt(100, 2);
  EXPECT_DOUBLE_EQ(work.Base(2), 100);
  work.Add(10);
  EXPECT_DOUBLE_EQ(work.Base(2), 105);
  work.StartAt(50, 2);
  EXPECT_DOUBLE_EQ(work.Base(2), 105);
}

TEST(ClassFloor, OneInTwentyAndNoFloodAfterAPause) {
  ClassFloor floor;
  int64_t given = 0;
  for (int i = 0; i < 950; ++i) {
    const int64_t credit = floor.Credit(-1, 1);
    floor.Spend(-1, credit);
    given += credit;
  }
  EXPECT_NEAR(static_cast<double>(given), 50, 1);
  EXPECT_LE(floor.Credit(-2, 1'000'000), 64);
}

}  // namespace
}  // namespace nightshift
