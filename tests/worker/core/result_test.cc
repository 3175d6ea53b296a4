#include "worker/core/result.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "worker/core/clean_text.h"

namespace nightshift {
namespace {

CallOutcome Complete(int status, std::string body, bool json) {
  CallOutcome outcome;
  outcome.transport = Transport::kComplete;
  outcome.http_status = status;
  outcome.body = std::move(body);
  outcome.body_is_json = json;
  return outcome;
}

v1::AttemptResult Make(CallOutcome outcome) {
  Classification what = Classify(outcome);
  return MakeResult(std::move(outcome), std::move(what), "req_made");
}

TEST(ResultTest, AnswerKeepsTheBackendsBytes) {
  CallOutcome outcome = Complete(200, R"({"x":1e3, "y" : 0.10})", true);
  outcome.has_answer = true;
  outcome.finish_reason = "stop";
  outcome.usage.set_prompt_tokens(4);
  outcome.timing.set_latency_ms(12);
  const v1::AttemptResult result = Make(outcome);
  EXPECT_EQ(result.kind(), v1::AttemptResult::ANSWERED);
  EXPECT_FALSE(result.charged());
  EXPECT_EQ(result.body(), R"({"x":1e3, "y" : 0.10})");
  EXPECT_EQ(result.http_status(), 200);
  EXPECT_EQ(result.error_class(), v1::ERROR_CLASS_NONE);
  EXPECT_EQ(result.error_code(), "");
  EXPECT_EQ(result.error_message(), "");
  EXPECT_EQ(result.request_id(), "req_made");
  EXPECT_EQ(result.usage().prompt_tokens(), 4);
  EXPECT_EQ(result.timing().latency_ms(), 12);
  EXPECT_EQ(result.finish_reason(), "stop");
  EXPECT_EQ(result.flags_size(), 0);
}

TEST(ResultTest, BackendsOwnRequestIdIsKept) {
  CallOutcome outcome = Complete(200, "{}", true);
  outcome.has_answer = true;
  outcome.request_id = "req_theirs";
  EXPECT_EQ(Make(outcome).request_id(), "req_theirs");
}

TEST(ResultTest, TruncatedAndEmptyAnswersAreFlagged) {
  for (const char* reason : {"length", "max_tokens", "max_output_tokens", "model_length"}) {
    CallOutcome outcome = Complete(200, "{}", true);
    outcome.has_answer = true;
    outcome.empty_answer = true;
    outcome.finish_reason = reason;
    const v1::AttemptResult result = Make(outcome);
    ASSERT_EQ(result.flags_size(), 2);
    EXPECT_EQ(result.flags(0), "empty");
    EXPECT_EQ(result.flags(1), "truncated");
  }
  CallOutcome filtered = Complete(200, "{}", true);
  filtered.has_answer = true;
  filtered.finish_reason = "content_filter";
  ASSERT_EQ(Make(filtered).flags_size(), 1);
  EXPECT_EQ(Make(filtered).flags(0), "filtered");
}

TEST(ResultTest, RefusalsAndRepetitionAreFlagged) {
  CallOutcome outcome = Complete(200, "{}", true);
  outcome.has_answer = true;
  outcome.refused = true;
  outcome.repetitive = true;
  const v1::AttemptResult result = Make(outcome);
  ASSERT_EQ(result.flags_size(), 2);
  EXPECT_EQ(result.flags(0), "refused");
  EXPECT_EQ(result.flags(1), "repetitive");
}

// What came before a stream broke off is there to be looked at, but must not pass for a response.
TEST(ResultTest, PartOfABrokenStreamIsKeptWithoutAStatus) {
  CallOutcome outcome = Complete(200, R"({"choices":[]})", true);
  outcome.incomplete = "the stream ended without [DONE]";
  outcome.has_answer = true;
  EXPECT_EQ(Make(outcome).body(), "");
  outcome.body_is_partial = true;
  const v1::AttemptResult result = Make(outcome);
  EXPECT_EQ(result.kind(), v1::AttemptResult::RETRY);
  EXPECT_EQ(result.error_code(), "incomplete_response");
  EXPECT_EQ(result.http_status(), 0);
  EXPECT_EQ(result.body(), R"({"choices":[]})");
}

TEST(ResultTest, RejectionOverHttpHasStatusAndBodyAndNoCode) {
  CallOutcome outcome = Complete(400, R"({"error":{"message":"no"}})", true);
  outcome.error_message = "no";
  const v1::AttemptResult result = Make(outcome);
  EXPECT_EQ(result.kind(), v1::AttemptResult::REJECTED);
  EXPECT_EQ(result.http_status(), 400);
  EXPECT_EQ(result.body(), R"({"error":{"message":"no"}})");
  EXPECT_EQ(result.error_code(), "");
  EXPECT_EQ(result.error_class(), v1::ERROR_CLASS_INVALID_REQUEST);
}

TEST(ResultTest, WithoutAnHttpAnswerThereIsACodeAndNeitherStatusNorBody) {
  CallOutcome outcome = Complete(200, "<html>half", false);
  outcome.transport = Transport::kReset;
  const v1::AttemptResult result = Make(outcome);
  EXPECT_EQ(result.kind(), v1::AttemptResult::RETRY);
  EXPECT_TRUE(result.charged());
  EXPECT_EQ(result.error_code(), "connection_error");
  EXPECT_NE(result.error_message(), "");
  EXPECT_EQ(result.http_status(), 0);
  EXPECT_EQ(result.body(), "");
  EXPECT_EQ(result.request_id(), "");
}

TEST(ResultTest, ServerErrorIsChargedAndKeepsItsBodyForTheCaseThatItIsTheLast) {
  CallOutcome outcome = Complete(500, R"({"error":"boom"})", true);
  outcome.retry_after = absl::Milliseconds(1500);
  const v1::AttemptResult result = Make(outcome);
  EXPECT_EQ(result.kind(), v1::AttemptResult::RETRY);
  EXPECT_TRUE(result.charged());
  EXPECT_EQ(result.http_status(), 500);
  EXPECT_EQ(result.body(), R"({"error":"boom"})");
  EXPECT_EQ(result.retry_after_ms(), 1500);
}

TEST(ResultTest, ErrorPageIsWrappedInJson) {
  const v1::AttemptResult result =
      Make(Complete(502, "\n<html>\"quoted\"\n\x01\xff</html>\n", false));
  const auto body = nlohmann::json::parse(result.body());
  EXPECT_EQ(body["error"]["message"], "<html>\"quoted\"\n\x01\xef\xbf\xbd</html>");
  EXPECT_EQ(body["error"]["type"], "non_json_body");
  EXPECT_TRUE(body["error"]["param"].is_null());
  EXPECT_TRUE(body["error"]["code"].is_null());
  EXPECT_EQ(result.body().find('\n'), std::string::npos) << "one line";
  EXPECT_EQ(result.body().rfind(R"({"error":{"message":)", 0), 0u);
}

TEST(ResultTest, ErrorPageIsCutAtFourKibibytes) {
  // The cut falls into a two-byte character.
  const std::string page = "x" + [] {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "\xc3\xa9";
    return text;
  }();
  const auto body = nlohmann::json::parse(WrapNonJsonBody(page));
  const std::string message = body["error"]["message"];
  EXPECT_LE(message.size(), 4096u + 2);
  EXPECT_GE(message.size(), 4095u);
}

TEST(ResultTest, EmptyOrBlankBodyStaysEmpty) {
  EXPECT_EQ(Make(Complete(404, "", false)).body(), "");
  EXPECT_EQ(Make(Complete(404, " \r\n", false)).body(), "");
}

// A string field with a stray byte would make the whole batch unreadable to the coordinator.
TEST(ResultTest, EveryWordOfTheBackendIsMadeValidUtf8) {
  CallOutcome outcome = Complete(400, "{}", true);
  outcome.error_message = "bad \xff byte";
  outcome.request_id = "id\x80";
  outcome.finish_reason = "st\xc3";
  const v1::AttemptResult result = Make(outcome);
  EXPECT_EQ(result.request_id(), "id?");
  EXPECT_EQ(result.finish_reason(), "st?");
  v1::AttemptResult read;
  EXPECT_TRUE(read.ParseFromString(result.SerializeAsString()));
}

TEST(CleanTextTest, KeepsValidTextAndReplacesTheRest) {
  EXPECT_EQ(CleanText("héé €  😀", 100), "héé €  😀");
  EXPECT_EQ(CleanText("a\nb\x7f"
                      "c",
                      100),
            "a b c");
  EXPECT_EQ(CleanText("\xc0\xaf", 100), "??") << "overlong";
  EXPECT_EQ(CleanText("\xe0\x80\xaf", 100), "???") << "overlong";
  EXPECT_EQ(CleanText("\xed\xa0\x80", 100), "???") << "surrogate";
  EXPECT_EQ(CleanText("\xf4\x90\x80\x80", 100), "????") << "beyond U+10FFFF";
  EXPECT_EQ(CleanText("\xf0\x80\x80\x80", 100), "????") << "overlong";
  EXPECT_EQ(CleanText("\xe2\x82", 100), "??") << "cut off";
  EXPECT_EQ(CleanText("\xe2"
                      "ab",
                      100),
            "?ab");
}

TEST(CleanTextTest, CutsBetweenCharacters) {
  EXPECT_EQ(CleanText("aé", 2), "a");
  EXPECT_EQ(CleanText("aé", 3), "aé");
  EXPECT_EQ(CleanText("abc", 0), "");
}

}  // namespace
}  // namespace nightshift
