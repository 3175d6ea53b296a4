#include "worker/core/second_try.h"

#include <gmock/gmock.h>

#include <functional>
#include <vector>

#include "tests/worker/core/runner_fixture.h"

namespace nightshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto kKeep = v1::ANSWER_POLICY_KEEP;
constexpr auto kRetry = v1::ANSWER_POLICY_RETRY;
constexpr auto kFail = v1::ANSWER_POLICY_FAIL;

CallOutcome Said(const std::string& finish_reason, bool empty = false) {
  CallOutcome outcome;
  outcome.finish_reason = finish_reason;
  outcome.empty_answer = empty;
  return outcome;
}

std::string Raised(const std::string& body, int64_t had = 0,
                   Endpoint endpoint = Endpoint::kChatCompletions) {
  v1::Usage usage;
  usage.set_completion_tokens(had);
  return RaiseCeiling(endpoint, body, usage).value_or("not raised");
}

TEST(JudgeAnswerTest, GoesByThePolicies) {
  EXPECT_EQ(JudgeAnswer({kKeep, kKeep}, Said("length", true)), AnswerVerdict::kKeep);
  EXPECT_EQ(JudgeAnswer({kRetry, kRetry}, Said("stop")), AnswerVerdict::kKeep);
  for (const char* word : {"length", "max_tokens", "max_output_tokens", "model_length"}) {
    EXPECT_EQ(JudgeAnswer({kRetry, kKeep}, Said(word)), AnswerVerdict::kAskForMore) << word;
  }
  EXPECT_EQ(JudgeAnswer({kFail, kKeep}, Said("length")), AnswerVerdict::kTooShort);
  EXPECT_EQ(JudgeAnswer({kKeep, kRetry}, Said("stop", true)), AnswerVerdict::kAskTheSame);
  EXPECT_EQ(JudgeAnswer({kKeep, kFail}, Said("stop", true)), AnswerVerdict::kNothingSaid);
}

TEST(JudgeAnswerTest, AsksAgainABoundedNumberOfTimes) {
  SecondTries tries{kRetry, kRetry};
  tries.truncated = kTruncatedRetriesMax;
  EXPECT_EQ(JudgeAnswer(tries, Said("length")), AnswerVerdict::kKeep);
  // Cut off and empty at once: more room was tried, now the same again.
  EXPECT_EQ(JudgeAnswer(tries, Said("length", true)), AnswerVerdict::kAskTheSame);
  tries.empty = kEmptyRetriesMax;
  EXPECT_EQ(JudgeAnswer(tries, Said("length", true)), AnswerVerdict::kKeep);
}

TEST(RaiseCeilingTest, ChangesTheOneMemberAndNothingElse) {
  EXPECT_EQ(Raised(R"({ "seed":1e3,"max_tokens": 16, "é":"\u00e9" })"),
            R"({ "seed":1e3,"max_tokens": 64, "é":"\u00e9" })");
  EXPECT_EQ(Raised(R"({"max_completion_tokens":10,"max_tokens":20})"),
            R"({"max_completion_tokens":40,"max_tokens":80})");
}

TEST(RaiseCeilingTest, IsBounded) {
  EXPECT_EQ(Raised(R"({"max_tokens":60000})"), R"({"max_tokens":65536})");
  EXPECT_EQ(Raised(R"({"max_tokens":65536})"), "not raised");
  EXPECT_EQ(Raised(R"({"max_tokens":1000000})"), "not raised");
}

TEST(RaiseCeilingTest, WhereThereIsNoneItIsReckonedFromTheAnswer) {
  EXPECT_EQ(Raised(R"({"model":"m"})", 100), R"({"max_tokens":400,"model":"m"})");
  EXPECT_EQ(Raised(R"({"model":"m"})", 0), "not raised");
  EXPECT_EQ(Raised(R"({"input":"x"})", 5, Endpoint::kResponses),
            R"({"max_output_tokens":20,"input":"x"})");
  EXPECT_EQ(Raised(R"({"input":"x","max_tokens":4})", 5, Endpoint::kEmbeddings), "not raised");
  EXPECT_EQ(Raised("no JSON", 5), "not raised");
}

class RunnerSecondTryTest : public RunnerTest {
 protected:
  void LeaseWith(v1::AnswerPolicy on_truncated, v1::AnswerPolicy on_empty) {
    v1::CoordinatorMessage message;
    message.mutable_lease()->set_backend("b");
    v1::LeasedRequest& leased = *message.mutable_lease()->add_requests();
    SetKey(leased.mutable_key(), 1);
    leased.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
    leased.set_body(R"({"max_tokens":5})");
    leased.set_on_truncated(on_truncated);
    leased.set_on_empty(on_empty);
    runner_->OnMessage(std::move(message), Now());
  }
  // The end of the newest call.
  CallOutcome Short() {
    CallOutcome outcome = Answer(calls_.started.back().id);
    outcome.finish_reason = "length";
    return outcome;
  }
  CallOutcome Empty() {
    CallOutcome outcome = Answer(calls_.started.back().id);
    outcome.empty_answer = true;
    return outcome;
  }
  CallOutcome Good() { return Answer(calls_.started.back().id); }
  v1::AttemptResult OnlyResult() {
    const std::vector<v1::AttemptResult> results = Results();
    EXPECT_EQ(results.size(), 1u);
    return results.empty() ? v1::AttemptResult() : results[0];
  }
};

TEST_F(RunnerSecondTryTest, ACutOffAnswerIsAskedForOnceMoreWithMoreRoom) {
  Connect();
  LeaseWith(kRetry, kKeep);
  Finish(Short());
  EXPECT_THAT(Started(), ElementsAre(R"({"max_tokens":5})", R"({"max_tokens":20})"));
  EXPECT_THAT(Results(), IsEmpty());
  Finish(Good());
  const v1::AttemptResult result = OnlyResult();
  EXPECT_EQ(result.kind(), v1::AttemptResult::ANSWERED);
  EXPECT_EQ(result.truncated_retries(), 1);
  EXPECT_EQ(result.empty_retries(), 0);
  EXPECT_EQ(result.flags_size(), 0);
  // Both were paid for.
  EXPECT_EQ(result.usage().completion_tokens(), 10);
  EXPECT_EQ(result.usage().prompt_tokens(), 6);
}

TEST_F(RunnerSecondTryTest, CutOffAgainItIsKept) {
  Connect();
  LeaseWith(kRetry, kKeep);
  Finish(Short());
  Finish(Short());
  EXPECT_EQ(calls_.started.size(), 2u);
  EXPECT_EQ(OnlyResult().kind(), v1::AttemptResult::ANSWERED);
  EXPECT_THAT(OnlyResult().flags(), ElementsAre("truncated"));
}

// What was paid for is not lost to a second call that fails, whatever way it fails.
TEST_F(RunnerSecondTryTest, TheFirstAnswerStandsWhenTheSecondCallFails) {
  const std::vector<std::function<CallOutcome(CallId)>> ends = {
      [](CallId id) { return HttpError(id, 400, "maximum context length is 8"); },
      [](CallId id) { return HttpError(id, 500); },
      [](CallId id) { return Broken(id, Transport::kReset); },
      [](CallId id) { return Broken(id, Transport::kTimeout); }};
  for (const auto& end : ends) {
    calls_.started.clear();
    Connect();
    LeaseWith(kRetry, kKeep);
    Finish(Short());
    ASSERT_EQ(calls_.started.size(), 2u);
    Finish(end(calls_.started.back().id));
    const v1::AttemptResult result = OnlyResult();
    EXPECT_EQ(result.kind(), v1::AttemptResult::ANSWERED);
    EXPECT_EQ(result.body(), absl::StrCat(R"({"answer":)", calls_.started[0].id, "}"));
    EXPECT_THAT(result.flags(), ElementsAre("truncated"));
    EXPECT_EQ(result.truncated_retries(), 1);
  }
}

TEST_F(RunnerSecondTryTest, AnOverloadIsWaitedForWithTheFirstAnswerInHand) {
  Connect();
  LeaseWith(kRetry, kKeep);
  Finish(Short());
  Finish(HttpError(calls_.started.back().id, 503));
  EXPECT_THAT(Results(), IsEmpty());
  Advance(absl::Seconds(10));
  ASSERT_EQ(calls_.started.size(), 3u);
  Finish(Good());
  EXPECT_EQ(OnlyResult().kind(), v1::AttemptResult::ANSWERED);
}

TEST_F(RunnerSecondTryTest, ADrainKeepsTheFirstAnswerInsteadOfHandingTheRequestBack) {
  Connect(1);
  LeaseWith(kRetry, kKeep);
  Finish(Short());
  Finish(HttpError(calls_.started.back().id, 503));  // it waits for its second call
  runner_->Drain("over", Now());
  EXPECT_EQ(OnlyResult().kind(), v1::AttemptResult::ANSWERED);
  EXPECT_THAT(ReturnedIndexes(), IsEmpty());
}

// The worker was away for too long, and its request went to others. Its answer was paid for.
TEST_F(RunnerSecondTryTest, AFirstAnswerIsNotDroppedForARequestThatOthersHave) {
  Connect();
  LeaseWith(kRetry, kKeep);
  Finish(Short());
  LinkDown();
  Advance(absl::Seconds(9));
  LinkUp();
  Welcome({1});
  EXPECT_EQ(OnlyResult().kind(), v1::AttemptResult::ANSWERED);
  EXPECT_EQ(calls_.aborted.size(), 1u);
  EXPECT_EQ(runner_->held(), 0);
}

TEST_F(RunnerSecondTryTest, WhileDrainingNothingIsAskedAgain) {
  Connect();
  LeaseWith(kRetry, kKeep);
  runner_->Drain("over", Now());
  Finish(Short());
  EXPECT_EQ(OnlyResult().kind(), v1::AttemptResult::ANSWERED);
  EXPECT_EQ(OnlyResult().truncated_retries(), 0);
}

TEST_F(RunnerSecondTryTest, AnEmptyAnswerIsAskedForTwiceMore) {
  Connect();
  LeaseWith(kKeep, kRetry);
  Finish(Empty());
  Finish(Empty());
  EXPECT_THAT(Results(), IsEmpty());
  Finish(Empty());
  EXPECT_EQ(calls_.started.size(), 3u);
  EXPECT_THAT(Started(), testing::Each(R"({"max_tokens":5})"));
  EXPECT_EQ(OnlyResult().kind(), v1::AttemptResult::ANSWERED);
  EXPECT_EQ(OnlyResult().empty_retries(), 2);
  EXPECT_THAT(OnlyResult().flags(), ElementsAre("empty"));
  EXPECT_EQ(OnlyResult().usage().completion_tokens(), 15);
}

TEST_F(RunnerSecondTryTest, AnEmptySecondAnswerDoesNotReplaceAFirstWithText) {
  Connect();
  LeaseWith(kRetry, kKeep);
  Finish(Short());
  Finish(Empty());
  EXPECT_EQ(OnlyResult().body(), absl::StrCat(R"({"answer":)", calls_.started[0].id, "}"));
}

TEST_F(RunnerSecondTryTest, ByPolicyAnAnswerIsAFailureAndCanBeLookedAt) {
  Connect();
  LeaseWith(kFail, kKeep);
  Finish(Short());
  v1::AttemptResult result = OnlyResult();
  EXPECT_EQ(result.kind(), v1::AttemptResult::REJECTED);
  EXPECT_EQ(result.error_class(), v1::ERROR_CLASS_QUALITY_CHECK_FAILED);
  EXPECT_EQ(result.error_code(), "quality_check_failed");
  EXPECT_EQ(result.http_status(), 0);
  EXPECT_FALSE(result.body().empty());
  EXPECT_THAT(result.flags(), ElementsAre("truncated"));

  link_.sent.clear();
  Connect();
  LeaseWith(kKeep, kFail);
  Finish(Empty());
  result = OnlyResult();
  EXPECT_EQ(result.error_class(), v1::ERROR_CLASS_QUALITY_CHECK_FAILED);
  EXPECT_THAT(result.flags(), ElementsAre("empty"));
}

TEST_F(RunnerSecondTryTest, ARevokedRequestLeavesNothingBehind) {
  Connect();
  LeaseWith(kRetry, kKeep);
  Finish(Short());
  Revoke({1});
  EXPECT_THAT(calls_.aborted, ElementsAre(calls_.started.back().id));
  EXPECT_THAT(Results(), IsEmpty());
  EXPECT_EQ(runner_->held(), 0);
}

}  // namespace
}  // namespace nightshift
