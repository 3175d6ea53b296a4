// What the runner does with leases and with the ends of calls; with backends in trouble:
// runner_backend_test.cc.
#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "tests/worker/core/runner_fixture.h"
#include "worker/core/runner_impl.h"

namespace nightshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class RunnerCallsTest : public RunnerTest {};

TEST_F(RunnerCallsTest, FillsTheSlotsAndAFreedOneAtOnce) {
  Connect(2);
  Lease(0, 4);
  EXPECT_THAT(Started(), ElementsAre("body 0", "body 1"));
  EXPECT_EQ(runner_->in_flight(), 2);
  EXPECT_EQ(runner_->held(), 4);
  Finish(Answer(calls_.started[1].id));
  EXPECT_THAT(Started(), ElementsAre("body 0", "body 1", "body 2"));
  EXPECT_EQ(runner_->held(), 3);
  EXPECT_EQ(runner_->unacknowledged(), 1);
}

TEST_F(RunnerCallsTest, PassesTheRequestOnAsLeased) {
  Connect();
  v1::CoordinatorMessage message;
  message.mutable_lease()->set_backend("b");
  v1::LeasedRequest& leased = *message.mutable_lease()->add_requests();
  SetKey(leased.mutable_key(), 1);
  leased.set_endpoint(v1::ENDPOINT_EMBEDDINGS);
  leased.set_body("{\"n\":1e3}");
  leased.set_stream(true);
  leased.set_request_timeout_ms(1500);
  const v1::CoordinatorMessage copied = message;
  runner_->OnMessage(copied, Now());
  ASSERT_EQ(calls_.started.size(), 1u);
  const CallRequest& call = calls_.started[0];
  EXPECT_EQ(call.backend, 0);
  EXPECT_EQ(call.endpoint, Endpoint::kEmbeddings);
  EXPECT_EQ(call.body, "{\"n\":1e3}");
  EXPECT_TRUE(call.stream);
  EXPECT_EQ(call.timeout, absl::Milliseconds(1500));
}

TEST_F(RunnerCallsTest, AnAnswerBecomesAResultAtOnce) {
  Connect();
  Lease(5, 1);
  clock_.Advance(absl::Milliseconds(250));
  Finish(Answer(calls_.started[0].id));
  const std::vector<v1::AttemptResult> results = Results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].key().job(), kJob);
  EXPECT_EQ(results[0].key().index(), 5u);
  EXPECT_EQ(results[0].sequence(), 1u);
  EXPECT_EQ(results[0].backend(), "b");
  EXPECT_EQ(results[0].kind(), v1::AttemptResult::ANSWERED);
  EXPECT_EQ(results[0].request_id(), "req_s1_1");
}

TEST_F(RunnerCallsTest, IgnoresARequestThatItHoldsOrHasAnswered) {
  Connect(1);
  Lease(0, 2);
  Lease(0, 2);
  EXPECT_EQ(runner_->held(), 2);
  Finish(Answer(calls_.started[0].id));
  Lease(0, 1);
  EXPECT_EQ(runner_->held(), 1) << "its answer waits to be acknowledged";
  Acknowledge({1});
  Lease(0, 1);
  EXPECT_EQ(runner_->held(), 2);
}

TEST_F(RunnerCallsTest, TakesARequestAgainThatItHandedOverForARetry) {
  Connect();
  Lease(0, 1);
  Finish(Broken(calls_.started[0].id, Transport::kReset));
  EXPECT_EQ(runner_->held(), 0);
  Lease(0, 1);
  EXPECT_EQ(calls_.started.size(), 2u);
  // The coordinator has the first attempt's result, or it would not have leased the request again.
  EXPECT_EQ(runner_->unacknowledged(), 0);
}

TEST_F(RunnerCallsTest, HandsBackWhatIsForAnUnknownBackend) {
  Connect();
  Lease(3, 2, "elsewhere");
  EXPECT_THAT(ReturnedIndexes(), ElementsAre(3, 4));
  EXPECT_EQ(runner_->held(), 0);
  EXPECT_THAT(calls_.started, IsEmpty());
}

TEST_F(RunnerCallsTest, RejectsAnEndpointThatItDoesNotKnow) {
  Connect();
  v1::CoordinatorMessage message;
  message.mutable_lease()->set_backend("b");
  v1::LeasedRequest& leased = *message.mutable_lease()->add_requests();
  SetKey(leased.mutable_key(), 1);
  leased.set_endpoint(static_cast<v1::Endpoint>(200));
  runner_->OnMessage(std::move(message), Now());
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_EQ(Results()[0].kind(), v1::AttemptResult::REJECTED);
  EXPECT_EQ(Results()[0].error_code(), "unknown_endpoint");
  EXPECT_EQ(runner_->held(), 0);
}

TEST_F(RunnerCallsTest, RejectionIsFinalAndStopsNothing) {
  Connect(1);
  Lease(0, 2);
  Finish(HttpError(calls_.started[0].id, 400, "maximum context length is 5"));
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_EQ(Results()[0].kind(), v1::AttemptResult::REJECTED);
  EXPECT_EQ(Results()[0].error_class(), v1::ERROR_CLASS_CONTEXT_TOO_LONG);
  EXPECT_EQ(calls_.started.size(), 2u);
}

TEST_F(RunnerCallsTest, ATransientFailureIsTheCoordinatorsToRetry) {
  Connect();
  Lease(0, 1);
  Finish(HttpError(calls_.started[0].id, 500, "boom"));
  EXPECT_EQ(runner_->in_flight(), 0) << "it holds no slot";
  EXPECT_THAT(Results(), IsEmpty()) << "it may be the backend's fault";
  Advance(kDoubtMax);
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_EQ(Results()[0].kind(), v1::AttemptResult::RETRY);
  EXPECT_TRUE(Results()[0].charged());
  EXPECT_EQ(Results()[0].error_class(), v1::ERROR_CLASS_SERVER_ERROR);
  EXPECT_EQ(runner_->held(), 0);
  EXPECT_EQ(calls_.started.size(), 1u);
}

// A call that began after the failure and was answered shows that the backend works; one that began
// before may have been answered by a backend that has failed everything since.
TEST_F(RunnerCallsTest, AFailureIsChargedWhenALaterCallIsAnswered) {
  Connect(2);
  Lease(0, 3);
  Advance(absl::Milliseconds(10));
  Finish(HttpError(calls_.started[0].id, 500));
  ASSERT_EQ(calls_.started.size(), 3u);
  Advance(absl::Milliseconds(10));
  Finish(Answer(calls_.started[1].id));
  Advance(absl::Milliseconds(10));
  ASSERT_EQ(Results().size(), 1u);
  Finish(Answer(calls_.started[2].id));
  Advance(absl::Milliseconds(10));
  ASSERT_EQ(Results().size(), 3u);
  EXPECT_TRUE(Results()[1].charged());
  EXPECT_EQ(Results()[1].key().index(), 0u);
  EXPECT_EQ(runner_->held(), 0);
}

TEST_F(RunnerCallsTest, ARevokedRequestWhoseFailureIsNotJudgedIsForgotten) {
  Connect(2);
  Lease(0, 2);
  Finish(HttpError(calls_.started[0].id, 500));
  Finish(HttpError(calls_.started[1].id, 500));
  Revoke({0});
  EXPECT_EQ(runner_->held(), 1);
  Advance(kDoubtMax);
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_EQ(Results()[0].key().index(), 1u);
}

TEST_F(RunnerCallsTest, AStaleConnectionIsForgivenOnce) {
  Connect();
  Lease(0, 1);
  Finish(Broken(calls_.started[0].id, Transport::kStaleConnection));
  ASSERT_EQ(calls_.started.size(), 2u);
  EXPECT_EQ(calls_.started[1].body, "body 0");
  EXPECT_THAT(Results(), IsEmpty());
  Finish(Broken(calls_.started[1].id, Transport::kStaleConnection));
  EXPECT_EQ(calls_.started.size(), 2u);
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_TRUE(Results()[0].charged());
  EXPECT_EQ(Results()[0].error_class(), v1::ERROR_CLASS_CONNECTION_ERROR);
}

// Waiting for room is not failing, however often.
TEST_F(RunnerCallsTest, OverloadWaitsHereWithoutASlotAndWithoutAnAttempt) {
  Connect(1);
  Lease(0, 2);
  Finish(HttpError(calls_.started[0].id, 429));
  // The slot is the next request's.
  EXPECT_THAT(Started(), ElementsAre("body 0", "body 1"));
  EXPECT_THAT(Results(), IsEmpty());
  EXPECT_EQ(runner_->held(), 2);
  Finish(Answer(calls_.started[1].id));
  absl::Duration longest;
  for (size_t i = 0; i < 50; ++i) {
    const MonotonicTime refused = Now();
    while (calls_.started.size() < 3 + i) Advance(absl::Milliseconds(100));
    longest = std::max(longest, Now() - refused);
    Finish(HttpError(calls_.started.back().id, 429));
  }
  EXPECT_GT(longest, absl::Seconds(40));
  EXPECT_LE(longest, absl::Seconds(61));
  EXPECT_EQ(Results().size(), 1u);
  Advance(absl::Seconds(61));
  Finish(Answer(calls_.started.back().id));
  EXPECT_EQ(Results().back().key().index(), 0u);
  EXPECT_EQ(runner_->held(), 0);
}

TEST_F(RunnerCallsTest, RetryAfterIsNeverUndercut) {
  Connect(1);
  Lease(0, 1);
  CallOutcome outcome = HttpError(calls_.started[0].id, 503);
  outcome.retry_after = absl::Seconds(20);
  Finish(outcome);
  Advance(absl::Seconds(19.9));
  EXPECT_EQ(calls_.started.size(), 1u);
  Advance(absl::Seconds(1.2));
  EXPECT_EQ(calls_.started.size(), 2u);
}

TEST_F(RunnerCallsTest, WhatHasWaitedGoesBeforeWhatHasNot) {
  Connect(1);
  Lease(0, 3);
  Finish(HttpError(calls_.started[0].id, 429));
  Advance(absl::Seconds(2));
  Finish(Answer(calls_.started[1].id));
  EXPECT_THAT(Started(), ElementsAre("body 0", "body 1", "body 0"));
}

TEST_F(RunnerCallsTest, OverloadShrinksTheLimitOnce) {
  RunnerOptions options = Options(1);
  options.backends[0].limiter = NewFillLimiter();
  Make(std::move(options));
  LinkUp();
  Welcome();
  Lease(0, 100);
  ASSERT_EQ(calls_.started.size(), 32u);
  for (int i = 0; i < 5; ++i) Finish(HttpError(calls_.started[i].id, 429));
  EXPECT_EQ(runner_->in_flight(), 27);
  Advance(absl::Seconds(1));
  EXPECT_EQ(LastReport().limit(), 27);
}

// Only what speaks of room counts, not what is wrong with a request or the server.
TEST_F(RunnerCallsTest, OnlyOverloadAndTimeoutsShrinkTheLimit) {
  struct Row {
    CallOutcome outcome;
    int limit;
  };
  CallOutcome quota = HttpError(0, 429, "", "token_quota_exceeded");
  quota.retry_after = absl::Seconds(1);
  for (const Row& row : {Row{Broken(0, Transport::kTimeout), 27}, Row{HttpError(0, 503), 27},
                         Row{HttpError(0, 408), 27}, Row{HttpError(0, 400), 32},
                         Row{HttpError(0, 500), 32}, Row{Broken(0, Transport::kReset), 32},
                         Row{Broken(0, Transport::kConnectFailed), 27}, Row{quota, 32}}) {
    RunnerOptions options = Options(1);
    options.backends[0].limiter = NewFillLimiter();
    Make(std::move(options));
    calls_.started.clear();
    LinkUp();
    Welcome();
    Lease(0, 40);
    CallOutcome outcome = row.outcome;
    outcome.id = calls_.started[0].id;
    Finish(outcome);
    Advance(absl::Seconds(0.9));
    runner_->OnBackendInfo(0, LastReport().info(), Now());
    EXPECT_EQ(LastReport().limit(), row.limit) << "status " << outcome.http_status << ", transport "
                                               << static_cast<int>(outcome.transport);
  }
}

TEST_F(RunnerCallsTest, AServerThatKeepsTimingOutOnARequestIsCharged) {
  Connect(1);
  Lease(0, 1);
  for (int i = 0; i < 3; ++i) {
    Finish(HttpError(calls_.started.back().id, 408));
    EXPECT_THAT(Results(), IsEmpty());
    Advance(absl::Seconds(60));
  }
  Finish(HttpError(calls_.started.back().id, 408));
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_EQ(Results()[0].kind(), v1::AttemptResult::RETRY);
  EXPECT_TRUE(Results()[0].charged());
  EXPECT_EQ(Results()[0].error_class(), v1::ERROR_CLASS_TIMEOUT);
}

// A quota is the account's: fewer calls at a time would not help, waiting does.
TEST_F(RunnerCallsTest, AUsedUpQuotaHoldsTheWholeBackend) {
  Connect(3);
  Lease(0, 10);
  CallOutcome outcome = HttpError(calls_.started[0].id, 429, "", "token_quota_exceeded");
  outcome.retry_after = absl::Seconds(4);
  Finish(outcome);
  Finish(Answer(calls_.started[1].id));
  Advance(absl::Seconds(3.9));
  EXPECT_EQ(calls_.started.size(), 3u);
  EXPECT_THAT(ReturnedIndexes(), IsEmpty()) << "a short wait is no reason to hand anything back";
  EXPECT_THAT(LastReport().waiting_for(),
              testing::StartsWith("its rate limits, after a refusal, "));
  EXPECT_EQ(LastReport().info().state(), "ready");
  Advance(Pacer::kFreezeJitter + absl::Seconds(0.2));
  ASSERT_GT(calls_.started.size(), 3u);
  EXPECT_EQ(calls_.started[3].body, "body 0") << "what was refused is the first to go";
  Advance(absl::Seconds(20));
  EXPECT_EQ(runner_->in_flight(), 3);
}

// The headers of the answers are enough to be never refused: what is left is what may start, and
// what waits says for what.
TEST_F(RunnerCallsTest, LimitsInHeadersAreKeptToWithoutARefusal) {
  Connect(8);
  Lease(0, 20);
  const auto answer = [&](size_t call, double left) {
    CallOutcome outcome = Answer(calls_.started[call].id);
    outcome.rate_limits = {
        {RateUnit::kRequests, absl::Minutes(1), 60, left, absl::Seconds(60 - left)}};
    Finish(outcome);
  };
  // With the other seven in flight there are three more in the minute, and two are left in it.
  answer(0, 10);
  EXPECT_EQ(calls_.started.size(), 9u);
  for (size_t i = 1; i < 8; ++i) answer(i, 10.0 - static_cast<double>(i));
  EXPECT_EQ(calls_.started.size(), 9u) << "those in flight when it was told count as well";
  answer(8, 2);
  Advance(absl::Seconds(5.1));
  EXPECT_EQ(calls_.started.size(), 14u) << "one per second";
  EXPECT_THAT(ReturnedIndexes(), IsEmpty());
}

// A request that is larger than what a whole minute grants would wait for ever: it is tried, and
// counts as a failure when it is refused.
TEST_F(RunnerCallsTest, AMinuteTooSmallForARequestCostsAnAttempt) {
  Connect(1);
  Lease(0, 2);
  const std::vector<RateLimit> limits = {
      {RateUnit::kTokens, absl::Minutes(1), 100, 100, absl::ZeroDuration()}};
  CallOutcome first = Answer(calls_.started[0].id);
  first.rate_limits = limits;
  Finish(first);
  ASSERT_EQ(calls_.started.size(), 2u);
  CallOutcome refused = HttpError(calls_.started[1].id, 429, "", "token_quota_exceeded");
  refused.rate_limits = limits;
  Finish(refused);
  Advance(absl::Seconds(1));
  ASSERT_EQ(Results().size(), 2u);
  EXPECT_EQ(Results()[1].kind(), v1::AttemptResult::RETRY);
  EXPECT_TRUE(Results()[1].charged());
  EXPECT_THAT(Results()[1].error_message(), testing::HasSubstr("whole window"));
}

TEST_F(RunnerCallsTest, AShortWaitThatGrowsLongSendsThemToo) {
  Connect(2);
  Lease(0, 4);
  CallOutcome outcome = HttpError(calls_.started[0].id, 429, "", "token_quota_exceeded");
  outcome.retry_after = absl::Seconds(2);
  Finish(outcome);
  EXPECT_THAT(ReturnedIndexes(), IsEmpty());
  outcome.id = calls_.started[1].id;
  outcome.retry_after = absl::Seconds(50);
  Finish(outcome);
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(runner_->held(), 0);
}

TEST_F(RunnerCallsTest, ALongWaitSendsRequestsWhereTheyCanRunSooner) {
  Connect(1);
  Lease(0, 3);
  CallOutcome outcome = HttpError(calls_.started[0].id, 503);
  outcome.retry_after = absl::Minutes(10);
  Finish(outcome);
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(LastReport().limit(), 0);
  Advance(absl::Minutes(9.9));
  EXPECT_EQ(LastReport().limit(), 0);
  Advance(absl::Minutes(0.2));
  EXPECT_EQ(LastReport().limit(), 1);
}

TEST_F(RunnerCallsTest, ACallGivenUpByTheLoopGoesBack) {
  Connect();
  Lease(0, 1);
  Finish(Broken(calls_.started[0].id, Transport::kAborted));
  EXPECT_THAT(ReturnedIndexes(), ElementsAre(0));
  EXPECT_EQ(runner_->held(), 0);
}

TEST_F(RunnerCallsTest, OutcomesOfUnknownCallsAreIgnored) {
  Connect();
  Finish(Answer(999));
  EXPECT_THAT(Results(), IsEmpty());
}

// A call for what it has lost is given up.
TEST_F(RunnerCallsTest, RevokedRequestsVanish) {
  Connect(2);
  Lease(0, 5);
  Finish(HttpError(calls_.started[1].id, 429));  // 1 waits; 2 is in flight
  link_.slow = true;
  link_.backlog = 5;
  Finish(Answer(calls_.started[0].id));  // 0 is answered, and waits in the outbox
  Revoke({0, 1, 2, 4, 77});
  EXPECT_THAT(calls_.aborted, ElementsAre(calls_.started[2].id));
  EXPECT_EQ(runner_->unacknowledged(), 0);
  EXPECT_EQ(runner_->held(), 1);
  // Its slot is free only when the call has really ended, and whatever it says, nobody hears of it.
  EXPECT_EQ(runner_->in_flight(), 2);
  Finish(Answer(calls_.started[2].id));
  EXPECT_EQ(runner_->in_flight(), 1);
  EXPECT_EQ(runner_->unacknowledged(), 0);
  link_.backlog = 0;
  runner_->OnWritable(Now());
  EXPECT_THAT(Results(), IsEmpty());
  EXPECT_THAT(ReturnedIndexes(), IsEmpty());
  Advance(absl::Minutes(2));
  EXPECT_EQ(calls_.started.size(), 4u) << "the one that waited does not come back";
}

TEST_F(RunnerCallsTest, ARevokedRequestCanBeLeasedAgainWhileItsOldCallEnds) {
  Connect(2);
  Lease(0, 1);
  Revoke({0});
  Lease(0, 1);
  ASSERT_EQ(calls_.started.size(), 2u);
  Finish(Broken(calls_.started[0].id, Transport::kAborted));
  EXPECT_EQ(runner_->held(), 1);
  Finish(Answer(calls_.started[1].id));
  EXPECT_EQ(Results().size(), 1u);
}

TEST_F(RunnerCallsTest, AFullOutboxStopsNewCalls) {
  RunnerOptions options = Options(2);
  options.outbox_requests_max = 3;
  Make(std::move(options));
  LinkUp();
  Welcome();
  Lease(0, 10);
  for (int i = 0; i < 3; ++i) Finish(Answer(calls_.started[i].id));
  EXPECT_EQ(calls_.started.size(), 4u);
  Advance(absl::Seconds(1));
  EXPECT_EQ(Reports().back().outbox_requests(), 3);
  EXPECT_TRUE(absl::StrContains(LastReport().waiting_for(), "record 3 results"));
  // What is in flight still ends and is kept.
  Finish(Answer(calls_.started[3].id));
  EXPECT_EQ(runner_->unacknowledged(), 4);
  Acknowledge({1});
  EXPECT_EQ(calls_.started.size(), 4u);
  Acknowledge({2});
  EXPECT_EQ(calls_.started.size(), 6u);
}

TEST_F(RunnerCallsTest, TheOutboxIsBoundedByBytesToo) {
  RunnerOptions options = Options(1);
  options.outbox_bytes_max = 10'000;
  Make(std::move(options));
  LinkUp();
  Welcome();
  Lease(0, 3);
  CallOutcome big = Answer(calls_.started[0].id);
  big.body = std::string(20'000, ' ');
  Finish(big);
  EXPECT_EQ(calls_.started.size(), 1u);
  Acknowledge({1});
  EXPECT_EQ(calls_.started.size(), 2u);
}

}  // namespace
}  // namespace nightshift
