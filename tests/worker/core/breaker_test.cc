#include "worker/core/breaker.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

using State = Breaker::State;

class BreakerTest : public testing::Test {
 protected:
  void OpenByUnavailable() {
    for (int i = 0; i < Breaker::kUnavailableMax; ++i) {
      breaker_.OnUnavailable("connection refused", now_, random_);
    }
    ASSERT_EQ(breaker_.state(), State::kOpen);
  }
  // How long it stays open from now on.
  absl::Duration Wait() const { return breaker_.reopens_at() - now_; }
  void PassWait() {
    now_ = breaker_.reopens_at();
    EXPECT_TRUE(breaker_.OnTime(now_));
    EXPECT_EQ(breaker_.state(), State::kProbing);
  }

  Breaker breaker_;
  Random random_{1};
  MonotonicTime now_{1'000'000'000};
};

TEST_F(BreakerTest, OpensAfterFiveInARow) {
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(breaker_.OnUnavailable("refused", now_, random_));
  EXPECT_FALSE(breaker_.OnAlive());
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(breaker_.OnUnavailable("refused", now_, random_));
  EXPECT_EQ(breaker_.state(), State::kClosed);
  EXPECT_TRUE(breaker_.OnUnavailable("refused", now_, random_));
  EXPECT_EQ(breaker_.state(), State::kOpen);
  EXPECT_EQ(breaker_.cause(), Breaker::Cause::kUnavailable);
  EXPECT_EQ(breaker_.detail(), "refused");
}

TEST_F(BreakerTest, StaysOpenForFiveSecondsDoublingToAQuarterOfAMinute) {
  OpenByUnavailable();
  for (const int seconds : {5, 10, 15, 15, 15}) {
    EXPECT_GE(Wait(), absl::Seconds(0.8 * seconds));
    EXPECT_LE(Wait(), absl::Seconds(1.2 * seconds));
    EXPECT_FALSE(breaker_.OnTime(breaker_.reopens_at() - absl::Nanoseconds(1)));
    PassWait();
    EXPECT_TRUE(breaker_.OnUnavailable("refused", now_, random_));
  }
}

TEST_F(BreakerTest, OpensAfterTenFailuresInARowOfSeveralRequests) {
  for (uint64_t i = 0; i < 9; ++i) EXPECT_FALSE(breaker_.OnFailed("HTTP 500", i, now_, random_));
  breaker_.OnAlive();
  for (uint64_t i = 0; i < 9; ++i) EXPECT_FALSE(breaker_.OnFailed("HTTP 500", i, now_, random_));
  EXPECT_TRUE(breaker_.OnFailed("HTTP 500", 9, now_, random_));
  EXPECT_EQ(breaker_.state(), State::kOpen);
  EXPECT_EQ(breaker_.cause(), Breaker::Cause::kUnavailable);
  EXPECT_EQ(breaker_.detail(), "HTTP 500");
  PassWait();
  EXPECT_TRUE(breaker_.OnFailed("HTTP 500", 10, now_, random_)) << "once is enough for a probe";
  EXPECT_GE(Wait(), absl::Seconds(8));
}

// Four requests that a working server fails at end as failed, and nothing waits for them.
TEST_F(BreakerTest, AFewBadRequestsDoNotOpenIt) {
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(breaker_.OnFailed("HTTP 500", i % 4, now_, random_));
  }
  EXPECT_TRUE(breaker_.OnFailed("HTTP 500", 4, now_, random_));
}

TEST_F(BreakerTest, AnAnswerToTheProbeClosesItAndForgetsTheDoubling) {
  OpenByUnavailable();
  PassWait();
  EXPECT_TRUE(breaker_.OnUnavailable("refused", now_, random_));
  PassWait();
  EXPECT_TRUE(breaker_.OnAlive());
  EXPECT_EQ(breaker_.state(), State::kClosed);
  EXPECT_EQ(breaker_.detail(), "");
  EXPECT_TRUE(breaker_.reopens_at().infinite());
  OpenByUnavailable();
  EXPECT_LE(Wait(), absl::Seconds(6));
}

// Calls begun before it was found broken may still end well, on connections that were open.
TEST_F(BreakerTest, LateAnswersDoNotCloseIt) {
  OpenByUnavailable();
  EXPECT_FALSE(breaker_.OnAlive());
  EXPECT_EQ(breaker_.state(), State::kOpen);
  EXPECT_FALSE(breaker_.OnUnavailable("refused", now_, random_));
}

TEST_F(BreakerTest, RefusedKeyOpensAtOnceForAMinute) {
  EXPECT_TRUE(breaker_.OnRefusedKey("HTTP 401", now_));
  EXPECT_EQ(breaker_.cause(), Breaker::Cause::kRefusedKey);
  EXPECT_EQ(Wait(), absl::Seconds(60));
  EXPECT_FALSE(breaker_.OnRefusedKey("HTTP 401", now_ + absl::Seconds(1)));
  EXPECT_EQ(Wait(), absl::Seconds(60));
  PassWait();
  EXPECT_TRUE(breaker_.OnRefusedKey("HTTP 401", now_));
  EXPECT_EQ(Wait(), absl::Seconds(60));
}

TEST_F(BreakerTest, WaitsAsLongAsItIsTold) {
  EXPECT_TRUE(breaker_.OnToldToWait("quota", absl::Seconds(17), now_, random_));
  EXPECT_EQ(breaker_.cause(), Breaker::Cause::kToldToWait);
  EXPECT_EQ(Wait(), absl::Seconds(17));
  // The other calls of the burst may know better, but never shorten it.
  EXPECT_FALSE(breaker_.OnToldToWait("quota", absl::Seconds(20), now_, random_));
  EXPECT_FALSE(breaker_.OnToldToWait("quota", absl::Seconds(3), now_, random_));
  EXPECT_EQ(Wait(), absl::Seconds(20));
}

TEST_F(BreakerTest, WaitsOfItsOwnChoosingWhenItIsNotToldHowLong) {
  EXPECT_TRUE(breaker_.OnToldToWait("quota", absl::ZeroDuration(), now_, random_));
  EXPECT_GE(Wait(), absl::Seconds(4));
  EXPECT_LE(Wait(), absl::Seconds(6));
}

TEST_F(BreakerTest, BeingToldThatItIsReadyBringsTheProbeForward) {
  EXPECT_FALSE(breaker_.OnToldReady());
  OpenByUnavailable();
  EXPECT_TRUE(breaker_.OnToldReady());
  EXPECT_EQ(breaker_.state(), State::kProbing);
  EXPECT_TRUE(breaker_.OnAlive());
  // Not from a quota, which nobody can see from outside.
  EXPECT_TRUE(breaker_.OnToldToWait("quota", absl::Seconds(17), now_, random_));
  EXPECT_FALSE(breaker_.OnToldReady());
  EXPECT_EQ(breaker_.state(), State::kOpen);
}

TEST_F(BreakerTest, HasOneProbeAtATime) {
  OpenByUnavailable();
  PassWait();
  EXPECT_TRUE(breaker_.probe_free());
  breaker_.OnProbeStarted();
  EXPECT_FALSE(breaker_.probe_free());
  breaker_.OnProbeEnded();
  EXPECT_TRUE(breaker_.probe_free());
}

}  // namespace
}  // namespace nightshift
