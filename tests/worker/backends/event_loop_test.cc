// The event loop against a server on loopback that does what each test wants.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/backends/loop_fixture.h"
#include "tests/worker/backends/scripted_server.h"
#include "worker/backends/call_slot.h"

namespace nightshift {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Reply = ScriptedServer::Reply;
using Request = ScriptedServer::Request;
using Then = ScriptedServer::Then;

Reply Whole(const std::string& content = "x") {
  return {.bytes = ScriptedServer::Response(200, ScriptedServer::ChatAnswer(content))};
}
Reply Held() {
  Reply reply = Whole();
  reply.hold = true;
  return reply;
}

TEST(EventLoopTest, BodyReachesTheBackendByteForByte) {
  ScriptedServer server([](const Request&) { return Whole(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  std::string large =
      "{\"b\" : 1e3, \"a\":\t[0.10, 12345678901234567890], \"e\":\"\\u00e4\xC3\xA4\\/\"";
  large += ",\"pad\":\"" + std::string(300000, 'p') + "\"}";
  const std::vector<std::string> bodies = {"{ \"z\":1,\"a\":2 }", large};
  for (const std::string& body : bodies) {
    EXPECT_EQ(fixture.Call(LoopFixture::Chat(body)).transport, Transport::kComplete);
  }
  const std::vector<Request> seen = server.requests();
  ASSERT_EQ(seen.size(), 2u);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].body, bodies[i]);
    EXPECT_THAT(seen[i].head, StartsWith("POST /v1/chat/completions HTTP/1.1\r\n"));
    const std::string head = absl::AsciiStrToLower(seen[i].head);
    EXPECT_THAT(head, HasSubstr("\r\ncontent-type: application/json\r\n"));
    EXPECT_THAT(head, HasSubstr("\r\nuser-agent: nightshift/"));
    EXPECT_THAT(head, Not(HasSubstr("expect:")));
    EXPECT_THAT(head, Not(HasSubstr("accept-encoding:")));
    EXPECT_THAT(head, Not(HasSubstr("authorization:")));
  }
}

TEST(EventLoopTest, KeyIsSentToItsOwnBackendOnly) {
  ScriptedServer with([](const Request&) { return Whole(); });
  ScriptedServer without([](const Request&) { return Whole(); });
  BackendSpec keyed = LoopFixture::Spec(with.url());
  keyed.api_key = "k-1";
  LoopFixture fixture({keyed, LoopFixture::Spec(without.url())});
  CallRequest second = LoopFixture::Chat();
  second.backend = 1;
  fixture.Call(LoopFixture::Chat());
  fixture.Call(std::move(second));
  EXPECT_THAT(with.requests()[0].head, HasSubstr("\r\nAuthorization: Bearer k-1\r\n"));
  EXPECT_THAT(without.requests()[0].head, Not(HasSubstr("Authorization")));
}

TEST(EventLoopTest, EveryEndpointHasItsPath) {
  ScriptedServer server([](const Request&) { return Whole(); });
  LoopFixture fixture({LoopFixture::Spec(server.url() + "/base")});
  CallRequest request = LoopFixture::Chat();
  request.endpoint = Endpoint::kEmbeddings;
  fixture.Call(request);
  request.endpoint = Endpoint::kChatCompletions;
  fixture.Call(request);
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_THAT(server.requests()[0].head, StartsWith("POST /base/v1/embeddings "));
  EXPECT_THAT(server.requests()[1].head, StartsWith("POST /base/v1/chat/completions "));
  EXPECT_EQ(server.connections(), 1);
}

TEST(EventLoopTest, AnswerIsReadAndKeptOnOneLine) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = ScriptedServer::Response(
                     200,
                     "{\n \"choices\":[{\"message\":{\"content\":\"4\"},\r\n"
                     "\"finish_reason\":\"length\"}],\n\"usage\":{\"prompt_tokens\":1000000,"
                     "\"completion_tokens\":500000}}\n",
                     "Content-Type: application/json\r\nX-Request-Id: req-7\r\n")};
  });
  BackendSpec spec = LoopFixture::Spec(server.url());
  spec.price_prompt_per_million = 1;
  spec.price_completion_per_million = 4;
  LoopFixture fixture({spec});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.transport, Transport::kComplete);
  EXPECT_EQ(outcome.transport_detail, "");
  EXPECT_EQ(outcome.http_status, 200);
  EXPECT_TRUE(outcome.body_is_json);
  EXPECT_EQ(outcome.body,
            "{  \"choices\":[{\"message\":{\"content\":\"4\"},  \"finish_reason\":\"length\"}], "
            "\"usage\":{\"prompt_tokens\":1000000,\"completion_tokens\":500000}} ");
  EXPECT_EQ(outcome.request_id, "req-7");
  EXPECT_EQ(outcome.finish_reason, "length");
  EXPECT_TRUE(outcome.has_answer);
  EXPECT_FALSE(outcome.empty_answer);
  EXPECT_TRUE(outcome.usage.known());
  EXPECT_EQ(outcome.usage.prompt_tokens(), 1000000);
  EXPECT_TRUE(outcome.usage.cost_known());
  EXPECT_DOUBLE_EQ(outcome.usage.cost_usd(), 3);
  EXPECT_EQ(outcome.timing.ttft_ms(), -1);
  EXPECT_GE(outcome.timing.latency_ms(), 0);
  EXPECT_GT(outcome.timing.started_unix_ms(), 1600000000000);
}

TEST(EventLoopTest, RequestIdIsMadeWhereTheBackendGivesNone) {
  ScriptedServer server([](const Request&) { return Whole(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const std::string first = fixture.Call(LoopFixture::Chat()).request_id;
  const std::string second = fixture.Call(LoopFixture::Chat()).request_id;
  EXPECT_THAT(first, ::testing::MatchesRegex("req_[0-9a-f]+"));
  EXPECT_NE(first, second);
}

TEST(EventLoopTest, RefusalsKeepTheBackendsWords) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = ScriptedServer::Response(
                     429, R"({"message":"slow down","type":"too_many","code":"queue_exceeded"})",
                     "Content-Type: application/json\r\nRetry-After: 3\r\n")};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.transport, Transport::kComplete);
  EXPECT_EQ(outcome.http_status, 429);
  EXPECT_EQ(outcome.retry_after, absl::Seconds(3));
  EXPECT_EQ(outcome.error_message, "slow down");
  EXPECT_EQ(outcome.error_type, "too_many");
  EXPECT_EQ(outcome.error_code, "queue_exceeded");
  EXPECT_FALSE(outcome.has_answer);
}

TEST(EventLoopTest, RedirectsAreReportedAndNotFollowed) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = ScriptedServer::Response(307, "", "Location: https://other/v1\r\n")};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.http_status, 307);
  EXPECT_THAT(outcome.error_message, HasSubstr("https://other/v1"));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(EventLoopTest, InterimResponsesAndChunksAreHttpToo) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes =
                     "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n8\r\n{\"choice\r\n"
                     "27\r\ns\":[{\"message\":{\"content\":\"chunked\"}}]}\r\n0\r\n\r\n",
                 .piece = 1};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.transport, Transport::kComplete) << outcome.transport_detail;
  EXPECT_EQ(outcome.http_status, 200);
  EXPECT_EQ(outcome.body, R"({"choices":[{"message":{"content":"chunked"}}]})");
}

TEST(EventLoopTest, CallsInARowShareOneConnection) {
  ScriptedServer server([](const Request&) { return Whole(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kComplete);
  EXPECT_EQ(server.connections(), 1);
}

// All are in flight at once, more than one multi handle's worth, and each gets its own answer.
TEST(EventLoopTest, HoldsHundredsOfCallsAtOnce) {
  constexpr int kCalls = 500;
  ScriptedServer server([](const Request& request) {
    Reply reply = {.bytes = ScriptedServer::Response(200, request.body)};
    reply.hold = true;
    return reply;
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  std::vector<CallId> ids;
  for (int i = 0; i < kCalls; ++i)
    ids.push_back(fixture.Start(LoopFixture::Chat(absl::StrCat("{\"n\":", i, "}"))));
  server.WaitForHeld(kCalls);
  EXPECT_EQ(fixture.outcomes(), 0);
  server.Release();
  for (int i = 0; i < kCalls; ++i) {
    const CallOutcome outcome = fixture.Wait(ids[i]);
    EXPECT_EQ(outcome.transport, Transport::kComplete) << outcome.transport_detail;
    EXPECT_EQ(outcome.body, absl::StrCat("{\"n\":", i, "}"));
  }
  // And once more over the connections that are there now.
  for (int i = 0; i < kCalls; ++i) ids[i] = fixture.Start(LoopFixture::Chat());
  for (int i = 0; i < kCalls; ++i) EXPECT_EQ(fixture.Wait(ids[i]).transport, Transport::kComplete);
  EXPECT_EQ(server.connections(), kCalls);
}

// --- what goes wrong on the way -----------------------------------------------------------------

TEST(EventLoopTest, RefusedConnectionSaysSo) {
  std::string url;
  {
    ScriptedServer gone([](const Request&) { return Whole(); });
    url = gone.url();
  }
  LoopFixture fixture({LoopFixture::Spec(url)});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.transport, Transport::kConnectFailed);
  EXPECT_EQ(outcome.transport_detail, "connection refused");
  EXPECT_EQ(outcome.http_status, 0);
}

// A listener whose queue is full answers no further connection.
TEST(EventLoopTest, ConnectionThatIsNotMadeInTimeSaysSo) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  socklen_t length = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  std::vector<int> fillers;
  for (bool full = false; !full;) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    fillers.push_back(fd);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) continue;
    pollfd wait = {fd, POLLOUT, 0};
    full = poll(&wait, 1, 100) == 0;
  }
  BackendSpec spec = LoopFixture::Spec(absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port)));
  spec.connect_timeout = absl::Milliseconds(50);
  LoopFixture fixture({spec});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.transport, Transport::kConnectFailed);
  EXPECT_EQ(outcome.transport_detail, "no connection within 0.05 s");
  for (const int fd : fillers) close(fd);
  close(listener);
}

TEST(EventLoopTest, AnswerCutInTheMiddleIsAReset) {
  for (const Then then : {Then::kClose, Then::kReset}) {
    ScriptedServer server([then](const Request&) {
      return Reply{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"choices\"",
                   .then = then};
    });
    LoopFixture fixture({LoopFixture::Spec(server.url())});
    const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
    EXPECT_EQ(outcome.transport, Transport::kReset);
    EXPECT_THAT(outcome.transport_detail, HasSubstr("of 100 bytes of the answer"));
    EXPECT_FALSE(outcome.has_answer);
  }
}

TEST(EventLoopTest, ConnectionClosedWithoutAnAnswerIsAReset) {
  ScriptedServer server([](const Request&) { return Reply{.bytes = "", .then = Then::kClose}; });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.transport, Transport::kReset);
  EXPECT_EQ(outcome.transport_detail, "the server closed the connection without an answer");
}

// The server closes an idle connection in the very moment in which it is used again.
TEST(EventLoopTest, ConnectionThatDiesOnReuseCostsNothing) {
  ScriptedServer server([](const Request& request) {
    if (request.number_on_connection > 0) return Reply{.bytes = "", .then = Then::kReset};
    return Whole();
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  for (int i = 0; i < 3; ++i) {
    const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
    EXPECT_EQ(outcome.transport, Transport::kComplete) << outcome.transport_detail;
  }
}

// After a restart of the server every pooled connection is dead. Whatever libcurl makes of it, a
// call is either answered or told apart from a failure of the backend, and then goes through.
TEST(EventLoopTest, PoolOfDeadConnectionsDoesNotLookLikeABrokenBackend) {
  constexpr int kPool = 20;
  std::atomic<bool> reuse_allowed{true};
  ScriptedServer server([&](const Request& request) {
    if (!reuse_allowed && request.number_on_connection > 0)
      return Reply{.bytes = "", .then = Then::kClose};
    return reuse_allowed ? Held() : Whole();
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  std::vector<CallId> ids;
  for (int i = 0; i < kPool; ++i) ids.push_back(fixture.Start(LoopFixture::Chat()));
  server.WaitForHeld(kPool);
  server.Release();
  for (const CallId id : ids) fixture.Wait(id);
  reuse_allowed = false;
  for (int i = 0; i < kPool; ++i) {
    CallOutcome outcome = fixture.Call(LoopFixture::Chat());
    EXPECT_THAT(outcome.transport, AnyOf(Transport::kComplete, Transport::kStaleConnection))
        << outcome.transport_detail;
    if (outcome.transport == Transport::kStaleConnection)
      outcome = fixture.Call(LoopFixture::Chat());
    EXPECT_EQ(outcome.transport, Transport::kComplete) << outcome.transport_detail;
  }
}

TEST(EventLoopTest, ConnectionsThatTheServerClosedMeanwhileAreNotUsed) {
  ScriptedServer server([](const Request&) {
    Reply reply = Whole();
    reply.then = Then::kClose;  // without saying so in the headers
    return reply;
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kComplete);
    server.WaitForClosed(i + 1);  // a call that overtakes the close is another case
  }
}

TEST(EventLoopTest, AnswerPastTheBoundIsCutOff) {
  const std::string body = ScriptedServer::ChatAnswer(std::string(2000, 'x'));
  for (const bool told : {true, false}) {
    ScriptedServer server([&](const Request&) {
      return Reply{
          .bytes = told ? ScriptedServer::Response(200, body) : "HTTP/1.1 200 OK\r\n\r\n" + body,
          .then = told ? Then::kKeep : Then::kClose};
    });
    LoopFixture fixture({LoopFixture::Spec(server.url())}, Clock::Real(), 1024);
    const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
    EXPECT_EQ(outcome.transport, Transport::kTooLarge);
    EXPECT_THAT(outcome.transport_detail, HasSubstr("1.0 KiB"));
    EXPECT_EQ(outcome.body, "");
  }
}

TEST(EventLoopTest, AnswerThatIsNotHttpSaysSo) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = "SSH-2.0-OpenSSH_9.2\r\n", .then = Then::kClose};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.transport, Transport::kBadProtocol) << outcome.transport_detail;
  EXPECT_THAT(outcome.transport_detail, StartsWith("not HTTP"));
}

TEST(EventLoopTest, PlainServerBehindHttpsIsATlsFailure) {
  ScriptedServer server([](const Request&) { return Whole(); },
                        {.greeting = "HTTP/1.1 400 Bad Request\r\n\r\n"});
  LoopFixture fixture({LoopFixture::Spec(absl::StrCat("https://127.0.0.1:", server.port()))});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.transport, Transport::kTlsFailed) << outcome.transport_detail;
}

// A handshake that hangs is part of connecting.
TEST(EventLoopTest, TlsHandshakeIsBoundedByTheConnectTimeout) {
  ScriptedServer server([](const Request&) { return Whole(); });
  BackendSpec spec = LoopFixture::Spec(absl::StrCat("https://127.0.0.1:", server.port()));
  spec.connect_timeout = absl::Milliseconds(50);
  LoopFixture fixture({spec});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.transport, Transport::kConnectFailed);
  EXPECT_EQ(outcome.transport_detail, "no connection within 0.05 s");
}

// Proxies of the environment do not know this machine's loopback.
TEST(EventLoopTest, LoopbackIsNeverCalledThroughAProxy) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  setenv("all_proxy", "http://127.0.0.1:1", 1);
  {
    ScriptedServer server([](const Request&) { return Whole(); });
    LoopFixture fixture({LoopFixture::Spec(server.url())});
    EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kComplete);
  }
  unsetenv("http_proxy");
  unsetenv("all_proxy");
}

// --- timers
// ---------------------------------------------------------------------------------------

TEST(EventLoopTimerTest, WholeCallIsBoundedByTheBackendsTimeout) {
  FakeClock clock;
  ScriptedServer server([](const Request&) { return Held(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())}, clock);
  const CallId id = fixture.Start(LoopFixture::Chat());
  server.WaitForHeld(1);
  clock.Advance(absl::Seconds(599));
  fixture.OnLoop([] {});
  fixture.OnLoop([] {});
  EXPECT_EQ(fixture.outcomes(), 0);
  clock.Advance(absl::Seconds(1));
  fixture.OnLoop([] {});
  const CallOutcome outcome = fixture.Wait(id);
  EXPECT_EQ(outcome.transport, Transport::kTimeout);
  EXPECT_EQ(outcome.transport_detail, "no answer within 600 s");
  EXPECT_EQ(outcome.timing.latency_ms(), 600000);
  server.WaitForClosedByPeer(1);  // the backend must stop working for nobody
}

TEST(EventLoopTimerTest, RequestsOwnTimeoutComesFirst) {
  FakeClock clock;
  ScriptedServer server([](const Request&) { return Held(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())}, clock);
  CallRequest request = LoopFixture::Chat();
  request.timeout = absl::Milliseconds(2500);
  const CallId id = fixture.Start(std::move(request));
  server.WaitForHeld(1);
  clock.Advance(absl::Milliseconds(2500));
  fixture.OnLoop([] {});
  EXPECT_EQ(fixture.Wait(id).transport_detail, "no answer within 2.5 s");
}

// With the real clock nothing but the timer itself wakes the loop.
TEST(EventLoopTimerTest, TimeoutWakesTheLoopByItself) {
  ScriptedServer server([](const Request&) { return Held(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  CallRequest request = LoopFixture::Chat();
  request.timeout = absl::Milliseconds(30);
  const CallOutcome outcome = fixture.Call(std::move(request));
  EXPECT_EQ(outcome.transport, Transport::kTimeout);
  EXPECT_GE(outcome.timing.latency_ms(), 30);
}

// An answer that is not streamed may pause: a proxy sends the headers, the model thinks.
TEST(EventLoopTimerTest, HalfAnAnswerIsBoundedByTheWholeCallOnly) {
  FakeClock clock;
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", .then = Then::kHang};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())}, clock);
  const CallId id = fixture.Start(LoopFixture::Chat());
  server.WaitForSent(1);
  fixture.OnLoop([] {});
  clock.Advance(absl::Seconds(599));
  fixture.OnLoop([] {});
  fixture.OnLoop([] {});
  EXPECT_EQ(fixture.outcomes(), 0);
  clock.Advance(absl::Seconds(1));
  fixture.OnLoop([] {});
  const CallOutcome outcome = fixture.Wait(id);
  EXPECT_EQ(outcome.transport, Transport::kTimeout);
  EXPECT_EQ(outcome.transport_detail, "the answer was not whole within 600 s");
}

TEST(EventLoopTimerTest, ServerThatTakesNoBytesIsCutOff) {
  FakeClock clock;
  ScriptedServer server([](const Request&) { return Whole(); }, {.reads = false});
  LoopFixture fixture({LoopFixture::Spec(server.url())}, clock);
  const CallId id =
      fixture.Start(LoopFixture::Chat("{\"x\":\"" + std::string(32 << 20, 'x') + "\"}"));
  server.WaitForConnections(1);
  absl::Duration waited = absl::ZeroDuration();
  while (fixture.outcomes() == 0) {
    clock.Advance(kWriteCheckInterval);
    waited += kWriteCheckInterval;
    fixture.OnLoop([] {});
    fixture.OnLoop([] {});
  }
  const CallOutcome outcome = fixture.Wait(id);
  EXPECT_EQ(outcome.transport, Transport::kSendFailed) << outcome.transport_detail;
  EXPECT_THAT(outcome.transport_detail, HasSubstr("took no byte of the request for 60 s"));
  EXPECT_GE(waited, kWriteStallMax);
}

// --- giving up
// ------------------------------------------------------------------------------------

TEST(EventLoopAbortTest, AbortClosesTheConnectionAndTellsSoon) {
  ScriptedServer server([](const Request&) { return Held(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallId id = fixture.Start(LoopFixture::Chat());
  server.WaitForHeld(1);
  fixture.OnLoop([&] {
    fixture.loop().Abort(id);
    EXPECT_EQ(fixture.outcomes(), 0);  // never from inside Abort
    fixture.loop().Abort(id);          // known no more
    fixture.loop().Abort(12345);
  });
  EXPECT_EQ(fixture.Wait(id).transport, Transport::kAborted);
  server.WaitForClosedByPeer(1);
  server.Release();
  EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kComplete);
  EXPECT_EQ(fixture.outcomes(), 2);
}

TEST(EventLoopAbortTest, CallAbortedBeforeItWentOutIsToldToo) {
  ScriptedServer server([](const Request&) { return Whole(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  fixture.OnLoop([&] {
    CallRequest request = LoopFixture::Chat();
    request.id = 77;
    fixture.loop().Start(std::move(request));
    fixture.loop().Abort(77);
  });
  EXPECT_EQ(fixture.Wait(77).transport, Transport::kAborted);
}

// Outcomes are handed out while others are in flight: starting and aborting from there is normal.
TEST(EventLoopAbortTest, OutcomesMayStartAndAbortOtherCalls) {
  ScriptedServer server(
      [](const Request& request) { return request.body == "{}" ? Whole() : Held(); });
  auto loop = EventLoop::Create({.backends = {LoopFixture::Spec(server.url())}}, Clock::Real());
  ASSERT_TRUE(loop.ok());
  std::vector<std::string> seen;
  const auto start = [&](CallId id, const std::string& body) {
    CallRequest request = LoopFixture::Chat(body);
    request.id = id;
    (*loop)->Start(std::move(request));
  };
  (*loop)->SetOnFinished([&](const CallOutcome& outcome) {
    seen.push_back(absl::StrCat(outcome.id, outcome.transport == Transport::kAborted ? "a" : ""));
    if (outcome.id == 2) {
      (*loop)->Abort(1);
      start(3, "{}");
    }
    if (outcome.id == 3) (*loop)->Stop();
  });
  (*loop)->Post([&] {
    start(1, "{\"held\":true}");
    start(2, "{}");
  });
  (*loop)->Run();
  EXPECT_THAT(seen, ElementsAre("2", "1a", "3"));
}

TEST(EventLoopAbortTest, StopDropsWhatIsInFlight) {
  ScriptedServer server([](const Request&) { return Held(); });
  int outcomes = 0;
  {
    auto loop = EventLoop::Create({.backends = {LoopFixture::Spec(server.url())}}, Clock::Real());
    ASSERT_TRUE(loop.ok());
    (*loop)->SetOnFinished([&](const CallOutcome&) { ++outcomes; });
    (*loop)->Post([&] {
      for (CallId id = 1; id <= 100; ++id) {
        CallRequest request = LoopFixture::Chat();
        request.id = id;
        (*loop)->Start(std::move(request));
      }
    });
    std::thread runner([&] { (*loop)->Run(); });
    server.WaitForHeld(100);
    (*loop)->Stop();
    runner.join();
  }
  EXPECT_EQ(outcomes, 0);
  server.WaitForClosedByPeer(100);
}

// --- the owner's timer and tasks
// ------------------------------------------------------------------

TEST(EventLoopOwnerTest, TimerRunsWhenItWantsToAndAfterEveryRound) {
  auto loop = EventLoop::Create({}, Clock::Real());
  ASSERT_TRUE(loop.ok());
  int by_time = 0;
  int by_task = 0;
  bool posted = false;
  (*loop)->SetOnTimer([&] {
    if (posted) {
      ++by_task;
      (*loop)->Stop();
      return MonotonicTime::Infinite();
    }
    if (++by_time < 5) return Clock::Real().Now() + absl::Milliseconds(1);
    (*loop)->Post([&] { posted = true; });
    return MonotonicTime::Infinite();
  });
  (*loop)->Run();
  EXPECT_EQ(by_time, 5);
  EXPECT_EQ(by_task, 1);
}

TEST(EventLoopOwnerTest, CallsStartedByTheTimerGoOutAtOnce) {
  ScriptedServer server([](const Request&) { return Whole(); });
  auto loop = EventLoop::Create({.backends = {LoopFixture::Spec(server.url())}}, Clock::Real());
  ASSERT_TRUE(loop.ok());
  bool started = false;
  (*loop)->SetOnTimer([&] {
    if (!started) {
      CallRequest request = LoopFixture::Chat();
      request.id = 1;
      (*loop)->Start(std::move(request));
    }
    started = true;
    return MonotonicTime::Infinite();
  });
  (*loop)->SetOnFinished([&](const CallOutcome& outcome) {
    EXPECT_TRUE(outcome.has_answer);
    (*loop)->Stop();
  });
  (*loop)->Run();
}

TEST(EventLoopOwnerTest, TasksOfOtherThreadsRunInOrder) {
  auto loop = EventLoop::Create({}, Clock::Real());
  ASSERT_TRUE(loop.ok());
  std::vector<int> ran;
  std::thread poster([&] {
    for (int i = 0; i < 1000; ++i) (*loop)->Post([&ran, i] { ran.push_back(i); });
    (*loop)->Post([&] { (*loop)->Stop(); });
  });
  (*loop)->Run();
  poster.join();
  ASSERT_EQ(ran.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST(EventLoopOwnerTest, CreateNamesWhatIsWrong) {
  BackendSpec spec = LoopFixture::Spec("gopher://x");
  spec.name = "odd";
  const auto bad_url = EventLoop::Create({.backends = {spec}}, Clock::Real());
  EXPECT_THAT(std::string(bad_url.status().message()),
              AllOf(HasSubstr("odd"), HasSubstr("gopher")));
  const auto bad_size = EventLoop::Create({.backends = {}, .response_bytes_max = 0}, Clock::Real());
  EXPECT_EQ(bad_size.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace nightshift
