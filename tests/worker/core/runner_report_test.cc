// What the runner reports, and when.
#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "tests/worker/core/runner_fixture.h"

namespace nightshift {
namespace {

class RunnerReportTest : public RunnerTest {};

TEST_F(RunnerReportTest, ReportsAtOnceWhenWelcomedAndThenEverySecond) {
  Make(4);
  LinkUp();
  Welcome();
  EXPECT_EQ(Reports().size(), 1u);
  EXPECT_EQ(LastReport().limit(), 4);
  Advance(absl::Seconds(0.9));
  EXPECT_EQ(Reports().size(), 1u);
  Advance(absl::Seconds(10));
  EXPECT_EQ(Reports().size(), 11u);
}

TEST_F(RunnerReportTest, CountsWhatWaitsToBeTriedAgainAsBuffered) {
  Connect(2);
  Lease(0, 6);
  Finish(HttpError(calls_.started[0].id, 429));
  Advance(absl::ZeroDuration());
  link_.sent.clear();
  Revoke({5});
  runner_->OnTimer(Now());
  clock_.Advance(absl::Seconds(1));
  // Not OnTimer: the waiting request would start. A change of state reports at once.
  v1::BackendInfo info;
  info.set_name("b");
  info.set_state("ready");
  runner_->OnBackendInfo(0, info, Now());
  EXPECT_EQ(LastReport().in_flight(), 2);
  EXPECT_EQ(LastReport().buffered(), 3);  // 0 waits, 3 and 4 are buffered
  EXPECT_TRUE(
      absl::StrContains(LastReport().waiting_for(), "1 request that waits to be tried again"));
  Revoke({0});
  runner_->OnBackendInfo(0, info, Now());
  EXPECT_EQ(LastReport().buffered(), 2);
  EXPECT_EQ(LastReport().waiting_for(), "");
}

TEST_F(RunnerReportTest, TellsRateTokensAndLatency) {
  Connect(1);
  Lease(0, 200);
  for (int i = 0; i < 100; ++i) {
    Advance(absl::Milliseconds(50));
    Finish(Answer(calls_.started.back().id));
  }
  Advance(absl::Seconds(0.05));
  EXPECT_NEAR(LastReport().requests_per_second(), 20, 1.5);
  EXPECT_NEAR(LastReport().tokens_per_second(), 100, 8);
  EXPECT_NEAR(LastReport().latency_seconds(), 0.05, 0.001);
}

// A backend that hangs looks slow before any of its calls has ended.
TEST_F(RunnerReportTest, LatencyRisesWithTheAgeOfTheCallsUnderWay) {
  Connect(2);
  Lease(0, 3);
  EXPECT_EQ(LastReport().latency_seconds(), 0);
  Advance(absl::Seconds(1));
  Finish(Answer(calls_.started[0].id));
  Advance(absl::Seconds(1));
  EXPECT_NEAR(LastReport().latency_seconds(), 1, 0.1);  // 1 and 2 s under way
  Advance(absl::Seconds(10));
  EXPECT_NEAR(LastReport().latency_seconds(), 10.5, 0.6);  // told up to a second ago
}

TEST_F(RunnerReportTest, AFewStragglersAreNoSlowBackend) {
  Connect(8);
  Lease(0, 8);
  Advance(absl::Seconds(1));
  for (int i = 0; i < 5; ++i) Finish(Answer(calls_.started[i].id));
  Advance(absl::Seconds(60));
  EXPECT_NEAR(LastReport().latency_seconds(), 1, 0.1);
}

TEST_F(RunnerReportTest, TellsOfLongCallsOnceNothingIsBuffered) {
  Connect(2);
  Lease(0, 4);
  Advance(absl::Seconds(1));
  Finish(Answer(calls_.started[1].id));
  Advance(absl::Seconds(5));
  EXPECT_EQ(LastReport().long_calls_size(), 0) << "3 is buffered";
  Finish(Answer(calls_.started[2].id));  // after 5 s: the mean is 3 s
  Advance(absl::Seconds(1));
  ASSERT_EQ(LastReport().long_calls_size(), 1);
  EXPECT_EQ(LastReport().long_calls(0).key().index(), 0u);
  EXPECT_NEAR(LastReport().long_calls(0).age_seconds(), 7, 0.1);
  Advance(absl::Seconds(6));
  ASSERT_EQ(LastReport().long_calls_size(), 2);
  EXPECT_EQ(LastReport().long_calls(0).key().index(), 0u);  // the oldest first
  EXPECT_EQ(LastReport().long_calls(1).key().index(), 3u);
}

TEST_F(RunnerReportTest, ReportsEarlyWhenABackendRunsLow) {
  Connect(4);
  Lease(0, 40);
  // 40 requests per second: 12 are used up in 0.3 s.
  int at_buffered = -1;
  for (int i = 0; i < 40 && at_buffered < 0; ++i) {
    Advance(absl::Milliseconds(25));
    link_.sent.clear();
    Finish(Answer(calls_.started[i].id));
    if (!Reports().empty()) at_buffered = LastReport().buffered();
  }
  EXPECT_GE(at_buffered, 8);
  EXPECT_LE(at_buffered, 14);
}

TEST_F(RunnerReportTest, ReportsLowAtMostEveryTwentyMilliseconds) {
  Connect(100);
  // Leases go on coming, so the runner has reason to go on asking.
  uint64_t next = 0;
  for (int ms = 0; ms < 1000; ++ms) {
    Lease(next++, 1);
    Finish(Answer(calls_.started.back().id));
    Advance(absl::Milliseconds(1));
  }
  EXPECT_GT(Reports().size(), 40u);
  EXPECT_LE(Reports().size(), 51u);
}

// At the end of a job there is nothing to be had, and no use in asking fifty times a second.
TEST_F(RunnerReportTest, AsksLessOftenWhileNothingComesOfIt) {
  Connect(1000);
  Lease(0, 1000);
  link_.sent.clear();
  for (int i = 0; i < 1000; ++i) {
    Finish(Answer(calls_.started[i].id));
    Advance(absl::Milliseconds(1));
  }
  EXPECT_LE(Reports().size(), 8u);
  // Until a lease comes again.
  link_.sent.clear();
  Lease(1000, 1);
  Advance(absl::Milliseconds(25));
  EXPECT_EQ(Reports().size(), 1u);
}

TEST_F(RunnerReportTest, AnIdleRunnerReportsOncePerSecond) {
  Connect(4);
  Lease(0, 1);
  Finish(Answer(calls_.started[0].id));
  Acknowledge({1});
  Advance(absl::Seconds(1));
  link_.sent.clear();
  Advance(absl::Seconds(10));
  EXPECT_EQ(Reports().size(), 10u);
}

// Reports are figures of the moment: a stuck stream must not fill up with them.
TEST_F(RunnerReportTest, DoesNotQueueUpReportsInAStuckStream) {
  Connect(4);
  link_.slow = true;
  Advance(absl::Seconds(60));
  EXPECT_EQ(Reports().size(), 2u);
  link_.backlog = 1;
  runner_->OnWritable(Now());
  EXPECT_EQ(Reports().size(), 3u);
}

TEST_F(RunnerReportTest, SaysNothingWithoutAStream) {
  Connect(4);
  LinkDown();
  Advance(absl::Seconds(10));
  EXPECT_TRUE(link_.sent.empty());
  EXPECT_TRUE(runner_->OnTimer(Now()).infinite()) << "nothing is due";
}

}  // namespace
}  // namespace nightshift
