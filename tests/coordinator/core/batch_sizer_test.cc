#include "coordinator/core/batch_sizer.h"

#include <gtest/gtest.h>

#include <limits>

namespace nightshift {
namespace {

constexpr double kPlenty = 1e9;

TEST(BatchSizer, HoldsItsSlotsAndASecondAndAHalfOfItsRate) {
  EXPECT_EQ(RequestsToGrant({8, 100, 0}, kPlenty), 8 + 150);
}

TEST(BatchSizer, HoldsTwiceItsSlotsWhileTheRateIsUnknown) {
  EXPECT_EQ(RequestsToGrant({8, 0, 0}, kPlenty), 16);
}

TEST(BatchSizer, RefillsInBatchesWhenHalfTheBufferIsUsed) {
  EXPECT_EQ(RequestsToGrant({8, 100, 150}, kPlenty), 0);
  EXPECT_EQ(RequestsToGrant({8, 100, 83}, kPlenty), 0);
  EXPECT_EQ(RequestsToGrant({8, 100, 82}, kPlenty), 158 - 82);
}

// A server that takes minutes per answer has a rate near zero; its slots must still not run dry.
TEST(BatchSizer, ASlowBackendIsRefilledBeforeASlotIsFree) {
  EXPECT_EQ(RequestsToGrant({4, 0.01, 4}, kPlenty), 1);
  EXPECT_EQ(RequestsToGrant({4, 0.01, 5}, kPlenty), 0);
  EXPECT_EQ(RequestsToGrant({1, 0, 1}, kPlenty), 1);
}

TEST(BatchSizer, ALimitOfZeroTakesNothing) {
  EXPECT_EQ(RequestsToGrant({0, 100, 0}, kPlenty), 0);
  EXPECT_FALSE(WantsMore({0, 100, 0}));
}

TEST(BatchSizer, OneGrantIsBounded) {
  EXPECT_EQ(RequestsToGrant({2000, 100000, 0}, kPlenty), kGrantMax);
  EXPECT_LE(TargetHeld({2000, 1e12, 0}), 2000 + kBufferMax);
}

TEST(BatchSizer, AnyRateAndShareStaysInRange) {
  for (const double rate : {0.0, 1e-9, 1.0, 1e18, std::numeric_limits<double>::infinity()}) {
    for (const double fair : {0.0, 0.5, 1e9, 1e300, std::numeric_limits<double>::infinity()}) {
      const int64_t count = RequestsToGrant({16, rate, 0}, fair);
      EXPECT_GE(count, 1);
      EXPECT_LE(count, kGrantMax);
    }
  }
}

TEST(BatchSizer, NearTheEndOnlyHalfOfItsShareIsBuffered) {
  // 40 left in fair share, 8 run: of the other 32 it buffers 16.
  EXPECT_EQ(RequestsToGrant({8, 100, 0}, 40), 8 + 16);
  EXPECT_EQ(RequestsToGrant({8, 100, 24}, 40), 0);
}

// 64 slots at one request per second beside a server that does a hundred: filling the slots would
// make everyone wait a minute for the last 64.
TEST(BatchSizer, ASlowBackendDoesNotFillItsSlotsWithTheTail) {
  EXPECT_EQ(RequestsToGrant({64, 1, 0}, 0.6), 1);
  EXPECT_EQ(RequestsToGrant({64, 1, 1}, 0.6), 0);
  EXPECT_EQ(RequestsToGrant({64, 1, 0}, 3.2), 4);
}

TEST(BatchSizer, AskingAgainGivesNoMore) {
  BackendLoad load{8, 100, 0};
  load.held += RequestsToGrant(load, 30);
  EXPECT_EQ(RequestsToGrant(load, 30), 0);
}

// As a lone backend works through the end of a job it must always find its slots full.
TEST(BatchSizer, SlotsNeverStarveWhileThereIsWork) {
  for (const double rate : {0.0, 0.5, 3.0, 50.0, 5000.0}) {
    int64_t pending = 500;
    BackendLoad load{8, rate, 0};
    while (pending + load.held > 0) {
      const auto fair = static_cast<double>(pending + load.held);
      const int64_t given = std::min(pending, RequestsToGrant(load, fair));
      pending -= given;
      load.held += given;
      ASSERT_TRUE(load.held >= load.limit || pending == 0) << "rate " << rate;
      --load.held;  // an answer
    }
  }
}

// One with nothing to do is as fast as before; one that is paced does what it may.
TEST(BatchSizer, SpeedIsSlotsByLatencyUnlessCallsArePaced) {
  EXPECT_DOUBLE_EQ(SpeedOf(32, 32, 10, 7, 4), 8);
  EXPECT_DOUBLE_EQ(SpeedOf(32, 0, 0, 0, 4), 8);
  EXPECT_DOUBLE_EQ(SpeedOf(32, 5, 40, 2, 0.1), 2);
  EXPECT_DOUBLE_EQ(SpeedOf(32, 32, 0, 7, 0), 7);  // no call has ended
}

TEST(BatchSizer, WhatWouldEndLastGetsNothingMore) {
  EXPECT_FALSE(PastCutOff(/*latency=*/40, /*spread=*/2, /*seconds=*/77, /*other_latency=*/4));
  EXPECT_TRUE(PastCutOff(40, 2, 75, 4));
}

TEST(BatchSizer, IsAskedBackForWhatItCannotStartInTime) {
  // 64 held at 0.8/s: 80 s, where 10 s would do; 32 of them run.
  EXPECT_EQ(RequestsToRecall(64, 32, 0.8, 10), 32);
  // It keeps what it does in that time.
  EXPECT_EQ(RequestsToRecall(64, 8, 2, 10), 44);
  EXPECT_EQ(RequestsToRecall(64, 8, 6, 10), 0) << "it would save nothing";
  EXPECT_EQ(RequestsToRecall(32, 32, 0.1, 1), 0) << "all of it runs";
  EXPECT_EQ(RequestsToRecall(64, 0, 0, 10), 0);
}

}  // namespace
}  // namespace nightshift
