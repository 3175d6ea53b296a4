#include "coordinator/core/lease_table.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

TEST(LeaseTable, CountsPerWorkerAndBackend) {
  LeaseTable table;
  table.Add({1, 0}, {7, 0, 1});
  table.Add({1, 1}, {7, 2, 1});
  table.Add({2, 0}, {7, 2, 1});
  table.Add({2, 1}, {8, 0, 2});
  EXPECT_EQ(table.CountOf(7), 3);
  EXPECT_EQ(table.CountOf(7, 0), 1);
  EXPECT_EQ(table.CountOf(7, 1), 0);
  EXPECT_EQ(table.CountOf(7, 2), 2);
  EXPECT_EQ(table.CountOf(7, 9), 0);
  EXPECT_EQ(table.CountOf(9), 0);
  EXPECT_EQ(table.size(), 4);
  EXPECT_EQ(table.HeldBy(7), (std::vector<RequestId>{{1, 0}, {1, 1}, {2, 0}}));
  EXPECT_TRUE(table.Remove({1, 1}));
  EXPECT_FALSE(table.Remove({1, 1}));
  EXPECT_EQ(table.CountOf(7, 2), 1);
  EXPECT_EQ(table.Find({1, 1}), nullptr);
  ASSERT_NE(table.Find({2, 1}), nullptr);
  EXPECT_EQ(table.Find({2, 1})->worker, 8u);
}

TEST(LeaseTable, AWorkerThatHoldsNothingCountsAsNothing) {
  LeaseTable table;
  table.Add({1, 0}, {7, 3, 1});
  table.Remove({1, 0});
  EXPECT_EQ(table.CountOf(7, 3), 0);
  EXPECT_TRUE(table.HeldBy(7).empty());
}

TEST(LeaseTableDeathTest, TheSameRequestCannotBeHeldTwice) {
  LeaseTable table;
  table.Add({1, 0}, {7, 0, 1});
  EXPECT_DEATH(table.Add({1, 0}, {8, 0, 2}), "held already");
}

}  // namespace
}  // namespace nightshift
