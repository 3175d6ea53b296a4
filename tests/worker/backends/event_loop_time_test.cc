// The event loop's sense of time: timers of calls, giving up, the owner's timer and tasks.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/backends/loop_fixture.h"
#include "tests/worker/backends/scripted_server.h"
#include "worker/backends/call_slot.h"

namespace nightshift {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Reply = ScriptedServer::Reply;
using Request = ScriptedServer::Request;
using Then = ScriptedServer::Then;

Reply Whole() { return {.bytes = ScriptedServer::Response(200, ScriptedServer::ChatAnswer("x"))}; }
Reply Held() {
  Reply reply = Whole();
  reply.hold = true;
  return reply;
}

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
  // The loop hears of the connection, and begins to send, before the clock moves.
  fixture.OnLoop([] {});
  fixture.OnLoop([] {});
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

// --- giving up ---------------------------------------------------------------------------------

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

// As after SIGSTOP and SIGCONT, when others may have the request by now.
TEST(EventLoopAbortTest, WhatWasDecidedBeforeAStandstillIsNotSentAfterIt) {
  FakeClock clock;
  ScriptedServer server([](const Request&) { return Whole(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())}, clock);
  for (const bool warm : {false, true}) {
    const size_t before = server.requests().size();
    const CallId id = 77 + warm;
    fixture.OnLoop([&] {
      CallRequest request = LoopFixture::Chat();
      request.id = id;
      fixture.loop().Start(std::move(request));
      clock.Advance(kStandstillMin + absl::Milliseconds(1));
    });
    const CallOutcome outcome = fixture.Wait(id);
    EXPECT_EQ(outcome.transport, Transport::kAborted);
    EXPECT_THAT(outcome.transport_detail, HasSubstr("did not run for a while"));
    EXPECT_EQ(server.requests().size(), before);
    EXPECT_EQ(fixture.Call(LoopFixture::Chat()).transport, Transport::kComplete);
  }
}

TEST(EventLoopAbortTest, AShortPauseBeforeACallIsSentCostsNothing) {
  FakeClock clock;
  ScriptedServer server([](const Request&) { return Whole(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())}, clock);
  clock.Advance(absl::Hours(1));  // without a call nothing has to turn
  fixture.OnLoop([&] {
    CallRequest request = LoopFixture::Chat();
    request.id = 77;
    fixture.loop().Start(std::move(request));
    clock.Advance(kStandstillMin);
  });
  EXPECT_EQ(fixture.Wait(77).transport, Transport::kComplete);
}

// The answer is in the socket when the process goes on, though the call's time has passed.
TEST(EventLoopTimerTest, AnAnswerThatCameDuringAStandstillCounts) {
  FakeClock clock;
  ScriptedServer server([](const Request&) { return Held(); });
  LoopFixture fixture({LoopFixture::Spec(server.url())}, clock);
  CallRequest request = LoopFixture::Chat();
  request.timeout = absl::Seconds(10);
  const CallId id = fixture.Start(std::move(request));
  server.WaitForHeld(1);
  fixture.OnLoop([&] {
    server.Release();
    server.WaitForSent(1);
    clock.Advance(absl::Seconds(60));
  });
  EXPECT_EQ(fixture.Wait(id).transport, Transport::kComplete);
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

// --- the owner's timer and tasks ---------------------------------------------------------------

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
