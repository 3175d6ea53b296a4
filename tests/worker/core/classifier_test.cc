#include "worker/core/classifier.h"

#include <gtest/gtest.h>

#include <ostream>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "worker/core/error_words.h"

namespace nightshift {
namespace {

struct HttpRow {
  const char* name;
  int status;
  const char* code;
  const char* type;
  const char* message;
  Verdict verdict;
  v1::ErrorClass error_class;
};

void PrintTo(const HttpRow& row, std::ostream* out) { *out << row.name; }

class HttpErrorTable : public testing::TestWithParam<HttpRow> {};

TEST_P(HttpErrorTable, GivesVerdictAndClass) {
  const HttpRow& row = GetParam();
  CallOutcome outcome;
  outcome.transport = Transport::kComplete;
  outcome.http_status = row.status;
  outcome.body = "{}";
  outcome.body_is_json = true;
  outcome.error_code = row.code;
  outcome.error_type = row.type;
  outcome.error_message = row.message;
  const Classification what = Classify(outcome);
  EXPECT_EQ(static_cast<int>(what.verdict), static_cast<int>(row.verdict));
  EXPECT_EQ(what.error_class, row.error_class);
  // It is an HTTP answer, so the records hold its status and body, not a code.
  EXPECT_EQ(what.code, "");
  EXPECT_TRUE(absl::StrContains(what.message, std::to_string(row.status)));
  EXPECT_TRUE(absl::StrContains(what.message, row.message));
}

const HttpRow kHttpRows[] = {
    {"BadRequest", 400, "", "BadRequestError", "temperature must be positive", Verdict::kRejected,
     v1::ERROR_CLASS_INVALID_REQUEST},
    {"Validation", 422, "", "", "field required", Verdict::kRejected,
     v1::ERROR_CLASS_INVALID_REQUEST},
    {"TooLarge", 413, "", "", "", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST},
    {"MethodNotAllowed", 405, "", "", "", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST},
    {"Teapot", 418, "", "", "", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST},

    {"ContextOpenAi", 400, "context_length_exceeded", "invalid_request_error", "too long",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    {"ContextVllm", 400, "400", "BadRequestError",
     "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    {"ContextCerebras", 400, "", "invalid_request_error",
     "Please reduce the length. Current length is 9000 while limit is 8192", Verdict::kRejected,
     v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    {"ContextLlamaCpp", 400, "400", "exceed_context_size_error",
     "the request exceeds the available context size, try increasing it", Verdict::kRejected,
     v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    {"ContextLlamaCppOld", 500, "500", "server_error",
     "the request exceeds the available context size", Verdict::kRejected,
     v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    {"ContextSglang", 400, "", "",
     "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    {"ContextTgi", 422, "", "validation",
     "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    {"ContextTgiInputs", 422, "", "validation",
     "Input validation error: `inputs` must have less than 1024 tokens. Given: 2048",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    {"ContextMessages", 413, "", "invalid_request_error", "prompt is too long: 210000 tokens",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    {"ContextInput", 400, "", "", "the prompt exceeds the maximum input length", Verdict::kRejected,
     v1::ERROR_CLASS_CONTEXT_TOO_LONG},
    // One half of a phrase is not the phrase.
    {"NotContext", 400, "", "", "Current length is wrong", Verdict::kRejected,
     v1::ERROR_CLASS_INVALID_REQUEST},

    {"FilterCode", 400, "content_filter", "", "blocked", Verdict::kRejected,
     v1::ERROR_CLASS_CONTENT_FILTER},
    {"FilterPolicy", 403, "content_policy_violation", "", "blocked", Verdict::kRejected,
     v1::ERROR_CLASS_CONTENT_FILTER},
    {"FilterModeration", 403, "moderation_blocked", "", "blocked", Verdict::kRejected,
     v1::ERROR_CLASS_CONTENT_FILTER},
    {"FilterAzure", 400, "", "", "triggering Azure OpenAI's content management policy",
     Verdict::kRejected, v1::ERROR_CLASS_CONTENT_FILTER},
    {"FilterAzureInner", 400, "ResponsibleAIPolicyViolation", "", "blocked", Verdict::kRejected,
     v1::ERROR_CLASS_CONTENT_FILTER},

    {"ModelCode", 404, "model_not_found", "invalid_request_error", "no such model",
     Verdict::kRejected, v1::ERROR_CLASS_MODEL_NOT_FOUND},
    {"ModelVllm", 404, "404", "NotFoundError", "The model `x` does not exist.", Verdict::kRejected,
     v1::ERROR_CLASS_MODEL_NOT_FOUND},
    {"ModelOllama", 404, "", "", "model \"x\" not found, try pulling it first", Verdict::kRejected,
     v1::ERROR_CLASS_MODEL_NOT_FOUND},
    {"ModelType", 404, "", "not_found_error", "x", Verdict::kRejected,
     v1::ERROR_CLASS_MODEL_NOT_FOUND},
    {"ModelAs400", 400, "model_not_found", "", "x", Verdict::kRejected,
     v1::ERROR_CLASS_MODEL_NOT_FOUND},
    {"ModelRetired", 410, "", "", "", Verdict::kRejected, v1::ERROR_CLASS_MODEL_NOT_FOUND},
    {"UnknownPath", 404, "", "", "", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST},
    {"UnknownPathWords", 404, "", "", "Not Found", Verdict::kRejected,
     v1::ERROR_CLASS_INVALID_REQUEST},

    {"KeyRefused", 401, "wrong_api_key", "", "", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH},
    {"PaymentRequired", 402, "", "", "", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH},
    {"Forbidden", 403, "", "", "Not authenticated", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH},
    {"QuotaOfMoney", 429, "insufficient_quota", "insufficient_quota",
     "You exceeded your current quota", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH},
    {"Billing", 400, "billing_hard_limit_reached", "", "x", Verdict::kRefusedKey,
     v1::ERROR_CLASS_AUTH},
    {"KeyAs400", 400, "invalid_api_key", "", "x", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH},
    {"KeyAs400Wrong", 400, "wrong_api_key", "", "x", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH},
    {"KeyAs400Type", 400, "", "authentication_error", "x", Verdict::kRefusedKey,
     v1::ERROR_CLASS_AUTH},
    {"KeyAs400Words", 400, "", "", "API key not valid. Please pass a valid API key.",
     Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH},
    {"CreditWords", 400, "", "", "Your credit balance is too low to access the API",
     Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH},
    // A prompt that a validation error echoes must not be able to stop the backend.
    {"EchoedKeyWords", 400, "", "", "bad input: 'API key not valid'", Verdict::kRejected,
     v1::ERROR_CLASS_INVALID_REQUEST},

    {"ServerTimeout", 408, "", "", "", Verdict::kOverload, v1::ERROR_CLASS_TIMEOUT},
    {"Conflict", 409, "", "", "", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    {"Misdirected", 421, "", "", "", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    {"GenerationFailed", 424, "", "generation", "", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    {"TooEarly", 425, "", "", "", Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR},
    {"TooMany", 429, "queue_exceeded", "too_many_requests_error", "experiencing high traffic",
     Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED},
    {"Quota", 429, "token_quota_exceeded", "too_many_tokens_error", "Tokens per minute limit",
     Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED},
    {"ClientClosed", 499, "", "", "", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},

    {"Internal", 500, "", "", "boom", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    {"NotImplemented", 501, "", "", "", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST},
    {"BadGateway", 502, "", "", "", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    {"Overloaded", 503, "", "", "The request queue is full.", Verdict::kOverload,
     v1::ERROR_CLASS_SERVER_ERROR},
    {"Loading", 503, "503", "unavailable_error", "Loading model", Verdict::kUnavailable,
     v1::ERROR_CLASS_SERVER_ERROR},
    {"LoadingWords", 503, "", "", "the model is loading", Verdict::kUnavailable,
     v1::ERROR_CLASS_SERVER_ERROR},
    {"LoadingOther", 503, "", "", "still loading weights", Verdict::kUnavailable,
     v1::ERROR_CLASS_SERVER_ERROR},
    {"WarmingUp", 503, "", "", "server is warming up", Verdict::kUnavailable,
     v1::ERROR_CLASS_SERVER_ERROR},
    {"StartingUp", 503, "", "", "engine is starting up", Verdict::kUnavailable,
     v1::ERROR_CLASS_SERVER_ERROR},
    {"NotReady", 503, "", "", "engine not ready", Verdict::kUnavailable,
     v1::ERROR_CLASS_SERVER_ERROR},
    {"GatewayTimeout", 504, "", "", "", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    {"HttpVersion", 505, "", "", "", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST},
    {"LoginPage", 511, "", "", "", Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR},
    {"Proxy520", 520, "", "", "", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    {"Proxy524", 524, "", "", "", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
    {"ProxyTls", 526, "", "", "", Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR},
    {"SiteOverloaded", 529, "", "overloaded_error", "Overloaded", Verdict::kOverload,
     v1::ERROR_CLASS_SERVER_ERROR},
    {"ProxyDns", 530, "", "", "", Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR},
    {"Unknown5xx", 599, "", "", "", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR},
};

INSTANTIATE_TEST_SUITE_P(Rows, HttpErrorTable, testing::ValuesIn(kHttpRows),
                         [](const auto& row) { return std::string(row.param.name); });

struct TransportRow {
  Transport transport;
  Verdict verdict;
  v1::ErrorClass error_class;
  const char* code;
};

TEST(ClassifierTest, TransportDecidesWhenNoWholeResponseCame) {
  const TransportRow rows[] = {
      {Transport::kConnectFailed, Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR,
       "connection_error"},
      {Transport::kResolveFailed, Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR,
       "connection_error"},
      {Transport::kTlsFailed, Verdict::kUnavailable, v1::ERROR_CLASS_CONNECTION_ERROR,
       "connection_error"},
      {Transport::kStaleConnection, Verdict::kRetryNow, v1::ERROR_CLASS_CONNECTION_ERROR,
       "connection_error"},
      {Transport::kSendFailed, Verdict::kRetry, v1::ERROR_CLASS_CONNECTION_ERROR,
       "connection_error"},
      {Transport::kReset, Verdict::kRetry, v1::ERROR_CLASS_CONNECTION_ERROR, "connection_error"},
      {Transport::kTimeout, Verdict::kRetry, v1::ERROR_CLASS_TIMEOUT, "request_timeout"},
      {Transport::kTooLarge, Verdict::kRejected, v1::ERROR_CLASS_INCOMPLETE_RESPONSE,
       "incomplete_response"},
      {Transport::kBadProtocol, Verdict::kRetry, v1::ERROR_CLASS_CONNECTION_ERROR,
       "connection_error"},
      {Transport::kNotSent, Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST,
       "unsupported_by_backend"},
      {Transport::kAborted, Verdict::kAborted, v1::ERROR_CLASS_CANCELLED, "aborted"},
  };
  std::set<std::string> messages;
  for (const TransportRow& row : rows) {
    SCOPED_TRACE(static_cast<int>(row.transport));
    CallOutcome outcome;
    outcome.transport = row.transport;
    outcome.transport_detail = "the words of the transport";
    // A status that had come before the cut decides nothing.
    outcome.http_status = 200;
    outcome.has_answer = true;
    const Classification what = Classify(outcome);
    EXPECT_EQ(static_cast<int>(what.verdict), static_cast<int>(row.verdict));
    EXPECT_EQ(what.error_class, row.error_class);
    EXPECT_EQ(what.code, row.code);
    EXPECT_TRUE(absl::StrContains(what.message, "the words of the transport"));
    messages.insert(what.message);
  }
  EXPECT_EQ(messages.size(), std::size(rows)) << "each transport result has a sentence of its own";
}

CallOutcome Success(int status = 200) {
  CallOutcome outcome;
  outcome.transport = Transport::kComplete;
  outcome.http_status = status;
  outcome.body = "{}";
  outcome.body_is_json = true;
  return outcome;
}

TEST(ClassifierTest, AnswerIsAnswered) {
  for (const int status : {200, 201, 206}) {
    CallOutcome outcome = Success(status);
    outcome.has_answer = true;
    const Classification what = Classify(outcome);
    EXPECT_EQ(what.verdict, Verdict::kAnswered);
    EXPECT_EQ(what.error_class, v1::ERROR_CLASS_NONE);
    EXPECT_EQ(what.code, "");
  }
}

TEST(ClassifierTest, SuccessWithoutAnAnswerIsIncomplete) {
  CallOutcome shapeless = Success();
  CallOutcome html = Success();
  html.body = "<html>";
  html.body_is_json = false;
  CallOutcome nothing = Success(204);
  nothing.body = "";
  nothing.body_is_json = false;
  CallOutcome broken_off = Success();
  broken_off.has_answer = true;
  broken_off.incomplete = "the stream ended without [DONE]";
  for (const CallOutcome& outcome : {shapeless, html, nothing, broken_off}) {
    const Classification what = Classify(outcome);
    EXPECT_EQ(what.verdict, Verdict::kRetry);
    EXPECT_EQ(what.error_class, v1::ERROR_CLASS_INCOMPLETE_RESPONSE);
    EXPECT_EQ(what.code, "incomplete_response");
    EXPECT_NE(what.message, "");
  }
  EXPECT_TRUE(absl::StrContains(Classify(broken_off).message, "[DONE]"));
}

// Asking an asynchronous server again makes it do the work again, and no answer ever comes.
TEST(ClassifierTest, AcceptedForLaterIsFinal) {
  const Classification what = Classify(Success(202));
  EXPECT_EQ(what.verdict, Verdict::kRejected);
  EXPECT_EQ(what.error_class, v1::ERROR_CLASS_INCOMPLETE_RESPONSE);
  EXPECT_EQ(what.code, "incomplete_response");
  EXPECT_TRUE(absl::StrContains(what.message, "202"));
}

TEST(ClassifierTest, RedirectIsFinalAndSaysWhatToDo) {
  for (const int status : {301, 302, 307, 308}) {
    CallOutcome outcome = Success(status);
    const Classification what = Classify(outcome);
    EXPECT_EQ(what.verdict, Verdict::kRejected);
    EXPECT_EQ(what.error_class, v1::ERROR_CLASS_INVALID_REQUEST);
    EXPECT_EQ(what.code, "unexpected_redirect");
    EXPECT_TRUE(absl::StrContains(what.message, "location"));
    EXPECT_TRUE(absl::StrContains(what.message, "URL"));
  }
}

TEST(ClassifierTest, StatusThatHttpDoesNotHaveIsRetried) {
  for (const int status : {0, 99, 150, 600, 999}) {
    const Classification what = Classify(Success(status));
    EXPECT_EQ(what.verdict, Verdict::kRetry);
    EXPECT_EQ(what.error_class, v1::ERROR_CLASS_CONNECTION_ERROR);
    EXPECT_EQ(what.code, "connection_error");
  }
}

struct InsideRow {
  const char* code;
  const char* type;
  const char* message;
  Verdict verdict;
  v1::ErrorClass error_class;
  const char* recorded;
};

// An error event in a streamed answer, or an error object in a plain one, arrives under a 200.
TEST(ClassifierTest, ErrorInsideASuccessIsAnError) {
  const InsideRow rows[] = {
      {"503", "", "queue full", Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR, "server_error"},
      {"400", "", "bad", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST, "invalid_request"},
      {"401", "", "", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH, "auth"},
      {"429", "", "", Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED, "rate_limited"},
      {"408", "", "", Verdict::kOverload, v1::ERROR_CLASS_TIMEOUT, "request_timeout"},
      {"400", "", "maximum context length is 5", Verdict::kRejected,
       v1::ERROR_CLASS_CONTEXT_TOO_LONG, "context_too_long"},
      {"", "", "Streaming response failed: [503] The request queue is full.", Verdict::kOverload,
       v1::ERROR_CLASS_SERVER_ERROR, "server_error"},
      {"", "", "[400] bad", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST, "invalid_request"},
      {"", "", "something [or other] failed", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR,
       "server_error"},
      {"context_length_exceeded", "", "too long", Verdict::kRejected,
       v1::ERROR_CLASS_CONTEXT_TOO_LONG, "context_too_long"},
      {"content_filter", "", "x", Verdict::kRejected, v1::ERROR_CLASS_CONTENT_FILTER,
       "content_filter"},
      {"rate_limit_exceeded", "", "x", Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED,
       "rate_limited"},
      {"token_quota_exceeded", "", "x", Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED,
       "rate_limited"},
      {"queue_exceeded", "", "x", Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED, "rate_limited"},
      {"", "too_many_requests_error", "x", Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED,
       "rate_limited"},
      {"", "overloaded_error", "x", Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR,
       "server_error"},
      {"", "unavailable_error", "Loading model", Verdict::kUnavailable,
       v1::ERROR_CLASS_SERVER_ERROR, "server_error"},
      {"", "authentication_error", "x", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH, "auth"},
      {"wrong_api_key", "", "x", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH, "auth"},
      {"", "permission_error", "x", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH, "auth"},
      {"model_not_found", "", "x", Verdict::kRejected, v1::ERROR_CLASS_MODEL_NOT_FOUND,
       "model_not_found"},
      {"", "NotFoundError", "The model does not exist", Verdict::kRejected,
       v1::ERROR_CLASS_MODEL_NOT_FOUND, "model_not_found"},
      {"", "timeout_error", "x", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR, "server_error"},
      {"", "invalid_request_error", "x", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST,
       "invalid_request"},
      {"", "BadRequestError", "x", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST,
       "invalid_request"},
      {"bad_request", "", "x", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST,
       "invalid_request"},
      {"", "validation", "x", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST,
       "invalid_request"},
      // Numbers that are no error status, and words nobody knows.
      {"200", "", "x", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR, "server_error"},
      {"-7", "", "x", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR, "server_error"},
      {"", "", "CUDA error", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR, "server_error"},
  };
  for (const InsideRow& row : rows) {
    SCOPED_TRACE(testing::Message() << row.code << '|' << row.type << '|' << row.message);
    CallOutcome outcome = Success();
    // Some text had come before: still no short success.
    outcome.has_answer = true;
    outcome.incomplete = "an error event";
    outcome.error_code = row.code;
    outcome.error_type = row.type;
    outcome.error_message = row.message;
    const Classification what = Classify(outcome);
    EXPECT_EQ(static_cast<int>(what.verdict), static_cast<int>(row.verdict));
    EXPECT_EQ(what.error_class, row.error_class);
    // Never recorded as an HTTP answer: its status would say success.
    EXPECT_EQ(what.code, row.recorded);
    EXPECT_TRUE(absl::StrContains(what.message, row.message));
  }
}

TEST(ClassifierTest, WordsAreFoundInABodyWithoutAnErrorObject) {
  CallOutcome outcome = Success(400);
  outcome.body = R"({"detail":"This model's maximum context length is 5"})";
  EXPECT_EQ(Classify(outcome).error_class, v1::ERROR_CLASS_CONTEXT_TOO_LONG);
}

TEST(ClassifierTest, LongOrBrokenErrorTextIsCutAndCleaned) {
  CallOutcome outcome = Success(500);
  outcome.error_message = "\xff" + std::string(100'000, 'x');
  const Classification what = Classify(outcome);
  EXPECT_LT(what.message.size(), 1100u);
  EXPECT_FALSE(absl::StrContains(what.message, "\xff"));
}

TEST(ClassifierTest, QuotaIsToldFromOverload) {
  const auto says = [](std::string code, std::string type, std::string message) {
    CallOutcome outcome = Success(429);
    outcome.error_code = std::move(code);
    outcome.error_type = std::move(type);
    outcome.error_message = std::move(message);
    return SaysQuota(outcome);
  };
  EXPECT_TRUE(says("request_quota_exceeded", "too_many_requests_error", ""));
  EXPECT_TRUE(says("token_quota_exceeded", "too_many_tokens_error", ""));
  EXPECT_TRUE(says("rate_limit_exceeded", "tokens", ""));
  EXPECT_TRUE(says("", "rate_limit_error", ""));
  EXPECT_TRUE(says("", "", "Requests per minute limit exceeded"));
  EXPECT_TRUE(says("", "", "Limit 30000 on tokens per min (TPM)"));
  EXPECT_FALSE(
      says("queue_exceeded", "too_many_requests_error", "We're experiencing high traffic"));
  EXPECT_FALSE(says("", "overloaded", "Model is overloaded"));
  EXPECT_FALSE(says("", "", ""));
}

}  // namespace
}  // namespace nightshift
