#include "coordinator/core/outcome.h"

#include <gtest/gtest.h>

#include "proto/words.h"

namespace nightshift {
namespace {

TEST(Outcome, ErrorClassesAreWrittenAsWords) {
  EXPECT_EQ(ErrorClassWord(v1::ERROR_CLASS_CONTEXT_TOO_LONG), "context_too_long");
  EXPECT_EQ(ErrorClassWord(v1::ERROR_CLASS_NONE), "none");
}

TEST(Outcome, CarriesEverythingTheWorkerMeasured) {
  v1::AttemptResult result;
  result.set_backend("b");
  result.set_http_status(200);
  result.set_request_id("r");
  result.set_finish_reason("length");
  result.add_flags("truncated");
  result.mutable_timing()->set_started_unix_ms(5000);
  result.mutable_timing()->set_latency_ms(70);
  result.mutable_usage()->set_prompt_tokens(3);
  v1::OutcomeRecord outcome;
  FillOutcome(result, v1::OUTCOME_SUCCEEDED, 2, "w", 1000, absl::FromUnixMillis(6000), &outcome);
  EXPECT_EQ(outcome.kind(), v1::OUTCOME_SUCCEEDED);
  EXPECT_EQ(outcome.attempts(), 2);
  EXPECT_EQ(outcome.worker(), "w");
  EXPECT_EQ(outcome.backend(), "b");
  EXPECT_EQ(outcome.queued_ms(), 4000);
  EXPECT_EQ(outcome.timing().latency_ms(), 70);
  EXPECT_EQ(outcome.usage().prompt_tokens(), 3);
  EXPECT_EQ(outcome.flags(0), "truncated");
  EXPECT_EQ(outcome.finish_reason(), "length");
  EXPECT_EQ(outcome.finished_at_ms(), 6000);
}

TEST(Outcome, AWorkersClockBehindOursDoesNotGiveNegativeTimes) {
  v1::AttemptResult result;
  result.mutable_timing()->set_started_unix_ms(500);
  v1::OutcomeRecord outcome;
  FillOutcome(result, v1::OUTCOME_SUCCEEDED, 1, "w", 1000, absl::FromUnixMillis(6000), &outcome);
  EXPECT_EQ(outcome.queued_ms(), 0);
}

TEST(Outcome, AFailureWithoutHttpAnswerAlwaysHasACode) {
  v1::AttemptResult result;
  result.set_error_class(v1::ERROR_CLASS_CONNECTION_ERROR);
  v1::OutcomeRecord outcome;
  FillOutcome(result, v1::OUTCOME_FAILED, 1, "w", 0, absl::UnixEpoch(), &outcome);
  EXPECT_EQ(outcome.error_code(), "connection_error");
  result.set_error_code("request_timeout");
  FillOutcome(result, v1::OUTCOME_FAILED, 1, "w", 0, absl::UnixEpoch(), &outcome);
  EXPECT_EQ(outcome.error_code(), "request_timeout");
}

TEST(Outcome, SumsCountTokensOfFailuresAndClasses) {
  v1::OutcomeRecord good, bad;
  good.set_kind(v1::OUTCOME_SUCCEEDED);
  good.mutable_usage()->set_prompt_tokens(10);
  good.mutable_usage()->set_completion_tokens(5);
  good.mutable_usage()->set_cost_known(true);
  good.mutable_usage()->set_cost_usd(0.25);
  bad.set_kind(v1::OUTCOME_FAILED);
  bad.set_error_class(v1::ERROR_CLASS_CONTENT_FILTER);
  bad.mutable_usage()->set_prompt_tokens(7);
  v1::ProgressSums sums;
  AddToSums(bad, &sums);
  EXPECT_FALSE(sums.cost_known());
  AddToSums(good, &sums);
  EXPECT_EQ(sums.succeeded(), 1);
  EXPECT_EQ(sums.failed(), 1);
  EXPECT_EQ(sums.prompt_tokens(), 17);
  EXPECT_EQ(sums.completion_tokens(), 5);
  EXPECT_EQ(sums.cost_usd(), 0.25);
  EXPECT_TRUE(sums.cost_known());
  EXPECT_EQ(sums.failed_by_class().at(v1::ERROR_CLASS_CONTENT_FILTER), 1);
}

}  // namespace
}  // namespace nightshift
