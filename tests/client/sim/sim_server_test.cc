#include "client/sim/sim_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tests/client/sim/http_client.h"

namespace nightshift {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kChatPath[] = "/v1/chat/completions";

std::string ChatBody(const std::string& text, const std::string& more = "") {
  std::string quoted;
  AppendJsonString(quoted, text);
  return absl::StrCat(R"({"model":"m","messages":[{"role":"user","content":)", quoted, "}]", more,
                      "}");
}

std::string MarkOf(const std::string& body) {
  return ParseSimRequest(Endpoint::kChatCompletions, body, 0, false)->mark;
}

class SimServerTest : public testing::Test {
 protected:
  void Start() {
    auto server = SimServer::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  HttpAnswer Post(const std::string& body) {
    return HttpClient(server_->port()).Post(kChatPath, body);
  }
  // Waits for something that the server notices by itself.
  template <typename Condition>
  bool Eventually(Condition condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      HttpClient(server_->port()).Get("/health");  // takes its time, so this does not spin
    }
    return false;
  }

  SimServerOptions options_;
  std::unique_ptr<SimServer> server_;
};

TEST_F(SimServerTest, AnswerCarriesTheMarkOfItsRequestAndTheConnectionStays) {
  Start();
  EXPECT_THAT(server_->url(), HasSubstr(absl::StrCat("http://127.0.0.1:", server_->port())));
  HttpClient client(server_->port());
  for (int i = 0; i < 20; ++i) {
    const std::string body = ChatBody(absl::StrCat("question ", i));
    const HttpAnswer answer = client.Post(kChatPath, body);
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.complete);
    EXPECT_TRUE(CheckJson(answer.body).ok());
    EXPECT_THAT(answer.body, HasSubstr("echo:" + MarkOf(body)));
  }
  EXPECT_EQ(server_->stats().answered, 20);
}

TEST_F(SimServerTest, SameRequestAndSeedGiveTheSameBytes) {
  Start();
  const std::string first = Post(ChatBody("hello")).body;
  EXPECT_EQ(Post(ChatBody("hello")).body, first);
  EXPECT_NE(Post(ChatBody("hello2")).body, first);
  server_.reset();
  Start();
  EXPECT_EQ(Post(ChatBody("hello")).body, first);
  server_.reset();
  options_.seed = 2;
  Start();
  EXPECT_NE(Post(ChatBody("hello")).body, first);
}

TEST_F(SimServerTest, EveryEndpointAnswers) {
  Start();
  HttpClient client(server_->port());
  const std::string input = R"({"model":"m","input":"hi"})";
  for (const auto& [path, body] : std::vector<std::pair<std::string, std::string>>{
           {"/v1/chat/completions", ChatBody("hi")},
           {"/v1/completions", R"({"model":"m","prompt":"hi"})"},
           {"/v1/embeddings", input},
           {"/v1/responses", input},
           {"/v1/moderations", input},
           {"/v1/messages", ChatBody("hi", R"(,"max_tokens":5)")},
           {"/v1/rerank", R"({"model":"m","query":"q","documents":["a","b"]})"},
           {"/v1/score", R"({"model":"m","text_1":"q","text_2":["a","b"]})"}}) {
    const HttpAnswer answer = client.Post(path, body);
    EXPECT_EQ(answer.status, 200) << path << answer.body;
    EXPECT_TRUE(CheckJson(answer.body).ok()) << path;
  }
  EXPECT_THAT(client.Get("/v1/models").body, HasSubstr(R"("id":"sim")"));
  EXPECT_EQ(client.Get("/health").status, 200);
  EXPECT_EQ(client.Get("/metrics").status, 404) << "only the gpu profile has gauges";
  EXPECT_EQ(client.Get("/v1/nothing").status, 404);
  EXPECT_EQ(client.Post("/v1/nothing", "{}").status, 404);
}

TEST_F(SimServerTest, StreamHoldsTheSameTextAsTheWholeAnswerWould) {
  Start();
  const std::string body =
      ChatBody("hello", R"(,"stream":true,"stream_options":{"include_usage":true})");
  const HttpAnswer answer = Post(body);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.complete);
  EXPECT_THAT(answer.Header("content-type"), HasSubstr("text/event-stream"));
  EXPECT_THAT(answer.body, AllOf(HasSubstr("echo:" + MarkOf(body)), HasSubstr("\"usage\""),
                                 testing::EndsWith("data: [DONE]\n\n")));
}

TEST_F(SimServerTest, UnusableRequestsAreRefused) {
  options_.models = {"m", "n"};
  options_.context_tokens = 100;
  Start();
  EXPECT_EQ(Post("{").status, 400);
  EXPECT_EQ(Post(R"({"model":"m"})").status, 400);
  const HttpAnswer model = Post(R"({"model":"x","messages":[{"content":"hi"}]})");
  EXPECT_EQ(model.status, 404);
  EXPECT_THAT(model.body, HasSubstr("model_not_found"));
  const HttpAnswer large = Post(ChatBody(std::string(1000, 'x')));
  EXPECT_EQ(large.status, 400);
  EXPECT_THAT(large.body, AllOf(HasSubstr("context_length_exceeded"), HasSubstr("100 tokens")));
  const HttpAnswer stream =
      HttpClient(server_->port())
          .Post("/v1/embeddings", R"({"model":"m","input":"x","stream":true})");
  EXPECT_EQ(stream.status, 400);
}

TEST_F(SimServerTest, KeyIsAskedForWhenSet) {
  options_.api_key = "secret";
  Start();
  HttpClient client(server_->port());
  EXPECT_EQ(client.Post(kChatPath, ChatBody("x")).status, 401);
  EXPECT_EQ(client.Post(kChatPath, ChatBody("x"), "Authorization: Bearer wrong\r\n").status, 401);
  EXPECT_EQ(client.Post(kChatPath, ChatBody("x"), "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(client.Get("/v1/models").status, 401);
  EXPECT_EQ(client.Get("/health").status, 200);
}

TEST_F(SimServerTest, LoadingServerAnswers503) {
  options_.loading = absl::Hours(1);
  Start();
  EXPECT_EQ(Post(ChatBody("x")).status, 503);
  EXPECT_EQ(HttpClient(server_->port()).Get("/health").status, 503);
}

TEST_F(SimServerTest, DirectiveFailsTheFirstCallsOfItsKey) {
  Start();
  const std::string body =
      ChatBody(R"(<<{"key":"a","status":503,"times":2,"headers":{"retry-after":"7"}}>> hello)");
  const HttpAnswer first = Post(body);
  EXPECT_EQ(first.status, 503);
  EXPECT_EQ(first.Header("retry-after"), "7");
  EXPECT_EQ(Post(body).status, 503);
  EXPECT_EQ(Post(body).status, 200);
  EXPECT_EQ(server_->stats().repeats, 2);
}

TEST_F(SimServerTest, DirectivesBreakAnswersAsTold) {
  Start();
  EXPECT_EQ(Post(ChatBody(R"(<<{"drop":"before"}>>)")).status, 0);
  const HttpAnswer mid = Post(ChatBody(R"(<<{"drop":"mid"}>>)"));
  EXPECT_EQ(mid.status, 200);
  EXPECT_FALSE(mid.complete);
  EXPECT_GT(mid.body.size(), 50u);
  EXPECT_THAT(Post(ChatBody(R"(<<{"garbage":true}>>)")).body, HasSubstr("<html>"));
  EXPECT_THAT(Post(ChatBody(R"(<<{"empty":true}>>)")).body, HasSubstr(R"("content":"")"));
  EXPECT_EQ(Post(ChatBody(R"(<<{"status":418,"body":"teapot"}>>)")).body, "teapot");
  const std::string stream = R"(,"stream":true)";
  const HttpAnswer cut = Post(ChatBody(R"(<<{"sse_cut":1}>>)", stream));
  EXPECT_FALSE(cut.complete);
  EXPECT_THAT(cut.body, Not(HasSubstr("[DONE]")));
  const HttpAnswer failed = Post(ChatBody(R"(<<{"sse_error":1}>>)", stream));
  EXPECT_TRUE(failed.complete);
  EXPECT_THAT(failed.body, AllOf(HasSubstr("the engine died"), Not(HasSubstr("[DONE]"))));
  EXPECT_EQ(server_->stats().dropped, 4);
}

TEST_F(SimServerTest, FaultRatesHitTheirShareAndRetriesSucceed) {
  options_.faults.internal = 0.3;
  options_.faults.too_many = 0.2;
  Start();
  HttpClient client(server_->port());
  int internal = 0;
  int too_many = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string body = ChatBody(absl::StrCat("r", i));
    int tries = 0;
    for (int status = 0; status != 200; ++tries) {
      const HttpAnswer answer = client.Post(kChatPath, body);
      status = answer.status;
      internal += status == 500;
      too_many += status == 429;
      EXPECT_EQ(answer.Header("retry-after"), status == 429 ? "1" : "");
      ASSERT_LT(tries, 50);
    }
  }
  EXPECT_NEAR(internal, 120, 50);
  EXPECT_NEAR(too_many, 80, 45);
}

TEST_F(SimServerTest, HangingCallEndsWithItsClientAndIsCounted) {
  options_.faults.hang = 1;
  Start();
  HttpClient client(server_->port());
  client.SendPost(kChatPath, ChatBody("x"));
  EXPECT_TRUE(Eventually([&] { return server_->stats().in_flight == 1; }));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return server_->stats().client_gone == 1; }));
  EXPECT_EQ(server_->stats().in_flight, 0);
}

TEST_F(SimServerTest, StopEndsCallsThatHang) {
  options_.faults.hang = 1;
  Start();
  HttpClient client(server_->port());
  client.SendPost(kChatPath, ChatBody("x"));
  EXPECT_TRUE(Eventually([&] { return server_->stats().in_flight == 1; }));
  server_->Stop();
  EXPECT_EQ(client.Receive().status, 0);
  EXPECT_FALSE(HttpClient(server_->port()).connected());
}

TEST_F(SimServerTest, LatencyIsWaitedFor) {
  options_.latency = absl::Milliseconds(30);
  Start();
  const MonotonicTime begun = Clock::Real().Now();
  EXPECT_EQ(Post(ChatBody("x")).status, 200);
  EXPECT_GE(Clock::Real().Now() - begun, absl::Milliseconds(30));
}

TEST_F(SimServerTest, LogHasOneLinePerCall) {
  options_.log_path = testing::TempDir() + "/sim_server_test_log.jsonl";
  std::filesystem::remove(options_.log_path);
  Start();
  Post(ChatBody("key=alpha"));
  Post(ChatBody(R"(<<{"key":"beta","status":500}>>)"));
  Post("{");
  Post(ChatBody("key=alpha"));
  server_->Stop();
  std::ifstream file(options_.log_path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) EXPECT_TRUE(CheckJson(line).ok()) << line;
  EXPECT_THAT(lines[0], AllOf(HasSubstr(R"("key":"alpha")"), HasSubstr(R"("status":200)")));
  EXPECT_THAT(lines[1], AllOf(HasSubstr(R"("key":"beta")"), HasSubstr(R"("status":500)"),
                              HasSubstr(R"("how":"refused")")));
  EXPECT_THAT(lines[2], HasSubstr(R"("status":400)"));
  EXPECT_THAT(lines[3], HasSubstr(R"("call":2)"));
  std::filesystem::remove(options_.log_path);
}

TEST_F(SimServerTest, ConnectionsBeyondTheMaximumAreTurnedAway) {
  options_.connections_max = 2;
  options_.faults.hang = 1;
  Start();
  HttpClient first(server_->port());
  HttpClient second(server_->port());
  first.SendPost(kChatPath, ChatBody("x"));
  second.SendPost(kChatPath, ChatBody("x"));
  while (server_->stats().in_flight < 2) std::this_thread::yield();
  HttpClient third(server_->port());
  const HttpAnswer answer = third.Receive();
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(answer.complete);
}

TEST_F(SimServerTest, HundredsOfConnectionsAtOnceAreServed) {
  Start();
  constexpr int kConnections = 300;
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < kConnections; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->port()));
    ASSERT_TRUE(clients.back()->connected()) << i;
  }
  for (int i = 0; i < kConnections; ++i) {
    clients[static_cast<size_t>(i)]->SendPost(kChatPath, ChatBody(absl::StrCat(i)));
  }
  for (int i = 0; i < kConnections; ++i) {
    const HttpAnswer answer = clients[static_cast<size_t>(i)]->Receive();
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.body, HasSubstr(MarkOf(ChatBody(absl::StrCat(i)))));
  }
}

TEST_F(SimServerTest, LargeAndChunkedBodiesArriveWhole) {
  Start();
  HttpClient client(server_->port());
  const std::string large = ChatBody(std::string(300000, 'y'));
  EXPECT_THAT(client.Post(kChatPath, large).body, HasSubstr(MarkOf(large)));
  const std::string body = ChatBody("in pieces");
  client.Send(absl::StrCat("POST ", kChatPath, " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"));
  for (const char c : body) client.Send(absl::StrCat("1\r\n", std::string(1, c), "\r\n"));
  client.Send("0\r\n\r\n");
  EXPECT_THAT(client.Receive().body, HasSubstr(MarkOf(body)));
}

TEST_F(SimServerTest, GpuProfileBatchesAndTellsItsGauges) {
  options_.profile = SimProfile::kGpu;
  options_.gpu.slots = 2;
  options_.gpu.step_base = absl::Milliseconds(1);
  options_.reply_tokens = 10;
  Start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const bool stream = t % 2 == 0;
      const std::string body =
          ChatBody(absl::StrCat("call ", t), stream ? R"(,"stream":true)" : "");
      const HttpAnswer answer = Post(body);
      EXPECT_EQ(answer.status, 200);
      EXPECT_TRUE(answer.complete);
      EXPECT_THAT(answer.body, HasSubstr("echo:" + MarkOf(body)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string metrics = HttpClient(server_->port()).Get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("vllm:num_requests_running{engine=\"0\",model_name=\"sim\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("vllm:generation_tokens_total"));
  EXPECT_THAT(metrics, HasSubstr("} 60\n"));
}

TEST_F(SimServerTest, GpuCallWhoseClientHasGoneFreesItsSlot) {
  options_.profile = SimProfile::kGpu;
  options_.gpu.slots = 1;
  options_.gpu.step_base = absl::Milliseconds(1);
  options_.reply_tokens = 1;
  Start();
  HttpClient endless(server_->port());
  endless.SendPost(kChatPath, ChatBody(R"(<<{"tokens":100000}>>)"));
  EXPECT_TRUE(Eventually([&] { return server_->stats().in_flight == 1; }));
  endless.Close();
  EXPECT_EQ(Post(ChatBody("next")).status, 200);
  EXPECT_EQ(server_->stats().client_gone, 1);
}

TEST_F(SimServerTest, GpuQueueBeyondItsMaximumIs503) {
  options_.profile = SimProfile::kGpu;
  options_.gpu.slots = 1;
  options_.gpu.queue_max = 0;
  Start();
  HttpClient endless(server_->port());
  endless.SendPost(kChatPath, ChatBody(R"(<<{"tokens":100000}>>)"));
  EXPECT_TRUE(Eventually([&] { return server_->stats().in_flight == 1; }));
  EXPECT_TRUE(Eventually([&] { return Post(ChatBody("next")).status == 503; }));
}

TEST_F(SimServerTest, CerebrasProfileReservesTokensAndTellsWhatIsLeft) {
  options_.profile = SimProfile::kCerebras;
  options_.cerebras.tokens_per_minute = 1000;
  options_.cerebras.tokens_per_second = 100000;
  options_.reply_tokens = 10;
  Start();
  HttpClient client(server_->port());
  // One token of prompt and 599 of answer are reserved, though ten are used.
  const HttpAnswer answer =
      client.Post(kChatPath, ChatBody("x", R"(,"max_completion_tokens":599)"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, HasSubstr("time_info"));
  EXPECT_EQ(answer.Header("x-ratelimit-limit-tokens-minute"), "1000");
  EXPECT_EQ(answer.Header("x-ratelimit-remaining-tokens-minute"), "400");
  EXPECT_NEAR(strtod(answer.Header("x-ratelimit-reset-tokens-minute").c_str(), nullptr), 36, 0.5);
  const HttpAnswer refused =
      client.Post(kChatPath, ChatBody("y", R"(,"max_completion_tokens":599)"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body,
              AllOf(testing::StartsWith(R"({"message":)"), HasSubstr("token_quota_exceeded")));
  EXPECT_NE(refused.Header("x-ratelimit-remaining-tokens-minute"), "");
  EXPECT_EQ(client.Post(kChatPath, ChatBody("z", R"(,"max_tokens":50)")).status, 200)
      << "a smaller maximum fits into what is left";
  EXPECT_EQ(client.Post(kChatPath, ChatBody("z")).status, 429)
      << "without a maximum, the default is reserved";
}

TEST_F(SimServerTest, CerebrasProfileCanGiveUnusedTokensBack) {
  options_.profile = SimProfile::kCerebras;
  options_.cerebras.tokens_per_minute = 1000;
  options_.cerebras.refund_unused = true;
  options_.reply_tokens = 10;
  Start();
  HttpClient client(server_->port());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.Post(kChatPath, ChatBody("x", R"(,"max_completion_tokens":800)")).status, 200);
  }
}

TEST_F(SimServerTest, CerebrasProfileRefusesTooManyAtOnceAsOverload) {
  options_.profile = SimProfile::kCerebras;
  options_.cerebras.in_flight_max = 1;
  options_.cerebras.tokens_per_second = 1;
  Start();
  HttpClient slow(server_->port());
  slow.SendPost(kChatPath, ChatBody("x"));
  EXPECT_TRUE(Eventually([&] { return server_->stats().in_flight == 1; }));
  const HttpAnswer refused = Post(ChatBody("y"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("queue_exceeded"));
  EXPECT_EQ(refused.Header("x-should-retry"), "false");
}

TEST_F(SimServerTest, StartFailsWithAReason) {
  Start();
  options_.listen = absl::StrCat("127.0.0.1:", server_->port());
  const absl::Status taken = SimServer::Start(options_).status();
  EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
  EXPECT_THAT(std::string(taken.message()), HasSubstr(options_.listen));
  options_.listen = "localhost";
  EXPECT_TRUE(absl::IsInvalidArgument(SimServer::Start(options_).status()));
  options_.listen = "127.0.0.1:0";
  options_.log_path = "/nowhere/at/all";
  EXPECT_TRUE(absl::IsUnavailable(SimServer::Start(options_).status()));
  options_.gpu.slots = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(SimServer::Start(options_).status()));
}

}  // namespace
}  // namespace nightshift
