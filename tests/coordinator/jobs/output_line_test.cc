#include "coordinator/jobs/output_line.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "coordinator/jobs/output_reader.h"

namespace nightshift {
namespace {

class OutputLineTest : public testing::Test {
 protected:
  OutputLineTest() {
    job_.set_id("job_abc123");
    request_.set_custom_id("r-1");
    outcome_.set_kind(v1::OUTCOME_SUCCEEDED);
    outcome_.set_http_status(200);
    outcome_.set_request_id("req_55");
    outcome_.set_attempts(2);
    outcome_.set_backend("gpu-1");
    outcome_.set_worker("w");
    outcome_.set_queued_ms(1200);
    outcome_.mutable_timing()->set_ttft_ms(31);
    outcome_.mutable_timing()->set_latency_ms(450);
    outcome_.mutable_usage()->set_known(true);
    outcome_.mutable_usage()->set_prompt_tokens(8);
    outcome_.mutable_usage()->set_completion_tokens(2);
    outcome_.mutable_usage()->set_cost_known(true);
    outcome_.mutable_usage()->set_cost_usd(0.00012345678);
    outcome_.set_finish_reason("stop");
  }
  std::string Line(absl::string_view body) {
    const std::string line = OutputLine(job_, 41, request_, outcome_, body);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_TRUE(CheckJson(line).ok()) << line;
    return line;
  }

  v1::JobRecord job_;
  v1::RequestRecord request_;
  v1::OutcomeRecord outcome_;
};

TEST_F(OutputLineTest, Success) {
  EXPECT_EQ(Line(R"({"id":"c","n":1e3,  "u":"\u00e9"})"),
            R"({"id":"batch_req_abc123_41","custom_id":"r-1","response":{"status_code":200,)"
            R"("request_id":"req_55","body":{"id":"c","n":1e3,  "u":"\u00e9"}},"error":null,)"
            R"("nightshift":{"attempts":2,"backend":"gpu-1","worker":"w","queued_ms":1200,)"
            R"("ttft_ms":31,"latency_ms":450,"prompt_tokens":8,"completion_tokens":2,)"
            R"("cost_usd":0.00012345678,"finish_reason":"stop","flags":[]}})"
            "\n");
}

TEST_F(OutputLineTest, WhatIsNotKnownIsNull) {
  outcome_.clear_timing();
  outcome_.clear_usage();
  outcome_.clear_finish_reason();
  outcome_.clear_backend();
  outcome_.clear_worker();
  outcome_.set_queued_ms(-1);
  outcome_.add_flags("truncated");
  outcome_.add_flags("empty");
  EXPECT_EQ(Line("{}"),
            R"({"id":"batch_req_abc123_41","custom_id":"r-1","response":{"status_code":200,)"
            R"("request_id":"req_55","body":{}},"error":null,)"
            R"("nightshift":{"attempts":2,"backend":null,"worker":null,"queued_ms":null,)"
            R"("ttft_ms":null,"latency_ms":null,"prompt_tokens":null,"completion_tokens":null,)"
            R"("cost_usd":null,"finish_reason":null,"flags":["truncated","empty"]}})"
            "\n");
}

TEST_F(OutputLineTest, TtftThatWasNotMeasuredIsNull) {
  outcome_.mutable_timing()->set_ttft_ms(-1);
  EXPECT_NE(Line("{}").find(R"("ttft_ms":null,"latency_ms":450)"), std::string::npos);
}

// The backend's answer says why; `error` is for requests that have none.
TEST_F(OutputLineTest, RejectionOverHttpHasResponseAndNoError) {
  outcome_.set_kind(v1::OUTCOME_FAILED);
  outcome_.set_http_status(400);
  outcome_.set_error_class(v1::ERROR_CLASS_CONTEXT_TOO_LONG);
  outcome_.set_error_code("context_too_long");
  outcome_.set_error_message("never shown here");
  const std::string line = Line(R"({"error":{"message":"too long"}})");
  EXPECT_NE(line.find(R"("response":{"status_code":400,"request_id":"req_55",)"
                      R"("body":{"error":{"message":"too long"}}},"error":null,)"),
            std::string::npos)
      << line;
  EXPECT_NE(line.find(R"("error_class":"context_too_long"}})"), std::string::npos) << line;
}

TEST_F(OutputLineTest, FailureWithoutAnswerHasErrorAndNoResponse) {
  outcome_.set_kind(v1::OUTCOME_FAILED);
  outcome_.set_http_status(0);
  outcome_.set_error_class(v1::ERROR_CLASS_TIMEOUT);
  outcome_.set_error_code("request_timeout");
  outcome_.set_error_message("no answer within \"30 s\"");
  const std::string line = Line("");
  EXPECT_NE(line.find(R"("response":null,"error":{"code":"request_timeout",)"
                      R"("message":"no answer within \"30 s\""},)"),
            std::string::npos)
      << line;
}

TEST_F(OutputLineTest, DetailsAreThereWhereTheyAreKnown) {
  v1::AttemptTiming& timing = *outcome_.mutable_timing();
  timing.set_connect_ms(0);
  timing.set_first_byte_ms(30);
  timing.set_gap_mean_ms(10.25);
  timing.set_gap_max_ms(40);
  timing.set_server_queue_ms(0.5);
  timing.set_server_prompt_ms(2);
  timing.set_server_completion_ms(17);
  outcome_.mutable_usage()->set_cached_tokens(4);
  outcome_.mutable_usage()->set_reasoning_tokens(1);
  const std::string line = Line("{}");
  EXPECT_NE(line.find(R"("flags":[],"cached_tokens":4,"reasoning_tokens":1,"connect_ms":0,)"
                      R"("first_byte_ms":30,"gap_mean_ms":10.25,"gap_max_ms":40,)"
                      R"("server_queue_ms":0.5,"server_prompt_ms":2,"server_completion_ms":17}})"),
            std::string::npos)
      << line;
}

// What a stream had brought before it broke off is shown beside the accounting, never as a
// response.
TEST_F(OutputLineTest, PartOfAnAnswerIsShownApart) {
  outcome_.set_kind(v1::OUTCOME_FAILED);
  outcome_.set_http_status(0);
  outcome_.set_error_class(v1::ERROR_CLASS_INCOMPLETE_RESPONSE);
  outcome_.set_error_code("incomplete_response");
  const std::string line = Line(R"({"choices":[1]})");
  EXPECT_NE(line.find(R"("response":null,"error":{"code":"incomplete_response")"),
            std::string::npos);
  EXPECT_NE(line.find(R"("error_class":"incomplete_response",)"
                      R"("partial_response":{"choices":[1]}}})"),
            std::string::npos)
      << line;
}

// A 503 with an empty body: there is a status, but nothing to show.
TEST_F(OutputLineTest, FailureWithoutBodyOrCodeStillSaysSomething) {
  outcome_.set_kind(v1::OUTCOME_FAILED);
  outcome_.set_http_status(503);
  outcome_.set_error_class(v1::ERROR_CLASS_SERVER_ERROR);
  EXPECT_NE(Line("").find(R"("response":null,"error":{"code":"server_error","message":""})"),
            std::string::npos);
  outcome_.set_error_class(v1::ERROR_CLASS_TIMEOUT);
  EXPECT_NE(Line("").find(R"("error":{"code":"request_timeout")"), std::string::npos);
}

TEST_F(OutputLineTest, TextsAreEscaped) {
  request_.set_custom_id("a\"b\\c\n\x01 é\xF0\x9F\x98\x80");
  const std::string line = Line("{}");
  const auto members = SplitJsonObject(line);
  ASSERT_TRUE(members.ok());
  EXPECT_EQ(*JsonStringText(FindMember(*members, "custom_id")->raw_value), request_.custom_id());
}

TEST_F(OutputLineTest, UnrunRequestsSayWhatEndedTheJob) {
  struct Case {
    v1::JobState state;
    const char* expected;
  };
  for (const Case& c : {
           Case{v1::JOB_STATE_CANCELLED, R"("error":{"code":"batch_cancelled","message":")"},
           Case{v1::JOB_STATE_EXPIRED, R"("error":{"code":"batch_expired","message":")"},
           Case{v1::JOB_STATE_FAILED, R"("error":{"code":"job_stopped","message":")"},
       }) {
    job_.set_state(c.state);
    job_.set_state_detail("too many errors");
    outcome_ = UnrunOutcome(job_);
    const std::string line = Line("");
    EXPECT_NE(line.find(c.expected), std::string::npos) << line;
    EXPECT_NE(line.find(R"("attempts":0,"backend":null)"), std::string::npos) << line;
    EXPECT_NE(line.find(c.state == v1::JOB_STATE_EXPIRED ? R"("error_class":"expired")"
                                                         : R"("error_class":"cancelled")"),
              std::string::npos)
        << line;
  }
  EXPECT_NE(Line("").find("too many errors"), std::string::npos);
}

}  // namespace
}  // namespace nightshift
