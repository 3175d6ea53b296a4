#include "worker/core/limiter/fill_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "absl/strings/match.h"

namespace nightshift {
namespace {

// A backend that answers each call one second after its start, all of one length.
class SteadyBackend {
 public:
  explicit SteadyBackend(Limiter& limiter) : limiter_(limiter) {}

  // Keeps at most `demand` in flight for `span`.
  void Run(absl::Duration span, int demand = 1 << 20) {
    const MonotonicTime end = now_ + span;
    while (now_ < end) {
      while (in_flight() < std::min(limiter_.limit(), demand)) {
        Start();
        if (in_flight() > room_) Refuse();
      }
      const MonotonicTime started = calls_.front();
      calls_.pop_front();
      now_ = std::max(now_, started + absl::Seconds(1));
      limiter_.OnFinish({.latency = now_ - started,
                         .prompt_tokens = 10,
                         .completion_tokens = 10,
                         .in_flight = in_flight(),
                         .starved = demand < limiter_.limit()},
                        now_);
      now_ = now_ + absl::Microseconds(1);
    }
  }
  void Start() {
    limiter_.OnStart(now_);
    calls_.push_back(now_);
    now_ = now_ + absl::Microseconds(1);
  }
  // The youngest call is refused.
  void Refuse() {
    const MonotonicTime started = calls_.back();
    calls_.pop_back();
    ++refused_;
    limiter_.OnReject(started, in_flight(), now_);
    now_ = now_ + absl::Microseconds(1);
  }
  void Wait(absl::Duration d) { now_ = now_ + d; }
  // More in flight than this are refused.
  void set_room(int room) { room_ = room; }
  int refused() const { return refused_; }
  int in_flight() const { return static_cast<int>(calls_.size()); }

 private:
  Limiter& limiter_;
  int room_ = 1 << 20;
  int refused_ = 0;
  std::deque<MonotonicTime> calls_;
  MonotonicTime now_{1'000'000'000};
};

TEST(FillLimiterTest, BeginsWhereItIsTold) {
  EXPECT_EQ(FillLimiter(32).limit(), 32);
  EXPECT_EQ(FillLimiter(200).limit(), 200);
  EXPECT_EQ(FillLimiter(0).limit(), 1);
  EXPECT_EQ(FillLimiter(1 << 20).limit(), 1024);
}

// Latency does not change with the level, so throughput grows in step with it.
TEST(FillLimiterTest, GrowsToItsMaximumWhereItBringsThroughput) {
  FillLimiter limiter(32);
  SteadyBackend backend(limiter);
  backend.Run(absl::Minutes(1));
  EXPECT_GE(limiter.limit(), 700);
  EXPECT_LE(limiter.limit(), 1024);
}

// With less to send than it would take, nothing can be learnt.
TEST(FillLimiterTest, ConcludesNothingWhenStarved) {
  FillLimiter limiter(32);
  SteadyBackend backend(limiter);
  backend.Run(absl::Minutes(10), 20);
  EXPECT_EQ(limiter.limit(), 32);
}

// A burst of refusals is one piece of news.
TEST(FillLimiterTest, StepsDownOncePerBurst) {
  FillLimiter limiter(100);
  SteadyBackend backend(limiter);
  while (backend.in_flight() < 100) backend.Start();
  for (int i = 0; i < 60; ++i) backend.Refuse();
  EXPECT_EQ(limiter.limit(), 85);
  EXPECT_TRUE(absl::StrContains(limiter.Explain(), "refused")) << limiter.Explain();
}

TEST(FillLimiterTest, StepsDownAgainForCallsSentSince) {
  FillLimiter limiter(100);
  SteadyBackend backend(limiter);
  while (backend.in_flight() < 100) backend.Start();
  for (int i = 0; i < 20; ++i) backend.Refuse();
  while (backend.in_flight() < limiter.limit()) backend.Start();
  backend.Refuse();
  EXPECT_EQ(limiter.limit(), 72);
}

// A backend that was restarted refuses the single call that asks whether it is back. That says
// nothing about how many it can take.
TEST(FillLimiterTest, RefusalsWithLittleInFlightAreNotAboutRoom) {
  FillLimiter limiter(100);
  SteadyBackend backend(limiter);
  for (int i = 0; i < 50; ++i) {
    backend.Start();
    backend.Refuse();
    backend.Wait(absl::Seconds(5));
  }
  EXPECT_EQ(limiter.limit(), 100);
}

TEST(FillLimiterTest, StaysBelowARefusedLevelForAWhile) {
  FillLimiter limiter(100);
  SteadyBackend backend(limiter);
  while (backend.in_flight() < 100) backend.Start();
  backend.Refuse();
  backend.Run(absl::Seconds(110));
  EXPECT_LE(limiter.limit(), 95);
  backend.Run(absl::Minutes(2));
  EXPECT_GT(limiter.limit(), 100);
}

// Refused at every occasion: each is tried later than the one before, or half the hour would go
// into being refused.
TEST(FillLimiterTest, ComesBackToARefusedLevelLessAndLessOften) {
  FillLimiter limiter(100);
  SteadyBackend backend(limiter);
  backend.set_room(100);
  backend.Run(absl::Hours(2));
  EXPECT_GE(backend.refused(), 2);
  EXPECT_LE(backend.refused(), 12);
}

TEST(FillLimiterTest, SaysSoWhenStarved) {
  FillLimiter limiter(32);
  SteadyBackend backend(limiter);
  backend.Run(absl::Minutes(1), 20);
  EXPECT_EQ(limiter.Explain(), "32: the first level; too little is being sent to learn more");
}

TEST(FillLimiterTest, NeverBelowOne) {
  FillLimiter limiter(3);
  SteadyBackend backend(limiter);
  for (int i = 0; i < 50; ++i) {
    while (backend.in_flight() < limiter.limit()) backend.Start();
    backend.Refuse();
  }
  EXPECT_EQ(limiter.limit(), 1);
}

}  // namespace
}  // namespace nightshift
