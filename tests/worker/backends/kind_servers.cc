#include "tests/worker/backends/kind_servers.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;
using Reply = ScriptedServer::Reply;
using Request = ScriptedServer::Request;

const char* const kPieces[] = {"Hel", "lo ", "you"};
constexpr char kText[] = "Hello you";
constexpr char kJsonType[] = "Content-Type: application/json\r\n";

Reply Answer(int status, const std::string& body, const std::string& headers = kJsonType) {
  return {.bytes = ScriptedServer::Response(status, body, headers)};
}
Reply Answer(int status, const Json& body) { return Answer(status, body.dump()); }

std::string Path(const Request& request) {
  const size_t begin = request.head.find(' ') + 1;
  return request.head.substr(begin, request.head.find(' ', begin) - begin);
}

// What a call asks for, whatever the protocol.
struct Asked {
  std::string path;
  Json body;
  bool chat = false;
  bool stream = false;
  bool overload, context, vanish, break_off, cut;
};

Asked Read(const Request& request) {
  Asked asked;
  asked.path = Path(request);
  asked.body = Json::parse(request.body, nullptr, false);
  asked.chat = absl::StrContains(asked.path, "chat");
  asked.stream = asked.body.is_object() && asked.body.value("stream", false);
  const auto says = [&](const char* word) { return absl::StrContains(request.body, word); };
  asked.overload = says("please-overload");
  asked.context = says("please-context");
  asked.vanish = says("please-vanish");
  asked.break_off = says("please-break");
  asked.cut = says("please-cut");
  return asked;
}

std::string Event(const Json& data) { return absl::StrCat("data: ", data.dump(), "\n\n"); }

// A stream of three pieces, made by `piece`, with what the server says before, between and behind.
struct StreamParts {
  std::string before;
  std::string error;  // for please-break
  std::string behind;
};
template <typename PieceOf>
Reply Stream(const Asked& asked, const StreamParts& parts, const PieceOf& piece) {
  std::string text = parts.before + piece(0);
  if (asked.break_off) return {.bytes = ScriptedServer::EventStream(text + parts.error)};
  if (asked.cut) {
    return {.bytes = ScriptedServer::EventStream(text, /*whole=*/false),
            .then = ScriptedServer::Then::kClose};
  }
  text += piece(1);
  text += piece(2);
  return {.bytes = ScriptedServer::EventStream(text + parts.behind)};
}

// --- OpenAI's routes, with what each server adds ------------------------------------------------

struct OpenAiTraits {
  Json models = {{"object", "list"}, {"data", Json::array({{{"id", "m"}, {"object", "model"}}})}};
  Json overload;
  int overload_status = 503;
  // SGLang says HTTP 200 to a stream that it refuses.
  std::string overload_frame;
  Json context;
  int context_status = 400;
  Json vanish;
  Json stream_error;
  Json extra;           // beside `usage`
  std::string comment;  // between frames
  bool empty_first_chunk = false;
  bool done = true;
  std::string headers;
};

Json Usage() { return {{"prompt_tokens", 7}, {"completion_tokens", 3}, {"total_tokens", 10}}; }

Reply OpenAiAnswer(const Asked& asked, const OpenAiTraits& traits) {
  if (asked.overload) {
    if (asked.stream && !traits.overload_frame.empty())
      return {.bytes = ScriptedServer::EventStream(traits.overload_frame + "data: [DONE]\n\n")};
    return Answer(traits.overload_status, traits.overload);
  }
  if (asked.context) return Answer(traits.context_status, traits.context);
  if (asked.vanish) return Answer(404, traits.vanish);
  Json base = {{"id", "c-1"},
               {"object", asked.chat ? "chat.completion" : "text_completion"},
               {"created", 1790000000},
               {"model", "m"}};
  const auto with_account = [&](Json& document) {
    document["usage"] = Usage();
    for (const auto& [key, value] : traits.extra.items()) document[key] = value;
  };
  if (!asked.stream) {
    Json choice = {{"index", 0}};
    if (asked.chat) {
      choice["message"] = {{"role", "assistant"}, {"content", kText}};
    } else {
      choice["text"] = kText;
    }
    choice["finish_reason"] = "stop";
    base["choices"] = Json::array({choice});
    with_account(base);
    return Answer(200, base.dump(), absl::StrCat(kJsonType, traits.headers));
  }
  if (asked.chat) base["object"] = "chat.completion.chunk";
  const auto piece = [&](int number) {
    Json choice = {{"index", 0}};
    if (asked.chat) {
      choice["delta"] = {{"content", kPieces[number]}};
      if (number == 0) choice["delta"] = {{"role", "assistant"}, {"content", kPieces[0]}};
    } else {
      choice["text"] = kPieces[number];
    }
    choice["finish_reason"] = number == 2 ? Json("stop") : Json(nullptr);
    Json chunk = base;
    chunk["choices"] = Json::array({choice});
    return absl::StrCat(traits.comment, Event(chunk));
  };
  StreamParts parts;
  if (traits.empty_first_chunk)
    parts.before = Event({{"id", ""}, {"model", ""}, {"choices", Json::array()}});
  parts.error = Event(traits.stream_error);
  Json account = base;
  account["choices"] = Json::array();
  with_account(account);
  parts.behind = absl::StrCat(Event(account), traits.done ? "data: [DONE]\n\n" : "");
  return Stream(asked, parts, piece);
}

Json OpenAiError(const std::string& message, const std::string& type, const Json& code) {
  return {{"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", code}}}};
}

OpenAiTraits Vllm() {
  OpenAiTraits traits;
  traits.models["data"][0]["owned_by"] = "vllm";
  traits.overload = OpenAiError("too many queued requests", "ServiceUnavailableError", 503);
  traits.context = OpenAiError(
      "This model's maximum context length is 10 tokens. However, you requested 20 tokens",
      "BadRequestError", 400);
  traits.vanish = OpenAiError("The model `x` does not exist.", "NotFoundError", 404);
  traits.stream_error = OpenAiError("engine died", "InternalServerError", 500);
  return traits;
}

OpenAiTraits Cerebras() {
  OpenAiTraits traits = Vllm();
  traits.models["data"][0]["owned_by"] = "Cerebras";
  traits.overload_status = 429;
  traits.overload = {{"message", "We're experiencing high traffic right now!"},
                     {"type", "too_many_requests_error"},
                     {"param", "queue"},
                     {"code", "queue_exceeded"}};
  traits.context = {{"message", "Please reduce the length. Current length is 20 while limit is 10"},
                    {"type", "invalid_request_error"},
                    {"param", "messages"},
                    {"code", "context_length_exceeded"}};
  traits.vanish = {{"message", "Model x does not exist or you do not have access to it."},
                   {"type", "not_found_error"},
                   {"param", "model"},
                   {"code", "model_not_found"}};
  traits.stream_error = {{"error", {{"message", "a node failed"}, {"type", "server_error"}}},
                         {"status_code", 503}};
  traits.extra = {
      {"time_info", {{"queue_time", 0.001}, {"prompt_time", 0.002}, {"completion_time", 0.03}}}};
  return traits;
}

OpenAiTraits SglangOpenAi() {
  OpenAiTraits traits = Vllm();
  traits.models["data"][0]["owned_by"] = "sglang";
  traits.overload = {{"object", "error"}, {"message", "The request queue is full."}, {"code", 503}};
  traits.overload_frame = Event(OpenAiError(
      "Streaming response failed: [503] The request queue is full.", "server_error", nullptr));
  traits.context = {{"object", "error"},
                    {"message",
                     "The input (20 tokens) is longer than the model's context length (10 "
                     "tokens)."},
                    {"type", "BadRequest"},
                    {"code", 400}};
  traits.stream_error = OpenAiError("[503] The request is aborted by a higher priority request.",
                                    "server_error", nullptr);
  return traits;
}

OpenAiTraits LlamaCppOpenAi() {
  OpenAiTraits traits = Vllm();
  traits.models["data"][0]["owned_by"] = "llamacpp";
  traits.overload = {
      {"error", {{"code", 503}, {"message", "Loading model"}, {"type", "unavailable_error"}}}};
  traits.context = {{"error",
                     {{"code", 400},
                      {"message", "the request exceeds the available context size"},
                      {"type", "exceed_context_size_error"}}}};
  traits.stream_error = {
      {"error", {{"code", 500}, {"message", "slot failed"}, {"type", "server_error"}}}};
  traits.extra = {{"timings", {{"cache_n", 2}, {"prompt_ms", 5.5}, {"predicted_ms", 30.25}}}};
  traits.comment = ":\n\n";
  return traits;
}

OpenAiTraits TgiOpenAi() {
  OpenAiTraits traits = Vllm();
  traits.models["data"][0]["owned_by"] = "org/m";
  traits.overload_status = 429;
  traits.overload = {{"error", "Model is overloaded"}, {"error_type", "overloaded"}};
  traits.context_status = 422;
  traits.context = {{"error", "Input validation error: `inputs` must have less than 10 tokens."},
                    {"error_type", "validation"}};
  traits.vanish = {{"error", "model not found"}, {"error_type", "validation"}};
  traits.stream_error = {
      {"error", {{"message", "Request failed during generation"}, {"http_status_code", 424}}}};
  traits.done = false;
  traits.headers = "x-queue-time: 4\r\nx-inference-time: 21\r\n";
  return traits;
}

OpenAiTraits TrtLlm() {
  OpenAiTraits traits = Vllm();
  traits.models["data"][0]["owned_by"] = "tensorrt_llm";
  traits.overload = {{"object", "error"}, {"message", "too busy"}, {"code", 503}};
  traits.context = {{"error", "prompt length 20 exceeds the maximum context length 10"}};
  traits.vanish = {{"object", "error"}, {"message", "model x not found"}, {"code", 404}};
  traits.stream_error = {{"object", "error"}, {"message", "executor failed"}, {"code", 500}};
  return traits;
}

OpenAiTraits Azure() {
  OpenAiTraits traits = Vllm();
  traits.overload_status = 429;
  traits.overload = OpenAiError("Requests have exceeded the call rate limit", "", "429");
  traits.vanish = {{"error",
                    {{"code", "DeploymentNotFound"},
                     {"message", "The API deployment for this resource does not exist."}}}};
  traits.empty_first_chunk = true;
  return traits;
}

OpenAiTraits OllamaOpenAi() {
  OpenAiTraits traits = Vllm();
  traits.models["data"][0]["owned_by"] = "library";
  return traits;
}

// --- the servers' own routes
// -----------------------------------------------------------------------

Reply SglangGenerate(const Asked& asked) {
  if (asked.overload && asked.stream) {
    return {.bytes = ScriptedServer::EventStream(
                Event({{"error", {{"message", "[503] The request queue is full."}}}}))};
  }
  if (asked.overload)
    return Answer(503, Json{{"error", {{"message", "The request queue is full."}}}});
  if (asked.context)
    return Answer(400, Json{{"error", {{"message", "longer than the model's context length"}}}});
  const auto info = [](int tokens, bool last) {
    Json reason = nullptr;
    if (last) reason = {{"type", "stop"}, {"matched", 2}};
    return Json{{"id", "sg-1"},
                {"finish_reason", reason},
                {"prompt_tokens", 7},
                {"completion_tokens", tokens},
                {"cached_tokens", 5}};
  };
  if (!asked.stream) return Answer(200, Json{{"text", kText}, {"meta_info", info(3, true)}});
  std::string so_far;
  return Stream(asked,
                {.before = "",
                 .error = Event({{"error", {{"message", "[503] aborted"}}}}),
                 .behind = "data: [DONE]\n\n"},
                [&](int number) {
                  so_far += kPieces[number];
                  return Event({{"text", so_far}, {"meta_info", info(number + 1, number == 2)}});
                });
}

Reply LlamaCppCompletion(const Asked& asked) {
  if (asked.overload) return Answer(503, LlamaCppOpenAi().overload);
  if (asked.context) return Answer(400, LlamaCppOpenAi().context);
  const Json account = {{"stop", true},
                        {"model", "m"},
                        {"stop_type", "eos"},
                        {"tokens_evaluated", 7},
                        {"tokens_predicted", 3},
                        {"truncated", false},
                        {"timings", {{"cache_n", 5}, {"prompt_ms", 1.5}, {"predicted_ms", 9}}}};
  if (!asked.stream) {
    Json answer = {{"content", kText}};
    answer.update(account);
    return Answer(200, answer);
  }
  Json last = {{"content", ""}};
  last.update(account);
  return Stream(
      asked, {.before = "", .error = Event(LlamaCppOpenAi().stream_error), .behind = Event(last)},
      [](int number) {
        return Event({{"content", kPieces[number]}, {"stop", false}});
      });
}

Reply TgiGenerate(const Asked& asked) {
  if (asked.overload) return Answer(429, TgiOpenAi().overload);
  if (asked.context) return Answer(422, TgiOpenAi().context);
  const Json details = {
      {"finish_reason", "eos_token"}, {"generated_tokens", 3}, {"input_length", 7}};
  if (asked.path == "/generate") {
    return Answer(200, Json{{"generated_text", kText}, {"details", details}}.dump(),
                  absl::StrCat(kJsonType,
                               "x-queue-time: 4\r\nx-inference-time: 21\r\nx-prompt-tokens: 7\r\n"
                               "x-generated-tokens: 3\r\n"));
  }
  return Stream(
      asked,
      {.before = "",
       .error =
           Event({{"error", "Request failed during generation"}, {"error_type", "generation"}}),
       .behind = ""},
      [&](int number) {
        Json frame = {{"index", number + 1},
                      {"token", {{"id", number}, {"text", kPieces[number]}, {"special", false}}},
                      {"generated_text", nullptr},
                      {"details", nullptr}};
        if (number == 2) {
          frame["generated_text"] = kText;
          frame["details"] = details;
        }
        return Event(frame);
      });
}

Reply TritonGenerate(const Asked& asked) {
  if (asked.overload) return Answer(503, Json{{"error", "Exceeds maximum queue size"}});
  if (asked.context) return Answer(400, Json{{"error", "prompt exceeds the maximum input length"}});
  if (asked.vanish)
    return Answer(400, Json{{"error", "Request for unknown model: 'm' is not found"}});
  const auto answer = [](const char* text) {
    return Json{{"id", "1"}, {"model_name", "m"}, {"model_version", "1"}, {"text_output", text}};
  };
  if (absl::EndsWith(asked.path, "/generate")) return Answer(200, answer(kText));
  return Stream(asked,
                {.before = "", .error = Event({{"error", "inference failed"}}), .behind = ""},
                [&](int number) { return Event(answer(kPieces[number])); });
}

Reply OllamaNative(const Asked& asked) {
  if (asked.overload) {
    return Answer(503, Json{{"error",
                             "server busy, please try again.  maximum pending requests "
                             "exceeded"}});
  }
  if (asked.vanish) return Answer(404, Json{{"error", "model 'm' not found"}});
  const auto frame = [&](const std::string& text) {
    Json one = {{"model", "m"}, {"created_at", "2026-11-30T00:00:00Z"}};
    if (asked.chat) {
      one["message"] = {{"role", "assistant"}, {"content", text}};
    } else {
      one["response"] = text;
    }
    one["done"] = false;
    return one;
  };
  const auto finish = [](Json one) {
    one["done"] = true;
    one["done_reason"] = "stop";
    one.update(Json{{"total_duration", 50000000},
                    {"load_duration", 8000000},
                    {"prompt_eval_count", 7},
                    {"prompt_eval_duration", 2500000},
                    {"eval_count", 3},
                    {"eval_duration", 30000000}});
    return one;
  };
  // It streams unless it is told not to.
  if (!asked.body.value("stream", true)) return Answer(200, finish(frame(kText)));
  std::string lines = frame(kPieces[0]).dump() + "\n";
  if (asked.break_off) {
    lines += "{\"error\":\"llama runner process no longer running\"}\n";
  } else if (!asked.cut) {
    lines += absl::StrCat(frame(kPieces[1]).dump(), "\n", frame(kPieces[2]).dump(), "\n",
                          finish(frame("")).dump(), "\n");
  }
  return Answer(200, lines, "Content-Type: application/x-ndjson\r\n");
}

Reply AnthropicMessages(const Asked& asked) {
  const auto error = [](const char* type, const char* message) {
    return Json{{"type", "error"}, {"error", {{"type", type}, {"message", message}}}};
  };
  if (asked.overload) return Answer(529, error("overloaded_error", "Overloaded"));
  if (asked.context)
    return Answer(400,
                  error("invalid_request_error", "prompt is too long: 20 tokens > 10 maximum"));
  if (asked.vanish) return Answer(404, error("not_found_error", "model: m"));
  Json message = {{"id", "msg_1"},
                  {"type", "message"},
                  {"role", "assistant"},
                  {"model", "m"},
                  {"content", Json::array()},
                  {"stop_reason", nullptr},
                  {"stop_sequence", nullptr},
                  {"usage", {{"input_tokens", 7}, {"output_tokens", 1}}}};
  if (!asked.stream) {
    message["content"] = Json::array({{{"type", "text"}, {"text", kText}}});
    message["stop_reason"] = "end_turn";
    message["usage"]["output_tokens"] = 3;
    return Answer(200, message);
  }
  const auto named = [](const Json& data) {
    return absl::StrCat("event: ", data["type"].get<std::string>(), "\n", Event(data));
  };
  return Stream(
      asked,
      {.before = named({{"type", "message_start"}, {"message", message}}) +
                 named({{"type", "content_block_start"},
                        {"index", 0},
                        {"content_block", {{"type", "text"}, {"text", ""}}}}) +
                 named({{"type", "ping"}}),
       .error = named(error("overloaded_error", "Overloaded")),
       .behind = named({{"type", "content_block_stop"}, {"index", 0}}) +
                 named({{"type", "message_delta"},
                        {"delta", {{"stop_reason", "end_turn"}, {"stop_sequence", nullptr}}},
                        {"usage", {{"output_tokens", 3}}}}) +
                 named({{"type", "message_stop"}})},
      [&](int number) {
        return named({{"type", "content_block_delta"},
                      {"index", 0},
                      {"delta", {{"type", "text_delta"}, {"text", kPieces[number]}}}});
      });
}

// --- who is there ------------------------------------------------------------------------------

OpenAiTraits TraitsOf(const std::string& kind) {
  if (kind == "cerebras") return Cerebras();
  if (kind == "sglang") return SglangOpenAi();
  if (kind == "llamacpp") return LlamaCppOpenAi();
  if (kind == "tgi") return TgiOpenAi();
  if (kind == "trtllm") return TrtLlm();
  if (kind == "azure") return Azure();
  if (kind == "ollama") return OllamaOpenAi();
  return Vllm();
}

// What a server says while it loads its model; an empty reply when nothing of the kind.
Reply Loading(const std::string& kind, const std::string& path) {
  if (kind == "triton")
    return path == "/v2/health/ready" ? Answer(400, "", "") : Answer(404, std::string());
  if (kind == "llamacpp") return Answer(503, LlamaCppOpenAi().overload);
  if (kind == "nim" || kind == "vllm" || kind == "trtllm")
    return absl::StrContains(path, "health") ? Answer(503, "", "") : Answer(404, "", "");
  return Answer(503, Json{{"error", {{"message", "starting"}}}});
}

Reply Get(const std::string& kind, const std::string& path) {
  if (kind == "triton") {
    if (path == "/v2/health/ready") return Answer(200, "", "");
    if (path == "/v2") return Answer(200, Json{{"name", "triton"}, {"version", "2.60.0"}});
    return Answer(404, "", "");
  }
  // Its deployments cannot be listed with a key for calling them; its newer routes list models.
  if (kind == "azure") {
    if (path == "/openai/v1/models") return Answer(200, Json{{"data", {{{"id", "m"}}}}});
    return Answer(absl::StartsWith(path, "/openai/models?") ? 200 : 404, std::string("{}"));
  }
  if (path == "/v1/models") return Answer(200, TraitsOf(kind).models);
  if (kind == "ollama" && path == "/api/version") return Answer(200, Json{{"version", "0.12.0"}});
  if (kind == "tgi" && path == "/info") return Answer(200, Json{{"max_concurrent_requests", 128}});
  return Answer(404, "", "");
}

}  // namespace

ScriptedServer::Handler FakeServer(FakeServerOptions options) {
  return [options = std::move(options)](const Request& request) -> Reply {
    const Asked asked = Read(request);
    const std::string& kind = options.kind;
    if (options.loading != nullptr && options.loading->load()) return Loading(kind, asked.path);
    if (absl::StartsWith(request.head, "GET ")) return Get(kind, asked.path);
    if (kind == "triton" && asked.path == "/v2/repository/index") {
      return Answer(200, Json::array({{{"name", "m"}, {"version", "1"}, {"state", "READY"}},
                                      {{"name", "gone"}, {"state", "UNAVAILABLE"}}}));
    }
    if (kind == "triton") return TritonGenerate(asked);
    if (kind == "anthropic") return AnthropicMessages(asked);
    if (kind == "ollama" && absl::StartsWith(asked.path, "/api/")) return OllamaNative(asked);
    if (kind == "sglang" && asked.path == "/generate") return SglangGenerate(asked);
    if (kind == "llamacpp" && asked.path == "/completion") return LlamaCppCompletion(asked);
    if (kind == "tgi" && absl::StartsWith(asked.path, "/generate")) return TgiGenerate(asked);
    return OpenAiAnswer(asked, TraitsOf(kind));
  };
}

}  // namespace nightshift
