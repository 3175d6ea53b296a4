#include "coordinator/core/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace nightshift {
namespace {

using Shares = std::vector<int64_t>;

TEST(FairShare, OneJobGivesAll) { EXPECT_EQ(DivideGrant(10, {{0, 5, 100}}), (Shares{10})); }

TEST(FairShare, NoMoreThanThereIs) {
  EXPECT_EQ(DivideGrant(10, {{0, 0, 3}, {0, 0, 2}}), (Shares{3, 2}));
  EXPECT_EQ(DivideGrant(10, {}), Shares{});
}

TEST(FairShare, HigherPriorityFirstWhateverIsInFlight) {
  EXPECT_EQ(DivideGrant(10, {{0, 0, 100}, {5, 90, 7}}), (Shares{3, 7}));
}

TEST(FairShare, TheJobWithFewerInFlightIsRaised) {
  EXPECT_EQ(DivideGrant(10, {{0, 20, 100}, {0, 14, 100}}), (Shares{2, 8}));
  EXPECT_EQ(DivideGrant(4, {{0, 20, 100}, {0, 14, 100}}), (Shares{0, 4}));
}

TEST(FairShare, TheEarlierGivesTheOddOne) {
  EXPECT_EQ(DivideGrant(3, {{0, 0, 9}, {0, 0, 9}}), (Shares{2, 1}));
}

TEST(FairShare, WhatASmallJobCannotGiveTheOthersDo) {
  EXPECT_EQ(DivideGrant(12, {{0, 0, 100}, {0, 0, 2}, {0, 0, 100}}), (Shares{5, 2, 5}));
}

TEST(FairShare, LevelsAreEqualUpToOneWhereThereIsWork) {
  const uint64_t seed = 20261130;
  Random random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<ShareCandidate> jobs(1 + random.Below(6));
    int64_t all = 0;
    for (ShareCandidate& job : jobs) {
      job.priority = static_cast<int32_t>(random.Below(3));
      job.in_flight = static_cast<int64_t>(random.Below(50));
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
        const bool a_could_give_more = shares[a] < jobs[a].available;
        if (!a_could_give_more || shares[b] == 0) continue;
        ASSERT_LE(jobs[a].priority, jobs[b].priority);
        if (jobs[a].priority == jobs[b].priority) {
          ASSERT_LE(jobs[b].in_flight + shares[b], jobs[a].in_flight + shares[a] + 1)
              << "seed " << seed << " round " << round;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nightshift
