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
  table.Remove({1, 1});
  table.Remove({1, 1});
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

TEST(LeaseTable, CountsByPriority) {
  LeaseTable table;
  table.Add({1, 0}, {7, 1, 1, 0, Caution::kOrdinary, 0});
  table.Add({1, 1}, {7, 1, 1, 0, Caution::kOrdinary, 5});
  table.Add({1, 2}, {7, 0, 1, 0, Caution::kOrdinary, 5});
  EXPECT_EQ(table.CountFrom(0, 7, 1), 2);
  EXPECT_EQ(table.CountFrom(1, 7, 1), 1);
  EXPECT_EQ(table.CountFrom(6, 7, 1), 0);
  EXPECT_EQ(table.CountFrom(0, 9, 1), 0);
  table.Remove({1, 1});
  EXPECT_EQ(table.CountFrom(1, 7, 1), 0);
}

// Whichever of the two gives it up, the other goes on, and as the holder.
TEST(LeaseTable, ACopyTakesTheHoldersPlace) {
  using Released = LeaseTable::Released;
  LeaseTable table;
  table.Add({1, 0}, {7, 0, 1});
  table.AddCopy({1, 0}, {8, 2, 2});
  EXPECT_EQ(table.size(), 1);
  EXPECT_EQ(table.copies(), 1);
  EXPECT_EQ(table.CountOf(8, 2), 1);
  EXPECT_TRUE(table.HeldBy(8).empty());
  EXPECT_EQ(table.CopiesOf(8), (std::vector<RequestId>{{1, 0}}));
  EXPECT_EQ(table.FindOf({1, 0}, 8)->lease_id, 2u);
  EXPECT_EQ(table.FindOf({1, 0}, 9), nullptr);
  EXPECT_EQ(table.Release({1, 0}, 9), Released::kNotHeld);

  EXPECT_EQ(table.Release({1, 0}, 7), Released::kOtherGoesOn);
  EXPECT_EQ(table.Find({1, 0})->worker, 8u);
  EXPECT_EQ(table.FindCopy({1, 0}), nullptr);
  EXPECT_EQ(table.CountOf(7), 0);
  EXPECT_EQ(table.HeldBy(8), (std::vector<RequestId>{{1, 0}}));

  table.AddCopy({1, 0}, {7, 0, 3});
  EXPECT_EQ(table.Release({1, 0}, 7), Released::kOtherGoesOn);
  EXPECT_EQ(table.Find({1, 0})->worker, 8u);
  EXPECT_EQ(table.Release({1, 0}, 8), Released::kFree);
  EXPECT_EQ(table.size() + table.copies() + table.CountOf(8), 0);
}

TEST(LeaseTable, WhoHasTheCopyCanBecomeTheHolder) {
  LeaseTable table;
  table.Add({1, 0}, {7, 0, 1});
  table.AddCopy({1, 0}, {8, 0, 2});
  table.Replace({1, 0}, {8, 1, 0});
  EXPECT_EQ(table.copies(), 0);
  EXPECT_EQ(table.CountOf(7), 0);
  EXPECT_EQ(table.CountOf(8, 0), 0);
  EXPECT_EQ(table.CountOf(8, 1), 1);
  table.AddCopy({1, 0}, {7, 0, 3});
  table.Remove({1, 0});
  EXPECT_EQ(table.CountOf(7) + table.CountOf(8) + table.copies(), 0);
}

TEST(LeaseTableDeathTest, TheSameRequestCannotBeHeldTwice) {
  LeaseTable table;
  table.Add({1, 0}, {7, 0, 1});
  EXPECT_DEATH(table.Add({1, 0}, {8, 0, 2}), "held already");
}

}  // namespace
}  // namespace nightshift
