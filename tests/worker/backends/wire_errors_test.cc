// Error bodies as servers send them, byte for byte, through the reader and the classifier: from the
// wire to what is recorded and done. One row per shape and meaning.
#include <ostream>
#include <string>

#include "gtest/gtest.h"
#include "worker/backends/answer_reader.h"
#include "worker/core/classifier.h"

namespace nightshift {
namespace {

struct WireError {
  const char* name;
  int status;
  const char* body;
  Verdict verdict;
  v1::ErrorClass error_class;
  const char* words;  // the backend's own, which the user must see
};

void PrintTo(const WireError& row, std::ostream* out) { *out << row.name; }

class WireErrorTable : public ::testing::TestWithParam<WireError> {};

TEST_P(WireErrorTable, GivesVerdictClassAndTheBackendsWords) {
  const WireError& row = GetParam();
  AnswerReader reader;
  CallOutcome outcome;
  outcome.transport = Transport::kComplete;
  outcome.http_status = row.status;
  outcome.body = row.body;
  const AnswerFacts facts = reader.Read(Endpoint::kChatCompletions, row.status, outcome.body);
  outcome.body_is_json = facts.is_json;
  outcome.has_answer = facts.has_answer;
  outcome.incomplete = facts.incomplete;
  outcome.error_message = facts.error_message;
  outcome.error_type = facts.error_type;
  outcome.error_code = facts.error_code;
  const Classification what = Classify(outcome);
  EXPECT_EQ(static_cast<int>(what.verdict), static_cast<int>(row.verdict)) << what.message;
  EXPECT_EQ(what.error_class, row.error_class) << what.message;
  EXPECT_NE(what.message.find(row.words), std::string::npos) << what.message;
}

const WireError kRows[] = {
    // Cerebras: flat, FastAPI's, nothing at all, or wrapped by a proxy.
    {"CerebrasTokenQuota", 429,
     R"({"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"})",
     Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED, "Tokens per minute limit exceeded"},
    {"CerebrasQueue", 429,
     R"({"message":"We're experiencing high traffic right now!","type":"too_many_requests_error","param":"queue","code":"queue_exceeded"})",
     Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED, "experiencing high traffic"},
    {"CerebrasContext", 400,
     R"({"message":"Please reduce the length of the messages. Current length is 9000 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"})",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG, "Current length is 9000"},
    {"CerebrasWrongKey", 401,
     R"({"message":"Wrong API Key","type":"invalid_request_error","param":"api_key","code":"wrong_api_key"})",
     Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH, "Wrong API Key"},
    {"CerebrasNoKey", 403, R"({"detail":"Not authenticated"})", Verdict::kRefusedKey,
     v1::ERROR_CLASS_AUTH, "Not authenticated"},
    {"CerebrasBalance", 402, R"({"message":"Payment required","type":"billing","code":"x"})",
     Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH, "Payment required"},
    {"CerebrasModel", 404,
     R"({"message":"Model llama3.1-8b does not exist or you do not have access to it.","type":"not_found_error","param":"model","code":"model_not_found"})",
     Verdict::kRejected, v1::ERROR_CLASS_MODEL_NOT_FOUND, "llama3.1-8b does not exist"},
    {"CerebrasUnknownPath", 404, "", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST, "404"},
    {"CerebrasValidation", 422,
     R"({"detail":[{"loc":["body","messages",0,"role"],"msg":"field required","type":"value_error.missing"}]})",
     Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST, "body.messages.0.role: field required"},
    {"CerebrasWrapped", 429,
     R"({"error":{"message":"Requests per minute limit exceeded","type":"too_many_requests_error","param":"quota","code":"request_quota_exceeded"}})",
     Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED, "Requests per minute"},
    {"CerebrasServer", 503,
     R"({"message":"try later","type":"server_error","param":null,"code":""})", Verdict::kOverload,
     v1::ERROR_CLASS_SERVER_ERROR, "try later"},

    // vLLM: new and old form, codes that are integers.
    {"VllmContext", 400,
     R"({"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}})",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG, "4096 tokens"},
    {"VllmOld", 400,
     R"({"object":"error","message":"temperature must be non-negative","type":"BadRequestError","param":null,"code":400})",
     Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST, "temperature must be non-negative"},
    {"VllmModel", 404,
     R"({"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}})",
     Verdict::kRejected, v1::ERROR_CLASS_MODEL_NOT_FOUND, "`x` does not exist"},
    {"VllmKey", 401, R"({"error":"Unauthorized"})", Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH,
     "Unauthorized"},

    // SGLang: overload as it is, and inside a 200.
    {"SglangFull", 503, R"({"object":"error","message":"The request queue is full.","code":503})",
     Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR, "The request queue is full."},
    {"SglangFullInside", 200,
     R"({"error":{"message":"Streaming response failed: [503] The request queue is full."}})",
     Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR, "[503] The request queue is full."},
    {"SglangContext", 400,
     R"({"object":"error","message":"The input (5000 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequest","code":400})",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG, "5000 tokens"},

    // llama.cpp
    {"LlamaCppLoading", 503,
     R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})",
     Verdict::kUnavailable, v1::ERROR_CLASS_SERVER_ERROR, "Loading model"},
    {"LlamaCppContext", 400,
     R"({"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}})",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG, "available context size"},

    // TGI: strings with a type beside them.
    {"TgiOverloaded", 429, R"({"error":"Model is overloaded","error_type":"overloaded"})",
     Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED, "Model is overloaded"},
    {"TgiContext", 422,
     R"({"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048","error_type":"validation"})",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG, "must be <= 2048"},
    {"TgiGeneration", 424,
     R"({"error":"Request failed during generation: Server error","error_type":"generation"})",
     Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR, "failed during generation"},
    {"TgiIncomplete", 500,
     R"({"error":"Incomplete generation","error_type":"incomplete_generation"})", Verdict::kRetry,
     v1::ERROR_CLASS_SERVER_ERROR, "Incomplete generation"},
    {"TgiInsideAStream", 200,
     R"({"error":{"message":"Input validation error","http_status_code":422}})", Verdict::kRejected,
     v1::ERROR_CLASS_INVALID_REQUEST, "Input validation error"},

    // Triton
    {"TritonUnknownModel", 400, R"({"error":"Request for unknown model: 'x' is not found"})",
     Verdict::kRejected, v1::ERROR_CLASS_MODEL_NOT_FOUND, "'x' is not found"},
    {"TritonFull", 503, R"({"error":"Exceeds maximum queue size"})", Verdict::kOverload,
     v1::ERROR_CLASS_SERVER_ERROR, "Exceeds maximum queue size"},
    {"TritonInsideA200", 200, R"({"error":"failed to run inference"})", Verdict::kRetry,
     v1::ERROR_CLASS_SERVER_ERROR, "failed to run inference"},

    // Ollama
    {"OllamaBusy", 503,
     R"({"error":"server busy, please try again.  maximum pending requests exceeded"})",
     Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR, "server busy"},
    {"OllamaModel", 404, R"({"error":"model 'x' not found"})", Verdict::kRejected,
     v1::ERROR_CLASS_MODEL_NOT_FOUND, "model 'x' not found"},

    // TensorRT-LLM: flat with an integer, or a string.
    {"TrtLlmFlat", 500, R"({"object":"error","message":"executor failed","type":"x","code":500})",
     Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR, "executor failed"},
    {"TrtLlmValidation", 400, R"({"error":"1 validation error for ChatCompletionRequest"})",
     Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST, "1 validation error"},

    // OpenAI and Azure
    {"OpenAiRate", 429,
     R"({"error":{"message":"Rate limit reached","type":"tokens","param":null,"code":"rate_limit_exceeded"}})",
     Verdict::kOverload, v1::ERROR_CLASS_RATE_LIMITED, "Rate limit reached"},
    {"OpenAiMoney", 429,
     R"({"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}})",
     Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH, "You exceeded your current quota"},
    {"AzureFilter", 400,
     R"({"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400}})",
     Verdict::kRejected, v1::ERROR_CLASS_CONTENT_FILTER, "content management policy"},
    {"AzureDeployment", 404,
     R"({"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}})",
     Verdict::kRejected, v1::ERROR_CLASS_MODEL_NOT_FOUND, "does not exist"},

    // Anthropic
    {"AnthropicOverloaded", 529,
     R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})",
     Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR, "Overloaded"},
    {"AnthropicContext", 400,
     R"({"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}})",
     Verdict::kRejected, v1::ERROR_CLASS_CONTEXT_TOO_LONG, "prompt is too long"},
    {"AnthropicCredit", 400,
     R"({"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}})",
     Verdict::kRefusedKey, v1::ERROR_CLASS_AUTH, "credit balance"},

    // What stands in front of servers.
    {"ProxyPage", 502, "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
     Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR, "502 Bad Gateway"},
    {"ProxyText", 504, "upstream request timeout", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR,
     "upstream request timeout"},
    {"ProxyNothing", 503, "", Verdict::kOverload, v1::ERROR_CLASS_SERVER_ERROR, "503"},
    {"ProxyTooLarge", 413, "<html><title>413 Request Entity Too Large</title></html>",
     Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST, "413 Request Entity Too Large"},
    {"ServerTimeout", 408, "", Verdict::kOverload, v1::ERROR_CLASS_TIMEOUT, "408"},
    {"BareString", 400, R"("bad prompt")", Verdict::kRejected, v1::ERROR_CLASS_INVALID_REQUEST,
     "bad prompt"},
    {"BareNumber", 500, "17", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR, "17"},
    {"JsonNull", 500, "null", Verdict::kRetry, v1::ERROR_CLASS_SERVER_ERROR, "500"},
    {"GatewayList", 400, R"({"errors":[{"message":"bad header","code":1000}]})", Verdict::kRejected,
     v1::ERROR_CLASS_INVALID_REQUEST, "bad header"},
};

INSTANTIATE_TEST_SUITE_P(Rows, WireErrorTable, ::testing::ValuesIn(kRows),
                         [](const auto& route) { return std::string(route.param.name); });

}  // namespace
}  // namespace nightshift
