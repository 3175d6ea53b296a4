#include "coordinator/core/poison.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

TEST(Poison, CautionGrowsWithTheWorkersLost) {
  EXPECT_EQ(CautionFor(0, kAttemptsPlenty), Caution::kOrdinary);
  EXPECT_EQ(CautionFor(1, kAttemptsPlenty), Caution::kSuspect);
  EXPECT_EQ(CautionFor(2, kAttemptsPlenty), Caution::kAccused);
  EXPECT_EQ(CautionFor(9, kAttemptsPlenty), Caution::kAccused);
}

TEST(Poison, CautionGrowsAsAttemptsEndWithTheirConnections) {
  EXPECT_EQ(CautionFor(0, 4), Caution::kOrdinary);
  EXPECT_EQ(CautionFor(0, 3), Caution::kSuspect);
  EXPECT_EQ(CautionFor(0, 2), Caution::kLone);
  EXPECT_EQ(CautionFor(1, 4), Caution::kSuspect);
  EXPECT_EQ(CautionFor(1, 1), Caution::kLone);
  EXPECT_EQ(CautionFor(2, 1), Caution::kAccused);
}

TEST(Poison, TheThirdLossConvictsWhatWasAlone) {
  EXPECT_FALSE(IsConvicted(0, true, false));
  EXPECT_FALSE(IsConvicted(1, true, false));
  EXPECT_TRUE(IsConvicted(2, true, false));
  EXPECT_FALSE(IsConvicted(2, false, false));
  EXPECT_FALSE(IsConvicted(99, false, false));
}

TEST(Poison, OthersThatDieAtTheSameTimeExcuseItOnlySoOften) {
  EXPECT_FALSE(IsConvicted(2, true, true));
  EXPECT_FALSE(IsConvicted(kLostMax - 2, true, true));
  EXPECT_TRUE(IsConvicted(kLostMax - 1, true, true));
}

TEST(Poison, HalfOfAnIdleFleetTriesAndOneOfABusyOne) {
  EXPECT_EQ(TrialsMax(1, false), 1);
  EXPECT_EQ(TrialsMax(7, false), 3);
  EXPECT_EQ(TrialsMax(7, true), 1);
}

}  // namespace
}  // namespace nightshift
