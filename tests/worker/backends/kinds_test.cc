// Each kind of server, spoken to as it really behaves: streamed and not, well and ill.
#include <atomic>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/backends/kind_servers.h"
#include "tests/worker/backends/loop_fixture.h"
#include "worker/backends/kinds/kind.h"
#include "worker/core/classifier.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const char* NoEnvironment(const char*) { return nullptr; }

// A kind by one of its protocols.
struct Route {
  const char* name;
  const char* kind;
  const char* url_path;  // behind the server's address
  Endpoint endpoint;
  const char* path;         // where a call arrives
  const char* stream_path;  // … and a streamed one
  const char* finish_reason;
  int64_t prompt_tokens = 7;  // -1 = it does not tell
  bool tells_vanished = true;
};

void PrintTo(const Route& route, std::ostream* out) { *out << route.name; }

const Route kRoutes[] = {
    {"Vllm", "vllm", "/v1", Endpoint::kChatCompletions, "/v1/chat/completions",
     "/v1/chat/completions", "stop"},
    {"VllmCompletions", "vllm", "/v1", Endpoint::kCompletions, "/v1/completions", "/v1/completions",
     "stop"},
    {"Cerebras", "cerebras", "/v1", Endpoint::kChatCompletions, "/v1/chat/completions",
     "/v1/chat/completions", "stop"},
    {"Sglang", "sglang", "", Endpoint::kChatCompletions, "/v1/chat/completions",
     "/v1/chat/completions", "stop"},
    {"SglangNative", "sglang", "/generate", Endpoint::kChatCompletions, "/generate", "/generate",
     "stop", 7, false},
    {"LlamaCpp", "llamacpp", "/v1", Endpoint::kChatCompletions, "/v1/chat/completions",
     "/v1/chat/completions", "stop"},
    {"LlamaCppNative", "llamacpp", "/completion", Endpoint::kCompletions, "/completion",
     "/completion", "stop", 7, false},
    {"Tgi", "tgi", "/v1", Endpoint::kChatCompletions, "/v1/chat/completions",
     "/v1/chat/completions", "stop"},
    {"TgiNative", "tgi", "/generate", Endpoint::kChatCompletions, "/generate", "/generate_stream",
     "stop", 7, false},
    {"Triton", "triton", "", Endpoint::kChatCompletions, "/v2/models/m/generate",
     "/v2/models/m/generate_stream", "", -1},
    {"TritonCompletions", "triton", "/v2", Endpoint::kCompletions, "/v2/models/m/generate",
     "/v2/models/m/generate_stream", "", -1},
    {"OllamaChat", "ollama", "", Endpoint::kChatCompletions, "/api/chat", "/api/chat", "stop"},
    {"OllamaGenerate", "ollama", "/api", Endpoint::kCompletions, "/api/generate", "/api/generate",
     "stop"},
    {"OllamaOpenAi", "ollama", "/v1", Endpoint::kChatCompletions, "/v1/chat/completions",
     "/v1/chat/completions", "stop"},
    {"TrtLlm", "trtllm", "/v1", Endpoint::kChatCompletions, "/v1/chat/completions",
     "/v1/chat/completions", "stop"},
    {"Nim", "nim", "/v1", Endpoint::kChatCompletions, "/v1/chat/completions",
     "/v1/chat/completions", "stop"},
    {"Azure", "azure", "", Endpoint::kChatCompletions,
     "/openai/deployments/m/chat/completions?api-version=2024-10-21",
     "/openai/deployments/m/chat/completions?api-version=2024-10-21", "stop"},
    {"Anthropic", "anthropic", "/v1", Endpoint::kMessages, "/v1/messages", "/v1/messages",
     "end_turn"},
};

class KindsTest : public ::testing::TestWithParam<Route> {
 protected:
  KindsTest()
      : server_(FakeServer({.kind = GetParam().kind})),
        fixture_({Spec(absl::StrCat(GetParam().kind, "=", server_.url(), GetParam().url_path))}) {}

  static BackendSpec Spec(const std::string& text) {
    absl::StatusOr<BackendSpec> spec = ParseBackendSpec(text, NoEnvironment);
    NIGHTSHIFT_CHECK(spec.ok(), spec.status().ToString());
    return *std::move(spec);
  }

  CallRequest Ask(const std::string& prompt, bool stream) const {
    Json body = {{"model", "m"}, {"max_tokens", 16}, {"temperature", 0}};
    if (GetParam().endpoint == Endpoint::kCompletions) {
      body["prompt"] = prompt;
    } else {
      body["messages"] = Json::array({{{"role", "user"}, {"content", prompt}}});
    }
    CallRequest request;
    request.endpoint = GetParam().endpoint;
    request.body = body.dump();
    request.stream = stream;
    return request;
  }
  CallOutcome Call(const std::string& prompt, bool stream) {
    return fixture_.Call(Ask(prompt, stream));
  }

  // The answer without what differs between two calls.
  static Json Comparable(const CallOutcome& outcome) {
    Json body = Json::parse(outcome.body, nullptr, false);
    if (body.is_object()) {
      body.erase("id");
      body.erase("created");
    }
    return body;
  }
  static std::string TextOf(const CallOutcome& outcome) {
    const Json body = Json::parse(outcome.body, nullptr, false);
    if (!body.is_object()) return "no object: " + outcome.body;
    if (body.contains("content")) return body["content"][0].value("text", "");
    const Json& choice = body["choices"][0];
    return choice.contains("text") ? choice["text"].get<std::string>()
                                   : choice["message"]["content"].get<std::string>();
  }

  ScriptedServer server_;
  LoopFixture fixture_;
};

TEST_P(KindsTest, AnswersAreReadStreamedAndNot) {
  const Route& route = GetParam();
  const CallOutcome plain = Call("hi", false);
  const CallOutcome streamed = Call("hi", true);
  const std::vector<ScriptedServer::Request> seen = server_.requests();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_THAT(seen[0].head, HasSubstr(absl::StrCat("POST ", route.path, " ")));
  EXPECT_THAT(seen[1].head, HasSubstr(absl::StrCat("POST ", route.stream_path, " ")));
  for (const CallOutcome& outcome : {plain, streamed}) {
    EXPECT_EQ(static_cast<int>(Classify(outcome).verdict), static_cast<int>(Verdict::kAnswered))
        << Classify(outcome).message << outcome.body;
    EXPECT_EQ(TextOf(outcome), "Hello you");
    EXPECT_EQ(outcome.finish_reason, route.finish_reason);
    EXPECT_EQ(outcome.usage.known(), route.prompt_tokens >= 0);
    if (route.prompt_tokens >= 0) {
      EXPECT_EQ(outcome.usage.prompt_tokens(), route.prompt_tokens);
      EXPECT_EQ(outcome.usage.completion_tokens(), 3);
    }
    EXPECT_FALSE(outcome.body_is_partial);
  }
  EXPECT_EQ(Comparable(streamed), Comparable(plain));
  EXPECT_GE(streamed.timing.ttft_ms(), 0);
}

TEST_P(KindsTest, ErrorInsideAStreamIsAFailureWithItsPart) {
  const CallOutcome outcome = Call("please-break", true);
  EXPECT_EQ(outcome.http_status, 200);
  EXPECT_NE(static_cast<int>(Classify(outcome).verdict), static_cast<int>(Verdict::kAnswered));
  EXPECT_NE(static_cast<int>(Classify(outcome).verdict), static_cast<int>(Verdict::kRejected));
  EXPECT_NE(outcome.error_message, "");
  EXPECT_TRUE(outcome.body_is_partial);
  EXPECT_EQ(TextOf(outcome), "Hel");
}

TEST_P(KindsTest, CutStreamIsAFailureWithItsPart) {
  const CallOutcome outcome = Call("please-cut", true);
  EXPECT_EQ(static_cast<int>(Classify(outcome).verdict), static_cast<int>(Verdict::kRetry))
      << outcome.body;
  EXPECT_TRUE(outcome.body_is_partial);
  EXPECT_EQ(TextOf(outcome), "Hel");
}

TEST_P(KindsTest, OverloadUsesUpNoAttempt) {
  for (const bool stream : {false, true}) {
    const Verdict verdict = Classify(Call("please-overload", stream)).verdict;
    // llama.cpp never refuses for load; its 503 says that it loads.
    const bool loads = std::string(GetParam().kind) == "llamacpp";
    EXPECT_EQ(static_cast<int>(verdict),
              static_cast<int>(loads ? Verdict::kUnavailable : Verdict::kOverload))
        << stream;
  }
}

TEST_P(KindsTest, PromptThatIsTooLongIsFinal) {
  if (std::string(GetParam().kind) == "ollama" && GetParam().url_path != std::string("/v1"))
    return;  // it cuts the prompt and says nothing
  const Classification what = Classify(Call("please-context", false));
  EXPECT_EQ(static_cast<int>(what.verdict), static_cast<int>(Verdict::kRejected));
  EXPECT_EQ(what.error_class, v1::ERROR_CLASS_CONTEXT_TOO_LONG) << what.message;
}

TEST_P(KindsTest, MissingModelIsTold) {
  if (!GetParam().tells_vanished) return;  // one model per server, and no name in the request
  const Classification what = Classify(Call("please-vanish", false));
  EXPECT_EQ(what.error_class, v1::ERROR_CLASS_MODEL_NOT_FOUND) << what.message;
}

INSTANTIATE_TEST_SUITE_P(Routes, KindsTest, ::testing::ValuesIn(kRoutes),
                         [](const auto& route) { return std::string(route.param.name); });

// --- what goes out ------------------------------------------------------------------------------

struct Sent {
  ScriptedServer::Request request;
  CallOutcome outcome;
};

Sent Send(const std::string& kind, const std::string& url_path, const std::string& body,
          bool stream = false, Endpoint endpoint = Endpoint::kChatCompletions,
          std::map<std::string, std::string> aliases = {}) {
  ScriptedServer server(FakeServer({.kind = kind}));
  absl::StatusOr<BackendSpec> spec =
      ParseBackendSpec(absl::StrCat(kind, "=", server.url(), url_path), NoEnvironment);
  NIGHTSHIFT_CHECK(spec.ok(), spec.status().ToString());
  spec->api_key = "key-1";
  spec->model_aliases = std::move(aliases);
  LoopFixture fixture({*spec});
  CallRequest request;
  request.endpoint = endpoint;
  request.body = body;
  request.stream = stream;
  Sent sent;
  sent.outcome = fixture.Call(request);
  if (!server.requests().empty()) sent.request = server.requests()[0];
  return sent;
}

constexpr char kChat[] =
    R"({"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Why?"}]}],"max_tokens":5,"temperature":0.5,"stop":"END","seed":7,"n":1,"user":"u"})";

TEST(NativeRequestTest, EachServerIsAskedInItsOwnWords) {
  EXPECT_EQ(Json::parse(Send("triton", "", kChat).request.body), Json::parse(R"({
    "text_input":"Be brief.\n\nWhy?","exclude_input_in_output":true,
    "parameters":{"stream":false,"max_tokens":5,"temperature":0.5,"stop":"END","seed":7}})"));
  EXPECT_EQ(Json::parse(Send("tgi", "/generate", kChat).request.body), Json::parse(R"({
    "inputs":"Be brief.\n\nWhy?","parameters":{"details":true,"max_new_tokens":5,
    "temperature":0.5,"stop":["END"],"seed":7,"do_sample":true}})"));
  EXPECT_EQ(Json::parse(Send("llamacpp", "/completion", kChat, true).request.body), Json::parse(R"({
    "prompt":"Be brief.\n\nWhy?","n_predict":5,"temperature":0.5,"stop":["END"],"seed":7,
    "stream":true})"));
  EXPECT_EQ(Json::parse(Send("ollama", "", kChat).request.body), Json::parse(R"({
    "model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Why?"}],
    "stream":false,"options":{"num_predict":5,"temperature":0.5,"stop":["END"],"seed":7}})"));
  EXPECT_EQ(Json::parse(Send("sglang", "/generate",
                             R"({"prompt":"Why?","max_completion_tokens":5,"top_k":3})", true,
                             Endpoint::kCompletions)
                            .request.body),
            Json::parse(R"({"text":"Why?","sampling_params":{"max_new_tokens":5,"top_k":3},
                        "stream":true})"));
}

TEST(NativeRequestTest, ConversationsAreTextWithTheSpeakersNames) {
  const Sent sent = Send("triton", "", R"({"model":"a b/c","messages":[
    {"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"},
    {"role":"user","content":"Why?"}]})");
  EXPECT_EQ(Json::parse(sent.request.body)["text_input"],
            "User: Hi\n\nAssistant: Hello\n\nUser: Why?\n\nAssistant:");
  EXPECT_THAT(sent.request.head, HasSubstr("POST /v2/models/a%20b%2Fc/generate "));
}

TEST(NativeRequestTest, TgiIsNotAskedForATemperatureOfZero) {
  const Json body = Json::parse(
      Send("tgi", "/generate", R"({"messages":[{"role":"user","content":"x"}],"temperature":0})")
          .request.body);
  EXPECT_FALSE(body["parameters"].contains("temperature"));
  EXPECT_EQ(body["parameters"]["do_sample"], false);
}

// To answer something else than was asked would be worse than not to answer.
TEST(NativeRequestTest, WhatCannotBeToldIsNotSent) {
  struct Case {
    const char* kind;
    const char* url_path;
    Endpoint endpoint;
    const char* body;
    const char* names;
  };
  const Case kCases[] = {
      {"triton", "", Endpoint::kChatCompletions,
       R"({"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]})",
       "tools"},
      {"triton", "", Endpoint::kChatCompletions, R"({"messages":[{"role":"user","content":"x"}]})",
       "model"},
      {"triton", "", Endpoint::kEmbeddings, R"({"model":"m","input":"x"})", "/v1/embeddings"},
      {"sglang", "/generate", Endpoint::kChatCompletions,
       R"({"messages":[{"role":"user","content":"x"}],"n":2})", "n: "},
      {"tgi", "/generate", Endpoint::kChatCompletions,
       R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "text"},
      {"llamacpp", "/completion", Endpoint::kCompletions, R"({"prompt":["a","b"]})", "prompt"},
      {"ollama", "", Endpoint::kChatCompletions,
       R"({"model":"m","messages":[{"role":"user","content":"x"}],"logprobs":true})", "logprobs"},
      {"azure", "", Endpoint::kChatCompletions, R"({"messages":[]})", "model"},
  };
  for (const Case& c : kCases) {
    const Sent sent = Send(c.kind, c.url_path, c.body, false, c.endpoint);
    EXPECT_EQ(sent.outcome.transport, Transport::kNotSent) << c.body;
    EXPECT_EQ(sent.request.head, "") << c.body;
    const Classification what = Classify(sent.outcome);
    EXPECT_EQ(what.error_class, v1::ERROR_CLASS_INVALID_REQUEST);
    EXPECT_THAT(what.message, HasSubstr(c.names));
  }
}

TEST(NativeRequestTest, OtherEndpointsGoToTheOpenAiRoutesWhereThereAreAny) {
  EXPECT_THAT(
      Send("ollama", "", R"({"model":"m","input":"x"})", false, Endpoint::kEmbeddings).request.head,
      HasSubstr("POST /v1/embeddings "));
}

TEST(NativeRequestTest, OllamaToolsAreTranslatedBothWays) {
  ScriptedServer server([](const ScriptedServer::Request&) {
    return ScriptedServer::Reply{
        .bytes = ScriptedServer::Response(
            200,
            R"({"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},"done":false})"
            "\n"
            R"({"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","eval_count":4})"
            "\n",
            "Content-Type: application/x-ndjson\r\n")};
  });
  LoopFixture fixture({*ParseBackendSpec("ollama=" + server.url(), NoEnvironment)});
  CallRequest request = LoopFixture::Chat(
      R"({"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":2}"}}]}],"tools":[{"type":"function"}],"response_format":{"type":"json_object"}})");
  request.stream = true;
  const CallOutcome outcome = fixture.Call(request);
  const Json sent = Json::parse(server.requests()[0].body);
  EXPECT_EQ(sent["messages"][0]["tool_calls"],
            Json::parse(R"([{"function":{"name":"f","arguments":{"a":2}}}])"));
  EXPECT_EQ(sent["format"], "json");
  EXPECT_EQ(outcome.finish_reason, "tool_calls");
  EXPECT_EQ(
      Json::parse(outcome.body)["choices"][0]["message"]["tool_calls"],
      Json::parse(
          R"([{"id":"call_0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}])"));
  EXPECT_EQ(outcome.usage.completion_tokens(), 4);
}

// Frames with all the text so far end in a replacement character where a character is cut in two.
TEST(NativeRequestTest, HalfACharacterIsNotTheText) {
  ScriptedServer server([](const ScriptedServer::Request&) {
    return ScriptedServer::Reply{
        .bytes = ScriptedServer::EventStream(
            "data: {\"text\":\"a\uFFFD\",\"meta_info\":{}}\n\n"
            "data: {\"text\":\"a\u00e9b\",\"meta_info\":{\"finish_reason\":{\"type\":\"length\"}}}"
            "\n\ndata: [DONE]\n\n")};
  });
  LoopFixture fixture({*ParseBackendSpec("sglang=" + server.url() + "/generate", NoEnvironment)});
  CallRequest request = LoopFixture::Chat(kChat);
  request.stream = true;
  const CallOutcome outcome = fixture.Call(request);
  EXPECT_EQ(Json::parse(outcome.body)["choices"][0]["message"]["content"], "a\u00e9b");
  EXPECT_EQ(outcome.finish_reason, "length");
}

TEST(KindHeadersTest, KeysGoWhereEachServerLooksForThem) {
  EXPECT_THAT(Send("vllm", "", kChat).request.head, HasSubstr("Authorization: Bearer key-1\r\n"));
  EXPECT_THAT(Send("azure", "", kChat).request.head, HasSubstr("\r\napi-key: key-1\r\n"));
  const std::string anthropic =
      Send("anthropic", "", kChat, false, Endpoint::kMessages).request.head;
  EXPECT_THAT(anthropic, HasSubstr("\r\nx-api-key: key-1\r\n"));
  EXPECT_THAT(anthropic, HasSubstr("\r\nanthropic-version: 2023-06-01\r\n"));
  for (const std::string& head : {anthropic, Send("azure", "", kChat).request.head})
    EXPECT_FALSE(absl::StrContains(head, "Bearer"));
}

TEST(KindHeadersTest, AliasesNameTheModelAndNothingElseChanges) {
  EXPECT_EQ(Send("vllm", "/v1", R"({ "x":1e3, "model":"a" })", false, Endpoint::kChatCompletions,
                 {{"a", "org/real"}})
                .request.body,
            R"({ "x":1e3, "model":"org/real" })");
  EXPECT_THAT(
      Send("triton", "", kChat, false, Endpoint::kChatCompletions, {{"m", "big"}}).request.head,
      HasSubstr("/v2/models/big/generate"));
}

TEST(KindTimesTest, ServersTellTheirOwn) {
  struct Row {
    const char* kind;
    const char* url_path;
    bool stream;
    double queue, prompt, completion;  // -1 = not told
    int64_t cached;
  };
  for (const Row& row : {
           Row{"cerebras", "", true, 1, 2, 30, 0},
           Row{"cerebras", "", false, 1, 2, 30, 0},
           Row{"llamacpp", "", true, -1, 5.5, 30.25, 2},
           Row{"llamacpp", "/completion", true, -1, 1.5, 9, 5},
           Row{"ollama", "", true, 8, 2.5, 30, 0},
           Row{"ollama", "", false, 8, 2.5, 30, 0},
           Row{"tgi", "/generate", false, 4, -1, 21, 0},
           Row{"tgi", "/v1", false, 4, -1, 21, 0},
           Row{"sglang", "/generate", true, -1, -1, -1, 5},
       }) {
    const CallOutcome outcome = Send(row.kind, row.url_path, kChat, row.stream).outcome;
    const v1::AttemptTiming& timing = outcome.timing;
    const auto told = [](bool has, double value) { return has ? value : -1; };
    EXPECT_EQ(told(timing.has_server_queue_ms(), timing.server_queue_ms()), row.queue) << row.kind;
    EXPECT_EQ(told(timing.has_server_prompt_ms(), timing.server_prompt_ms()), row.prompt);
    EXPECT_EQ(told(timing.has_server_completion_ms(), timing.server_completion_ms()),
              row.completion);
    EXPECT_EQ(outcome.usage.cached_tokens(), row.cached) << row.kind;
  }
}

// --- who is there -------------------------------------------------------------------------------

BackendProbe ProbeOf(const std::string& kind, const std::string& spec_prefix,
                     const std::atomic<bool>* loading = nullptr) {
  ScriptedServer server(FakeServer({.kind = kind, .loading = loading}));
  return ProbeBackend(*ParseBackendSpec(spec_prefix + server.url(), NoEnvironment),
                      absl::Seconds(20));
}

TEST(KindProbeTest, LoadingIsTheServersOwnWord) {
  const std::atomic<bool> loading = true;
  for (const char* kind : {"vllm", "llamacpp", "nim", "trtllm", "triton", "sglang"}) {
    const BackendProbe probe = ProbeOf(kind, absl::StrCat(kind, "="), &loading);
    EXPECT_TRUE(probe.reachable) << kind;
    EXPECT_TRUE(probe.loading) << kind;
  }
}

TEST(KindProbeTest, ModelsAreListed) {
  for (const char* kind :
       {"vllm", "llamacpp", "nim", "trtllm", "triton", "sglang", "ollama", "tgi"}) {
    const BackendProbe probe = ProbeOf(kind, absl::StrCat(kind, "="));
    EXPECT_TRUE(probe.reachable) << kind;
    EXPECT_FALSE(probe.loading) << kind;
    EXPECT_THAT(probe.models, ElementsAre("m")) << kind;
  }
  const BackendProbe azure = ProbeOf("azure", "azure=");
  EXPECT_TRUE(azure.reachable);
  EXPECT_TRUE(azure.models.empty());
}

// Its newer routes list models like everybody's.
TEST(KindProbeTest, AzuresNewerRoutesListModels) {
  ScriptedServer server(FakeServer({.kind = "azure"}));
  const BackendProbe probe = ProbeBackend(
      *ParseBackendSpec(absl::StrCat("azure=", server.url(), "/openai/v1"), NoEnvironment),
      absl::Seconds(20));
  EXPECT_TRUE(probe.reachable);
  EXPECT_THAT(probe.models, ElementsAre("m"));
}

TEST(KindProbeTest, BareUrlFindsOutWhoIsThere) {
  struct Row {
    const char* kind;
    const char* server;
    bool native;
  };
  for (const Row& row : {Row{"vllm", "vLLM", false}, Row{"sglang", "SGLang", false},
                         Row{"llamacpp", "llama.cpp", false}, Row{"tgi", "TGI", false},
                         Row{"ollama", "Ollama", false}, Row{"trtllm", "TensorRT-LLM", false},
                         Row{"cerebras", "Cerebras", false}, Row{"triton", "Triton", true}}) {
    const BackendProbe probe = ProbeOf(row.kind, "");
    EXPECT_EQ(probe.server, row.server);
    EXPECT_EQ(probe.kind, row.kind);
    EXPECT_EQ(probe.native, row.native) << row.kind;
    EXPECT_THAT(probe.models, ElementsAre("m")) << row.kind;
  }
}

TEST(KindProbeTest, WhatWasFoundIsHowItIsSpokenTo) {
  ScriptedServer server(FakeServer({.kind = "triton"}));
  LoopFixture fixture({*ParseBackendSpec(server.url(), NoEnvironment)});
  fixture.OnLoop([&] { fixture.loop().SetDetected(0, "triton", true); });
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat(kChat));
  EXPECT_TRUE(outcome.has_answer);
  EXPECT_THAT(server.requests()[0].head, HasSubstr("/v2/models/m/generate "));
}

TEST(KindProbeTest, AliasesAreModelsToo) {
  ScriptedServer server(FakeServer({.kind = "vllm"}));
  BackendSpec spec = *ParseBackendSpec("vllm=" + server.url(), NoEnvironment);
  spec.model_aliases = {{"small", "m"}, {"large", "absent"}};
  EXPECT_THAT(ProbeBackend(spec, absl::Seconds(20)).models, ElementsAre("m", "small"));
}

}  // namespace
}  // namespace nightshift
