// Streamed calls through the whole loop.
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/backends/loop_fixture.h"
#include "tests/worker/backends/scripted_server.h"
#include "worker/backends/call_slot.h"

namespace nightshift {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using Reply = ScriptedServer::Reply;
using Request = ScriptedServer::Request;
using Then = ScriptedServer::Then;

const std::string kFirst =
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":"
    "{\"role\":\"assistant\",\"content\":\"Hel\"}}]}\n\n";
const std::string kLast =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},"
    "\"finish_reason\":\"stop\"}]}\r\n\r\n"
    "data: "
    "{\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

CallRequest Streamed(std::string body = R"({"model":"m"})") {
  CallRequest request = LoopFixture::Chat(std::move(body));
  request.stream = true;
  return request;
}

std::string Content(const CallOutcome& outcome) {
  return Json::parse(outcome.body)["choices"][0]["message"]["content"].get<std::string>();
}

TEST(EventLoopStreamTest, AnswerIsWholeInEveryChunking) {
  const std::string bytes = ScriptedServer::EventStream(": hi\n\n" + kFirst + kLast + kDone);
  size_t piece = 0;
  ScriptedServer server([&](const Request&) { return Reply{.bytes = bytes, .piece = piece}; });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  for (piece = 1; piece < bytes.size(); piece += 1 + piece / 3) {
    const CallOutcome outcome = fixture.Call(Streamed());
    EXPECT_EQ(outcome.transport, Transport::kComplete) << outcome.transport_detail;
    EXPECT_EQ(outcome.incomplete, "");
    EXPECT_EQ(Content(outcome), "Hello");
    EXPECT_TRUE(outcome.body_is_json);
    EXPECT_TRUE(outcome.has_answer);
    EXPECT_EQ(outcome.finish_reason, "stop");
    EXPECT_EQ(outcome.usage.completion_tokens(), 2);
    EXPECT_GE(outcome.timing.ttft_ms(), 0);
    EXPECT_LE(outcome.timing.ttft_ms(), outcome.timing.latency_ms());
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(EventLoopStreamTest, AStreamThatAProxyHasPackedIsUnpacked) {
  // Two pieces, a finish reason and [DONE].
  const std::string packed = absl::HexStringToBytes(
      "1f8b08000000000002034b492c49b452a8564acec8cf4c4e2d56b25288ae56cacc4b49ad00320d7414945252734a"
      "12"
      "95c04af2f34a52f34a806ca58244a55aa05c5a665e6671467c516a62717e1e503caf3427a736b6968b2b852c5393"
      "b353"
      "5348341761ac810eccd0ea5a1d7413948a4bf20b94908c8876f1f7738de5e20200d0c8fc52ff000000");
  ScriptedServer server([&](const Request&) {
    return Reply{.bytes = ScriptedServer::Response(
                     200, packed, "Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"),
                 .piece = 40};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(Streamed());
  EXPECT_EQ(outcome.incomplete, "");
  EXPECT_EQ(Content(outcome), "packed");
}

TEST(EventLoopStreamTest, OnlyTheStreamMembersOfTheBodyAreSet) {
  ScriptedServer server([&](const Request&) {
    return Reply{.bytes = ScriptedServer::EventStream(kFirst + kLast + kDone)};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  fixture.Call(Streamed(R"({ "model":"m", "x":1e3 })"));
  fixture.Call(Streamed(R"({"stream":false,"model":"m"})"));
  const std::vector<Request> seen = server.requests();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_THAT(seen[0].body, HasSubstr(R"( "model":"m", "x":1e3 })"));
  for (const Request& request : seen) {
    const Json body = Json::parse(request.body);
    EXPECT_EQ(body["stream"], true);
    EXPECT_EQ(body["stream_options"], Json::parse(R"({"include_usage":true})"));
  }
  EXPECT_EQ(seen[1].body.find("\"stream\":", seen[1].body.find("\"stream\":") + 1),
            std::string::npos);
}

TEST(EventLoopStreamTest, OtherEndpointsAreCalledWithoutStreaming) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = ScriptedServer::Response(200, R"({"data":[{"embedding":[1]}]})")};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  CallRequest request = Streamed(R"({"input":"x"})");
  request.endpoint = Endpoint::kEmbeddings;
  const CallOutcome outcome = fixture.Call(std::move(request));
  EXPECT_EQ(server.requests()[0].body, R"({"input":"x"})");
  EXPECT_TRUE(outcome.has_answer);
}

TEST(EventLoopStreamTest, ServerMayAnswerWithoutStreaming) {
  int status = 200;
  ScriptedServer server([&](const Request&) {
    return Reply{.bytes = ScriptedServer::Response(
                     status, status == 200 ? ScriptedServer::ChatAnswer("plain")
                                           : R"({"error":{"message":"busy","code":429}})")};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome plain = fixture.Call(Streamed());
  EXPECT_EQ(plain.body, ScriptedServer::ChatAnswer("plain"));
  EXPECT_EQ(plain.timing.ttft_ms(), -1);
  status = 429;
  const CallOutcome refused = fixture.Call(Streamed());
  EXPECT_EQ(refused.http_status, 429);
  EXPECT_EQ(refused.error_message, "busy");
  EXPECT_EQ(refused.incomplete, "");
}

// Some servers leave the content type out.
TEST(EventLoopStreamTest, StreamIsKnownByItsFirstByteToo) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = "HTTP/1.1 200 OK\r\n\r\n" + kFirst + kLast + kDone,
                 .then = Then::kClose,
                 .piece = 1};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  EXPECT_EQ(Content(fixture.Call(Streamed())), "Hello");
}

TEST(EventLoopStreamTest, ErrorFrameIsAFailureThoughTheStatusIs200) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = ScriptedServer::EventStream(
                     kFirst +
                     "data: {\"error\":{\"message\":\"queue full\",\"type\":\"server_error\"},"
                     "\"status_code\":503}\n\n" +
                     kDone)};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(Streamed());
  EXPECT_EQ(outcome.transport, Transport::kComplete);
  EXPECT_EQ(outcome.http_status, 200);
  EXPECT_EQ(outcome.incomplete, "the stream ended with an error: queue full");
  EXPECT_EQ(outcome.error_code, "503");
  EXPECT_EQ(outcome.error_type, "server_error");
  EXPECT_EQ(Content(outcome), "Hel");
}

TEST(EventLoopStreamTest, ErrorFrameAloneIsTheBody) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes =
                     ScriptedServer::EventStream("data: {\"error\":{\"message\":\"no\"}}\n\n")};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(Streamed());
  EXPECT_EQ(outcome.body, "{\"error\":{\"message\":\"no\"}}");
  EXPECT_THAT(outcome.incomplete, HasSubstr("no"));
}

TEST(EventLoopStreamTest, StreamWithoutItsEndIsIncomplete) {
  ScriptedServer server(
      [](const Request&) { return Reply{.bytes = ScriptedServer::EventStream(kFirst + kLast)}; });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  EXPECT_EQ(fixture.Call(Streamed()).incomplete, "the stream ended without [DONE]");
  BackendSpec tgi = LoopFixture::Spec(server.url());
  tgi.kind = "tgi";
  LoopFixture other({tgi});
  EXPECT_EQ(other.Call(Streamed()).incomplete, "");
}

TEST(EventLoopStreamTest, CutStreamKeepsItsPart) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = ScriptedServer::EventStream(kFirst, /*whole=*/false),
                 .then = Then::kReset};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(Streamed());
  EXPECT_EQ(outcome.transport, Transport::kReset);
  EXPECT_NE(outcome.incomplete, "");
  EXPECT_TRUE(outcome.body_is_partial);
  EXPECT_EQ(Content(outcome), "Hel");
}

// Each piece is seen on its own, at times that the test decides.
TEST(EventLoopStreamTest, TimesBetweenPiecesAreMeasured) {
  const auto delta = [](const std::string& text) {
    return "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + text + "\"}}]}\n\n";
  };
  StreamAssembler assembler({});
  assembler.TakeFrame("", R"({"choices":[{"index":0,"delta":{"role":"assistant"}}]})");
  EXPECT_EQ(assembler.pieces(), 0);
  ScriptedServer server([&](const Request&) {
    return Reply{
        .bytes = ScriptedServer::EventStream(delta("a") + delta("b") + delta("c") + kLast + kDone)};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(Streamed());
  // They came in one read: no time between them that anyone could tell.
  EXPECT_EQ(outcome.timing.gap_mean_ms(), 0);
  EXPECT_EQ(outcome.timing.gap_max_ms(), 0);
  EXPECT_TRUE(outcome.timing.has_connect_ms());
  EXPECT_TRUE(outcome.timing.has_first_byte_ms());
  EXPECT_FALSE(fixture.Call(Streamed()).timing.has_connect_ms());
  EXPECT_FALSE(fixture.Call(LoopFixture::Chat()).timing.has_gap_max_ms());
}

TEST(EventLoopStreamTest, MessagesAndResponsesAreStreamedInTheirOwnForm) {
  Endpoint endpoint = Endpoint::kMessages;
  ScriptedServer server([&](const Request&) {
    return Reply{
        .bytes = ScriptedServer::EventStream(
            endpoint == Endpoint::kMessages
                ? "event: message_start\ndata: "
                  R"({"type":"message_start","message":{"id":"m1","role":"assistant","content":[],"usage":{"input_tokens":5}}})"
                  "\n\nevent: content_block_start\ndata: "
                  R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"
                  "\n\ndata: "
                  R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}})"
                  "\n\ndata: "
                  R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}})"
                  "\n\ndata: {\"type\":\"message_stop\"}\n\n"
                : "data: "
                  R"({"type":"response.completed","response":{"id":"r1","status":"completed","output":[]}})"
                  "\n\n")};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  CallRequest request = Streamed();
  request.endpoint = endpoint;
  const CallOutcome message = fixture.Call(request);
  EXPECT_EQ(message.incomplete, "");
  EXPECT_EQ(message.finish_reason, "end_turn");
  EXPECT_EQ(message.usage.prompt_tokens(), 5);
  EXPECT_EQ(message.usage.completion_tokens(), 2);
  EXPECT_EQ(Json::parse(message.body)["content"][0]["text"], "Hi");
  request.endpoint = endpoint = Endpoint::kResponses;
  EXPECT_EQ(fixture.Call(request).incomplete, "");
  for (const Request& seen : server.requests()) {
    const Json body = Json::parse(seen.body);
    EXPECT_EQ(body["stream"], true);
    EXPECT_FALSE(body.contains("stream_options"));  // these endpoints have no such member
  }
}

// After [DONE] nothing can be missing: a server that forgets to end the response, or cuts the
// connection, has answered all the same.
TEST(EventLoopStreamTest, AnswerIsWholeAfterDoneWhateverFollows) {
  for (const Then then : {Then::kClose, Then::kReset}) {
    ScriptedServer server([then](const Request&) {
      return Reply{.bytes = ScriptedServer::EventStream(kFirst + kLast + kDone, false),
                   .then = then};
    });
    LoopFixture fixture({LoopFixture::Spec(server.url())});
    const CallOutcome outcome = fixture.Call(Streamed());
    // A reset may overtake the bytes that were sent before it.
    if (then == Then::kReset && outcome.transport == Transport::kReset) continue;
    EXPECT_EQ(outcome.transport, Transport::kComplete) << outcome.transport_detail;
    EXPECT_EQ(outcome.incomplete, "");
    EXPECT_EQ(Content(outcome), "Hello");
  }
  FakeClock clock;
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = ScriptedServer::EventStream(kFirst + kLast + kDone, false),
                 .then = Then::kHang};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())}, clock);
  const CallId id = fixture.Start(Streamed());
  server.WaitForSent(1);
  fixture.OnLoop([] {});
  clock.Advance(kStreamTailMax);
  fixture.OnLoop([] {});
  const CallOutcome outcome = fixture.Wait(id);
  EXPECT_EQ(outcome.transport, Transport::kComplete);
  EXPECT_EQ(outcome.incomplete, "");
  EXPECT_EQ(Content(outcome), "Hello");
}

TEST(EventLoopStreamTest, SilentStreamIsCutOff) {
  FakeClock clock;
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = ScriptedServer::EventStream(kFirst, false), .then = Then::kHang};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())}, clock);
  const CallId id = fixture.Start(Streamed());
  server.WaitForSent(1);
  fixture.OnLoop([] {});
  clock.Advance(kStreamIdleMax - absl::Seconds(1));
  fixture.OnLoop([] {});
  fixture.OnLoop([] {});
  EXPECT_EQ(fixture.outcomes(), 0);
  clock.Advance(absl::Seconds(1));
  fixture.OnLoop([] {});
  const CallOutcome outcome = fixture.Wait(id);
  EXPECT_EQ(outcome.transport, Transport::kTimeout);
  EXPECT_EQ(outcome.transport_detail, "no byte for 120 s in the middle of the stream");
  EXPECT_NE(outcome.incomplete, "");
}

TEST(EventLoopStreamTest, EndlessStreamIsCutOff) {
  std::string frames;
  for (int i = 0; i < 100; ++i) {
    frames += "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + std::string(300, 'x') +
              "\"}}]}\n\n";
  }
  ScriptedServer server(
      [&](const Request&) { return Reply{.bytes = ScriptedServer::EventStream(frames + kDone)}; });
  LoopFixture fixture({LoopFixture::Spec(server.url())}, Clock::Real(), 10000);
  EXPECT_EQ(fixture.Call(Streamed()).transport, Transport::kTooLarge);
}

}  // namespace
}  // namespace nightshift
