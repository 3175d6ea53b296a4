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
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/backends/loop_fixture.h"
#include "tests/worker/backends/scripted_server.h"
#include "worker/backends/transfer_end.h"

namespace nightshift {
namespace {

using ::testing::AnyOf;
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

TEST(EventLoopTest, ANewKeyGoesWithTheNextCall) {
  ScriptedServer server([](const Request&) { return Whole(); });
  BackendSpec keyed = LoopFixture::Spec(server.url());
  keyed.api_key = "k-1";
  LoopFixture fixture({keyed});
  fixture.Call(LoopFixture::Chat());
  fixture.OnLoop([&] { fixture.loop().SetKey(0, "k-2"); });
  fixture.Call(LoopFixture::Chat());
  fixture.Call(LoopFixture::Chat());
  const std::vector<Request> seen = server.requests();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_THAT(seen[0].head, HasSubstr("\r\nAuthorization: Bearer k-1\r\n"));
  for (const int number : {1, 2}) {
    EXPECT_THAT(seen[number].head, HasSubstr("\r\nAuthorization: Bearer k-2\r\n"));
    EXPECT_THAT(seen[number].head, Not(HasSubstr("k-1")));
  }
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

// {"choices":[{"index":0,"message":{"role":"assistant","content":"packed"},"finish_reason":"stop"}]}
constexpr char kPackedAnswer[] =
    "1f8b08000000000002030dc9310ac4300c44d1bb4ced22b5afb284201c2511d9954cc6c582f1dde3ea3ff81de50a2b"
    "4a"
    "e44f87f9ae7fe425e1a7a49c8adcf1c47716421a9b784342096f3a9551a5dcba63241ce6c66b7b54183e0f5b548c75"
    "bc"
    "ca8cd2f462000000";

TEST(EventLoopTest, AnAnswerThatAProxyHasPackedIsUnpacked) {
  const std::string packed = absl::HexStringToBytes(kPackedAnswer);
  ScriptedServer server([&](const Request&) {
    return Reply{.bytes = ScriptedServer::Response(200, packed, "Content-Encoding: gzip\r\n")};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(outcome.transport, Transport::kComplete) << outcome.transport_detail;
  EXPECT_TRUE(outcome.has_answer);
  EXPECT_THAT(outcome.body, HasSubstr("\"content\":\"packed\""));
}

TEST(EventLoopTest, WhatUnpacksToTooMuchIsCutOff) {
  const std::string packed = absl::HexStringToBytes(kPackedAnswer);
  ScriptedServer server([&](const Request&) {
    return Reply{.bytes = ScriptedServer::Response(200, packed, "Content-Encoding: gzip\r\n")};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())}, Clock::Real(), 96);
  EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kTooLarge);
}

TEST(EventLoopTest, WhatSaysThatItIsPackedAndIsNotIsBroken) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = ScriptedServer::Response(200, "plain", "Content-Encoding: gzip\r\n")};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kBadProtocol);
}

TEST(EventLoopTest, AByteOrderMarkIsNoPartOfAnAnswer) {
  ScriptedServer server([](const Request&) {
    return Reply{.bytes = ScriptedServer::Response(
                     200, "\xEF\xBB\xBF" + ScriptedServer::ChatAnswer("marked"))};
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  const CallOutcome outcome = fixture.Call(LoopFixture::Chat());
  EXPECT_TRUE(outcome.has_answer);
  EXPECT_THAT(outcome.body, StartsWith("{"));
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

// The server closes an idle connection in the very moment in which it is used again: the request
// may have been read, so that to send it again is the runner's decision.
TEST(EventLoopTest, ConnectionThatDiesOnReuseIsToldApartAndTheNextIsAFreshOne) {
  ScriptedServer server([](const Request& request) {
    if (request.number_on_connection > 0) return Reply{.bytes = "", .then = Then::kReset};
    return Whole();
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kComplete);
  const CallOutcome dead = fixture.Call(LoopFixture::Chat());
  EXPECT_EQ(dead.transport, Transport::kStaleConnection);
  EXPECT_EQ(dead.transport_detail, kStaleConnectionWords);
  EXPECT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kComplete);
}

// libcurl then tries to connect by itself; that nobody listens says nothing about the request.
TEST(EventLoopTest, ServerThatDiesOfACallOnAKeptConnectionHasSeenIt) {
  ScriptedServer server([](const Request& request) {
    if (request.number_on_connection > 0) return Reply{.bytes = "", .then = Then::kDie};
    return Whole();
  });
  LoopFixture fixture({LoopFixture::Spec(server.url())});
  EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kComplete);
  EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kStaleConnection);
  EXPECT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kConnectFailed);
}

// After a restart of the server every pooled connection is dead. A call is either answered or told
// apart from a failure of the backend, and then goes through; it is sent once in either case.
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
    const size_t before = server.requests().size();
    CallOutcome outcome = fixture.Call(LoopFixture::Chat());
    EXPECT_THAT(outcome.transport, AnyOf(Transport::kComplete, Transport::kStaleConnection))
        << outcome.transport_detail;
    EXPECT_EQ(server.requests().size(), before + 1);
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

}  // namespace
}  // namespace nightshift
