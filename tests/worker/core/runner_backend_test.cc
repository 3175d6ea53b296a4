// What the runner does about a backend in trouble: broken, loading, refusing its key, not ready.
#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "tests/worker/core/runner_fixture.h"
#include "worker/core/breaker.h"

namespace nightshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class RunnerBackendTest : public RunnerTest {};

TEST_F(RunnerBackendTest, FiveUnavailableInARowBreakTheBackend) {
  Connect(8);
  Lease(0, 20);
  for (int i = 0; i < 4; ++i) {
    Finish(Broken(calls_.started[i].id, Transport::kConnectFailed, "connection refused"));
  }
  EXPECT_THAT(ReturnedIndexes(), IsEmpty());
  link_.sent.clear();
  Finish(Broken(calls_.started[4].id, Transport::kConnectFailed, "connection refused"));
  // First that nothing can be taken, then what is handed back.
  ASSERT_GE(link_.sent.size(), 2u);
  EXPECT_TRUE(link_.sent[0].has_report());
  EXPECT_TRUE(link_.sent[1].has_returned());
  EXPECT_TRUE(absl::StrContains(link_.sent[1].returned().why(), "connection refused"));
  EXPECT_EQ(LastReport().limit(), 0);
  EXPECT_EQ(LastReport().info().state(), "broken");
  EXPECT_TRUE(absl::StrContains(LastReport().info().detail(), "connection refused"));
  // The calls in flight go on; everything else, also what waited to be tried again, is back.
  EXPECT_EQ(runner_->held(), runner_->in_flight());
  EXPECT_EQ(ReturnedIndexes().size(), 20u - runner_->in_flight());
  EXPECT_THAT(Results(), IsEmpty()) << "nothing is charged";
}

TEST_F(RunnerBackendTest, CallsThatFailAfterTheBreakGoBackToo) {
  Connect(8);
  Lease(0, 8);
  for (int i = 0; i < 8; ++i) {
    Finish(Broken(calls_.started[i].id, Transport::kConnectFailed, "connection refused"));
  }
  EXPECT_EQ(runner_->held(), 0);
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

class BrokenBackendTest : public RunnerTest {
 protected:
  void SetUp() override {
    Connect(8);
    Lease(0, 5);
    for (int i = 0; i < 5; ++i) {
      Finish(Broken(calls_.started[i].id, Transport::kConnectFailed, "connection refused"));
    }
    ASSERT_EQ(runner_->held(), 0);
    calls_.started.clear();
    link_.sent.clear();
  }
};

TEST_F(BrokenBackendTest, LeasesThatCrossedTheNewsAreHandedBack) {
  Lease(30, 2);
  EXPECT_THAT(ReturnedIndexes(), ElementsAre(30, 31));
  EXPECT_THAT(calls_.started, IsEmpty());
}

TEST_F(BrokenBackendTest, ProbesWithOneRequestAndOpensUpWhenItIsAnswered) {
  Advance(absl::Seconds(6.1));
  EXPECT_EQ(LastReport().limit(), 1);
  EXPECT_EQ(LastReport().info().state(), "ready");
  Lease(0, 5);
  EXPECT_EQ(calls_.started.size(), 1u);
  EXPECT_EQ(LastReport().limit(), 1);
  Finish(Answer(calls_.started[0].id));
  EXPECT_EQ(calls_.started.size(), 5u);
  EXPECT_EQ(LastReport().limit(), 8);
  EXPECT_EQ(LastReport().info().detail(), "");
}

TEST_F(BrokenBackendTest, AFailedProbeWaitsLonger) {
  Advance(absl::Seconds(6.1));
  Lease(0, 3);
  link_.sent.clear();
  Finish(Broken(calls_.started[0].id, Transport::kConnectFailed, "connection refused"));
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(0, 1, 2));
  Advance(absl::Seconds(7.9));
  EXPECT_EQ(LastReport().limit(), 0);
  Advance(absl::Seconds(4.2));
  EXPECT_EQ(LastReport().limit(), 1);
}

// It is no fault of the request's; but the next probe is made with another one, since it may be.
TEST_F(BrokenBackendTest, AProbeThatIsCutOffCountsAsFailed) {
  Advance(absl::Seconds(6.1));
  Lease(0, 3);
  Finish(Broken(calls_.started[0].id, Transport::kReset));
  EXPECT_EQ(calls_.started.size(), 1u);
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_FALSE(Results()[0].charged());
  EXPECT_GE(absl::Milliseconds(Results()[0].retry_after_ms()), 1.2 * Breaker::kOpenMax);
  EXPECT_EQ(LastReport().limit(), 0);
}

// What was in flight when the backend began to fail costs no request an attempt, and no call starts
// until it is asked again.
TEST_F(RunnerBackendTest, ABackendThatFailsEverythingIsLeftAlone) {
  Connect(20);
  Lease(0, 100);
  for (size_t i = 0; i < calls_.started.size(); ++i) {
    Finish(HttpError(calls_.started[i].id, 500, "boom"));
  }
  EXPECT_EQ(calls_.started.size(), 29u) << "those in flight, and one for each of nine failures";
  EXPECT_EQ(LastReport().limit(), 0);
  EXPECT_EQ(LastReport().info().state(), "broken");
  EXPECT_THAT(LastReport().waiting_for(), testing::HasSubstr("boom"));
  Advance(absl::Seconds(1));
  int charged = 0;
  for (const v1::AttemptResult& result : Results()) charged += result.charged() ? 1 : 0;
  EXPECT_EQ(Results().size(), 29u);
  EXPECT_EQ(charged, 0);
  EXPECT_EQ(ReturnedIndexes().size(), 71u);
}

// It may be this request that makes the backend fail everything.
TEST_F(RunnerBackendTest, ARequestIsPardonedTwiceAndThenCharged) {
  Connect(10);
  for (int round = 0; round < 3; ++round) {
    calls_.started.clear();
    link_.sent.clear();
    // An answer, so that the breaker is closed.
    Lease(100, 1);
    Finish(Answer(calls_.started[0].id));
    Lease(0, 10);
    ASSERT_EQ(calls_.started.size(), 11u);
    for (size_t i = 1; i <= 10; ++i) Finish(HttpError(calls_.started[i].id, 500, "boom"));
    EXPECT_EQ(LastReport().info().state(), "broken");
    Advance(absl::Seconds(20));
    ASSERT_EQ(Results().size(), 11u);
    int charged = 0;
    for (const v1::AttemptResult& result : Results()) charged += result.charged() ? 1 : 0;
    EXPECT_EQ(charged, round < 2 ? 0 : 9) << "the tenth has shown it to be the backend's fault";
    Acknowledge({static_cast<uint64_t>(round) * 11 + 1});
  }
}

// The last requests of a job that fail every time do not keep it for ever.
TEST_F(RunnerBackendTest, ARequestThatFailsAsTheProbeAgainAndAgainIsCharged) {
  constexpr int kForgiven = 20;
  Connect(10);
  Lease(0, 10);
  for (size_t i = 0; i < 10; ++i) Finish(HttpError(calls_.started[i].id, 500, "boom"));
  Advance(absl::Seconds(2));
  int probes = 0;
  bool charged = false;
  while (!charged && probes <= kForgiven) {
    calls_.started.clear();
    link_.sent.clear();
    Advance(absl::Minutes(2));
    Lease(0, 1);
    ASSERT_EQ(calls_.started.size(), 1u);
    Finish(HttpError(calls_.started[0].id, 500, "boom"));
    ++probes;
    ASSERT_FALSE(Results().empty());
    charged = Results().back().charged();
  }
  EXPECT_TRUE(charged);
  EXPECT_EQ(probes, kForgiven + 1);
}

TEST_F(RunnerBackendTest, ALateFailureSaysNothingWhileTheBackendIsAsked) {
  Connect(11);
  Lease(0, 11);
  for (size_t i = 0; i < 10; ++i) Finish(HttpError(calls_.started[i].id, 500, "boom"));
  Advance(absl::Minutes(2));
  Lease(20, 1);
  ASSERT_EQ(calls_.started.size(), 12u) << "the probe";
  Finish(HttpError(calls_.started[10].id, 500, "boom"));
  EXPECT_FALSE(Results().back().charged());
  Finish(Answer(calls_.started[11].id));
  EXPECT_EQ(LastReport().info().state(), "ready");
}

TEST_F(RunnerBackendTest, FailuresThatAreNotJudgedWhenTheWorkerStopsAreNotCharged) {
  Connect(2);
  Lease(0, 2);
  Finish(HttpError(calls_.started[0].id, 500));
  runner_->Drain("stopping", Now());
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_FALSE(Results()[0].charged());
}

// Nothing is charged, so it may go on for ever: then it must be plain what the job waits for.
TEST_F(RunnerBackendTest, ABackendThatRefusesEveryCallIsSaidToDoSo) {
  Connect(2);
  Lease(0, 6);
  size_t ended = 0;
  for (int second = 0; second < 120; ++second) {
    for (; ended < calls_.started.size(); ++ended) {
      Finish(HttpError(calls_.started[ended].id, 503, "no worker is free"));
    }
    Advance(absl::Seconds(1));
  }
  Advance(absl::Seconds(5));
  EXPECT_THAT(LastReport().waiting_for(),
              testing::HasSubstr("room at the backend, which has answered no call for 2m"));
  EXPECT_THAT(LastReport().waiting_for(), testing::HasSubstr("HTTP 503: no worker is free"));
  EXPECT_THAT(Results(), IsEmpty());
  EXPECT_LT(ended, 6 * 20u) << "and it is not hammered";
  Advance(absl::Seconds(61));
  ASSERT_LT(ended, calls_.started.size());
  Finish(Answer(calls_.started[ended].id));
  Advance(absl::Seconds(1));
  EXPECT_THAT(LastReport().waiting_for(), testing::Not(testing::HasSubstr("answered no call")));
}

TEST_F(BrokenBackendTest, ARevokedProbeMakesRoomForAnother) {
  Advance(absl::Seconds(6.1));
  Lease(0, 2);
  ASSERT_EQ(calls_.started.size(), 1u);
  Revoke({0});
  EXPECT_THAT(calls_.aborted, ElementsAre(calls_.started[0].id));
  EXPECT_EQ(calls_.started.size(), 1u);
  Finish(Broken(calls_.started[0].id, Transport::kAborted));
  EXPECT_EQ(calls_.started.size(), 2u);
}

TEST_F(BrokenBackendTest, IsProbedAtOnceWhenItIsSeenToBeReady) {
  v1::BackendInfo info;
  info.set_name("b");
  info.set_state("broken");
  runner_->OnBackendInfo(0, info, Now());
  EXPECT_EQ(LastReport().limit(), 0);
  info.set_state("ready");
  runner_->OnBackendInfo(0, info, Now());
  EXPECT_EQ(LastReport().limit(), 1);
}

TEST_F(RunnerBackendTest, AModelThatIsLoadingCountsAsUnavailable) {
  Connect(5);
  Lease(0, 5);
  for (int i = 0; i < 5; ++i) {
    Finish(HttpError(calls_.started[i].id, 503, "Loading model", "503", "unavailable_error"));
  }
  EXPECT_EQ(LastReport().info().state(), "broken");
  EXPECT_TRUE(absl::StrContains(LastReport().info().detail(), "Loading model"));
  EXPECT_EQ(ReturnedIndexes().size(), 5u);
}

TEST_F(RunnerBackendTest, AnyAnswerInBetweenStartsTheCountAgain) {
  Connect(16);
  Lease(0, 9);
  for (int i = 0; i < 4; ++i) Finish(Broken(calls_.started[i].id, Transport::kConnectFailed));
  Finish(HttpError(calls_.started[4].id, 500));
  for (int i = 5; i < 9; ++i) Finish(Broken(calls_.started[i].id, Transport::kConnectFailed));
  EXPECT_EQ(runner_->held(), 9) << "the failure is not judged yet";
  EXPECT_THAT(ReturnedIndexes(), IsEmpty());
}

TEST_F(RunnerBackendTest, ARefusedKeyStopsTheBackendAndKeepsTheRequests) {
  Connect(2);
  Lease(0, 4);
  Finish(HttpError(calls_.started[0].id, 401, "Wrong API Key"));
  EXPECT_EQ(LastReport().info().state(), "refused");
  EXPECT_EQ(LastReport().limit(), 0);
  EXPECT_TRUE(absl::StrContains(LastReport().info().detail(), "Wrong API Key"));
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(0, 2, 3));
  EXPECT_THAT(calls_.aborted, IsEmpty()) << "the call in flight is left alone";
  EXPECT_THAT(Results(), IsEmpty());
  Finish(Answer(calls_.started[1].id));
  EXPECT_EQ(Results().size(), 1u);
  // The key may have been mended by then.
  Advance(absl::Seconds(59));
  EXPECT_EQ(LastReport().limit(), 0);
  Advance(absl::Seconds(2));
  EXPECT_EQ(LastReport().limit(), 1);
  Lease(0, 2);
  EXPECT_EQ(calls_.started.size(), 3u);
  Finish(Answer(calls_.started[2].id));
  EXPECT_EQ(LastReport().info().state(), "ready");
  EXPECT_EQ(LastReport().limit(), 2);
}

TEST_F(RunnerBackendTest, OneBackendsTroubleIsNotTheOthers) {
  RunnerOptions options = Options(2);
  options.backends.push_back(Backend("c", NewFixedLimiter(2)));
  Make(std::move(options));
  LinkUp();
  Welcome();
  Lease(0, 3, "b");
  Lease(10, 3, "c");
  Finish(HttpError(calls_.started[0].id, 401));
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(0, 2));
  Finish(Answer(calls_.started[2].id));
  EXPECT_EQ(calls_.started.back().body, "body 12");
  EXPECT_EQ(calls_.started.back().backend, 1);
}

TEST_F(RunnerBackendTest, BackendThatIsNotReadyTakesNothing) {
  RunnerOptions options = Options(2);
  options.backends[0].info.set_state("starting");
  Make(std::move(options));
  LinkUp();
  Welcome();
  EXPECT_EQ(LastReport().limit(), 0);
  Lease(0, 1);
  EXPECT_THAT(ReturnedIndexes(), ElementsAre(0));
  v1::BackendInfo info;
  info.set_name("b");
  info.set_state("ready");
  info.add_models("m");
  runner_->OnBackendInfo(0, info, Now());
  EXPECT_EQ(LastReport().limit(), 2);
  EXPECT_THAT(LastReport().info().models(), ElementsAre("m"));
  Lease(0, 1);
  EXPECT_EQ(calls_.started.size(), 1u);
}

// A server under full load may be too busy for the question how it is.
TEST_F(RunnerBackendTest, ABackendThatAnswersCallsIsNotBrokenWhoeverSaysSo) {
  Connect(2);
  Lease(0, 5);
  Finish(Answer(calls_.started[0].id));
  v1::BackendInfo info;
  info.set_name("b");
  info.set_state("broken");
  info.set_detail("no answer in 3 s");
  Advance(absl::Seconds(20));
  runner_->OnBackendInfo(0, info, Now());
  EXPECT_EQ(LastReport().info().state(), "ready");
  EXPECT_EQ(LastReport().limit(), 2);
  EXPECT_THAT(ReturnedIndexes(), IsEmpty());
  Advance(absl::Seconds(11));
  runner_->OnBackendInfo(0, info, Now());
  EXPECT_EQ(LastReport().info().state(), "broken");
  EXPECT_EQ(LastReport().info().detail(), "no answer in 3 s");
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(3, 4));
}

}  // namespace
}  // namespace nightshift
