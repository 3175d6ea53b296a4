// A request that kills its server, among others that do not: how often the server dies, and what
// that costs the others. A small world of a coordinator, the real runner and a server that is
// started again whenever it has died; and single steps where the order of events matters.
#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/worker/core/runner_fixture.h"
#include "worker/core/runner_impl.h"

namespace nightshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr int kAttemptsMax = 5;  // what a job has by default
constexpr absl::Duration kTick = absl::Milliseconds(10);

// What happens to calls.
struct Setting {
  int requests = 60;
  int in_flight = 60;
  absl::Duration latency = absl::Seconds(1);  // half as much to one and a half
  absl::Duration restart = absl::Seconds(2);
  std::set<uint64_t> deadly = {17};
  absl::Duration kills_after = absl::Milliseconds(50);
  bool stale_at_first = false;  // the first calls find their connections closed
  // Of the first so many requests three of ten are never answered: the way breaks them at half
  // time.
  uint64_t cut_below = 0;
  absl::Duration crashes_every = absl::InfiniteDuration();  // by itself
  absl::Duration resets_until = absl::ZeroDuration();       // everything, at once
  absl::Duration ends_within = absl::Minutes(30);
  uint64_t seed = 1;
};

class SuspectsTest : public RunnerTest {
 protected:
  struct Request {
    bool held = false;
    bool over = false;
    bool failed = false;
    int charged = 0;
    int attempt = 0;
    MonotonicTime due;
  };

  void Run(const Setting& setting) {
    Random random(setting.seed);
    calls_ = {};
    link_ = {};
    deaths_ = broken_ = 0;
    requests_.assign(static_cast<size_t>(setting.requests), {});
    RunnerOptions options = Options(setting.in_flight);
    options.random_seed = setting.seed;
    Make(std::move(options));
    LinkUp();
    Welcome();
    struct Called {
      CallId id;
      uint64_t index;
      MonotonicTime ends;
      Transport end;
    };
    std::vector<Called> under_way;
    const MonotonicTime begin = Now();
    MonotonicTime up_at = begin;
    MonotonicTime crash_at = begin + setting.crashes_every;
    int limit = setting.in_flight;
    int over = 0;
    const auto die = [&] {
      ++deaths_;
      up_at = Now() + setting.restart;
      std::vector<Called> all = std::move(under_way);
      under_way.clear();
      // In any order.
      for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.Below(i)]);
      for (const Called& call : all) {
        ++broken_;
        Finish(
            Broken(call.id, random.Chance(0.3) ? Transport::kStaleConnection : Transport::kReset));
      }
    };
    while (over < setting.requests && Now() - begin < setting.ends_within) {
      clock_.Advance(kTick);
      runner_->OnTimer(Now());
      if (Now() >= crash_at) {
        crash_at = Now() + setting.crashes_every * (0.5 + random.Unit());
        die();
      }
      for (size_t i = 0; i < under_way.size();) {
        const Called call = under_way[i];
        if (call.ends > Now()) {
          ++i;
          continue;
        }
        if (call.end == Transport::kComplete && setting.deadly.contains(call.index)) {
          die();
          break;
        }
        under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(i));
        Finish(call.end == Transport::kComplete ? Answer(call.id) : Broken(call.id, call.end));
      }
      while (!link_.sent.empty()) {
        const v1::WorkerMessage message = std::move(link_.sent.front());
        link_.sent.pop_front();
        if (message.has_report()) limit = message.report().backends(0).limit();
        for (const v1::RequestKey& key : message.returned().keys()) {
          requests_[key.index()].held = false;
          requests_[key.index()].due = Now();
        }
        std::vector<uint64_t> sequences;
        for (const v1::AttemptResult& result : message.results().results()) {
          sequences.push_back(result.sequence());
          Request& request = requests_[result.key().index()];
          request.held = false;
          if (result.kind() == v1::AttemptResult::ANSWERED) {
            request.over = true;
          } else {
            request.charged += result.charged() ? 1 : 0;
            request.attempt += result.charged() ? 1 : 0;
            request.failed = request.over = request.charged >= kAttemptsMax;
            const double wait =
                result.charged() ? static_cast<double>(1 << (request.charged - 1)) : 0.5;
            request.due = Now() + absl::Milliseconds(result.retry_after_ms()) +
                          absl::Seconds(wait) * random.Unit();
          }
          over += request.over ? 1 : 0;
        }
        if (!sequences.empty()) Acknowledge(sequences);
      }
      for (uint64_t i = 0; i < requests_.size() && runner_->held() < 2 * limit; ++i) {
        Request& request = requests_[i];
        if (request.over || request.held || request.due > Now()) continue;
        request.held = true;
        Lease(i, 1, "b", request.attempt);
      }
      for (const CallRequest& call : calls_.started) {
        Called called{.id = call.id,
                      .index = std::stoull(call.body.substr(5)),
                      .ends = Now() + setting.latency * (0.5 + random.Unit()),
                      .end = Transport::kComplete};
        if (setting.deadly.contains(called.index)) called.ends = Now() + setting.kills_after;
        if (called.index < setting.cut_below && called.index % 10 < 3) {
          called.ends = Now() + setting.latency / 2;
          called.end = Transport::kReset;
        }
        if (setting.stale_at_first && call.id <= static_cast<CallId>(setting.in_flight)) {
          called.ends = Now();
          called.end = Transport::kStaleConnection;
        }
        if (Now() < up_at) {
          called.ends = Now();
          called.end = Transport::kConnectFailed;
        } else if (Now() - begin < setting.resets_until) {
          called.ends = Now();
          called.end = Transport::kReset;
        }
        under_way.push_back(called);
      }
      calls_.started.clear();
    }
    took_ = Now() - begin;
  }

  std::vector<uint64_t> Failed() const {
    std::vector<uint64_t> failed;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i].failed) failed.push_back(i);
    }
    return failed;
  }
  int Unanswered() const {
    return static_cast<int>(std::count_if(requests_.begin(), requests_.end(),
                                          [](const Request& request) { return !request.over; }));
  }
  int ChargedMost(const std::set<uint64_t>& but = {}) const {
    int most = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (!but.contains(i)) most = std::max(most, requests_[i].charged);
    }
    return most;
  }

  std::vector<Request> requests_;
  int deaths_ = 0;
  int broken_ = 0;
  absl::Duration took_;
};

// Three deaths until it is called alone, and one for each of its attempts.
constexpr int kDeathsMax = kLoneFrom + kAttemptsMax;

class DeadlyRequestTest : public SuspectsTest {
 protected:
  void ExpectItFailsAlone(Setting setting) {
    for (setting.seed = 1; setting.seed <= 30 && !HasFailure(); ++setting.seed) {
      setting.deadly = {setting.seed * 7919 % static_cast<uint64_t>(setting.requests)};
      SCOPED_TRACE(absl::StrCat("seed ", setting.seed));
      Run(setting);
      EXPECT_EQ(Unanswered(), 0);
      EXPECT_THAT(Failed(), testing::ElementsAreArray(setting.deadly));
      EXPECT_LE(deaths_, kDeathsMax);
      EXPECT_LE(ChargedMost(/*but=*/setting.deadly), 2);
    }
  }
};

TEST_F(DeadlyRequestTest, FailsAloneWithAllOfThemInFlight) { ExpectItFailsAlone({}); }

TEST_F(DeadlyRequestTest, FailsAloneWithFewInFlight) { ExpectItFailsAlone({.in_flight = 4}); }

// Nothing is answered between two deaths.
TEST_F(DeadlyRequestTest, FailsAloneAmongLongCallsAndLongStarts) {
  ExpectItFailsAlone({.requests = 8,
                      .in_flight = 4,
                      .latency = absl::Seconds(60),
                      .restart = absl::Seconds(1),
                      .ends_within = absl::Hours(3)});
  ExpectItFailsAlone({.requests = 200,
                      .in_flight = 100,
                      .latency = absl::Seconds(10),
                      .restart = absl::Minutes(2),
                      .ends_within = absl::Hours(3)});
}

TEST_F(DeadlyRequestTest, FailsAloneInAStreamOfManyFreshOnes) {
  Setting setting{.requests = 5000, .in_flight = 64, .deadly = {1234}};
  Run(setting);
  EXPECT_EQ(Unanswered(), 0);
  EXPECT_THAT(Failed(), ElementsAre(1234));
  EXPECT_LE(deaths_, kDeathsMax);
  EXPECT_LE(ChargedMost(/*but=*/setting.deadly), 2);
}

// Each of them dies by itself, and the others live, also when a deadly one is called beside them.
TEST_F(DeadlyRequestTest, SeveralOfThemFailAlone) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Run({.requests = 200, .in_flight = 30, .deadly = {3, 70, 150}, .seed = seed});
    EXPECT_EQ(Unanswered(), 0);
    EXPECT_THAT(Failed(), ElementsAre(3, 70, 150));
    EXPECT_LE(deaths_, 3 * kDeathsMax);
  }
}

TEST_F(SuspectsTest, ClosedIdleConnectionsSlowNothing) {
  Run({.requests = 640, .in_flight = 64, .deadly = {}});
  const absl::Duration usual = took_;
  Run({.requests = 640, .in_flight = 64, .deadly = {}, .stale_at_first = true});
  EXPECT_EQ(Unanswered(), 0);
  EXPECT_EQ(ChargedMost(), 0);
  EXPECT_LE(took_, usual + absl::Seconds(1));
}

// A proxy that cuts long answers breaks many calls and kills nothing: they are not called one by
// one, and each ends after its attempts.
TEST_F(SuspectsTest, CallsThatBreakOneByOneDoNotQueueUp) {
  const Setting setting{.requests = 3000,
                        .in_flight = 60,
                        .latency = absl::Seconds(10),
                        .deadly = {},
                        .cut_below = 1000,
                        .ends_within = absl::Hours(3)};
  Run(setting);
  EXPECT_EQ(Unanswered(), 0);
  EXPECT_EQ(Failed().size(), 300u);
  EXPECT_LE(took_, absl::Minutes(15)) << "fourteen, if nothing is ever a suspect";
}

TEST_F(SuspectsTest, AServerThatCrashesByItselfFailsNobody) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Run({.requests = 1000,
         .in_flight = 32,
         .latency = absl::Seconds(4),
         .deadly = {},
         .crashes_every = absl::Seconds(15),
         .seed = seed});
    EXPECT_EQ(Unanswered(), 0);
    EXPECT_THAT(Failed(), IsEmpty());
    EXPECT_GE(deaths_, 3);
  }
}

// A balancer in front of a dead server takes every connection and breaks it.
TEST_F(SuspectsTest, AnOutageThatBreaksEveryCallFailsNobody) {
  for (const int in_flight : {4, 32}) {
    Run({.requests = 2 * in_flight,
         .in_flight = in_flight,
         .deadly = {},
         .resets_until = absl::Minutes(15)});
    EXPECT_EQ(Unanswered(), 0);
    EXPECT_THAT(Failed(), IsEmpty());
    EXPECT_LE(ChargedMost(), 3);
  }
}

// Requests 0, 1, 2 have broken three calls each, and the breaker is closed.
class LoneTest : public RunnerTest {
 protected:
  void SetUp() override {
    Connect(8);
    for (int round = 0; round < kLoneFrom; ++round) {
      Lease(0, 3, "b", round);
      ASSERT_EQ(calls_.started.size(), 3u);
      for (int i = 0; i < 3; ++i) Finish(Broken(calls_.started[i].id, Transport::kReset));
      Advance(absl::Milliseconds(10));
      ASSERT_EQ(Results().size(), 3u);
      for (const v1::AttemptResult& result : Results()) {
        EXPECT_EQ(result.charged(), round < kSuspectFrom) << "round " << round;
      }
      AcknowledgeAll();
      calls_.started.clear();
      link_.sent.clear();
    }
    // The breaker counts from the start again.
    Lease(50, 1);
    Finish(Answer(calls_.started[0].id));
    Advance(absl::Seconds(1));
    AcknowledgeAll();
    calls_.started.clear();
    link_.sent.clear();
  }
  void AcknowledgeAll() {
    std::vector<uint64_t> sequences;
    for (const v1::AttemptResult& result : Results()) sequences.push_back(result.sequence());
    Acknowledge(sequences);
  }
};

TEST_F(LoneTest, OneIsCalledAtATimeAndOthersBesideIt) {
  Lease(0, 3);
  Lease(10, 2);
  EXPECT_THAT(Started(), ElementsAre("body 0", "body 10", "body 11"));
  Advance(absl::Seconds(1));
  EXPECT_EQ(LastReport().buffered(), 2) << "those that wait for their turn are told";
  EXPECT_THAT(LastReport().waiting_for(), testing::StartsWith("the turn of 2 requests"));
  Finish(Answer(calls_.started[1].id));
  EXPECT_EQ(calls_.started.size(), 3u);
  Finish(Answer(calls_.started[0].id));
  ASSERT_EQ(calls_.started.size(), 4u);
  EXPECT_EQ(calls_.started[3].body, "body 1");
  Finish(Answer(calls_.started[3].id));
  Finish(Answer(calls_.started[4].id));
  EXPECT_EQ(runner_->held(), 1);
  // An answer speaks for it.
  Advance(absl::Milliseconds(10));
  AcknowledgeAll();
  Lease(0, 3);
  EXPECT_EQ(runner_->in_flight(), 4);
}

// One death, and the ends of its calls come in any order.
TEST_F(LoneTest, WhatBreaksBesideItIsItsFault) {
  Lease(0, 1);
  Lease(10, 2);
  ASSERT_EQ(calls_.started.size(), 3u);
  Finish(Broken(calls_.started[1].id, Transport::kReset));
  Finish(Broken(calls_.started[0].id, Transport::kReset));
  clock_.Advance(absl::Milliseconds(5));
  Finish(Broken(calls_.started[2].id, Transport::kSendFailed));
  Lease(20, 1);
  Finish(Broken(calls_.started[3].id, Transport::kReset));
  Advance(absl::Seconds(1));
  std::map<uint64_t, bool> charged;
  for (const v1::AttemptResult& result : Results()) {
    charged[result.key().index()] = result.charged();
  }
  EXPECT_THAT(charged, ElementsAre(testing::Pair(0, true), testing::Pair(10, false),
                                   testing::Pair(11, false), testing::Pair(20, true)))
      << "the last one began after it";
}

TEST_F(LoneTest, AStaleConnectionIsNotForgivenToIt) {
  Lease(0, 1);
  Finish(Broken(calls_.started[0].id, Transport::kStaleConnection));
  EXPECT_EQ(calls_.started.size(), 1u);
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_TRUE(Results()[0].charged());
}

// The server has answered others since, so it is not the one to blame; the call that finds it dead
// is charged also as the one that asks a broken backend.
TEST_F(LoneTest, IsChargedAsTheProbe) {
  Lease(20, 5);
  for (int i = 0; i < 5; ++i) Finish(Broken(calls_.started[i].id, Transport::kConnectFailed));
  EXPECT_EQ(LastReport().limit(), 0);
  Advance(absl::Seconds(6.1));
  EXPECT_EQ(LastReport().limit(), 1);
  link_.sent.clear();
  Lease(0, 1);
  ASSERT_EQ(calls_.started.size(), 6u);
  Finish(Broken(calls_.started[5].id, Transport::kReset));
  ASSERT_EQ(Results().size(), 1u);
  EXPECT_TRUE(Results()[0].charged());
}

TEST_F(LoneTest, OthersAreTheProbeWhereThereAreAny) {
  Lease(20, 5);
  for (int i = 0; i < 5; ++i) Finish(Broken(calls_.started[i].id, Transport::kConnectFailed));
  v1::CoordinatorMessage both;
  both.mutable_lease()->set_backend("b");
  for (const uint64_t index : {0, 1, 30}) {
    v1::LeasedRequest& request = *both.mutable_lease()->add_requests();
    SetKey(request.mutable_key(), index);
    request.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
    request.set_body(absl::StrCat("body ", index));
  }
  Advance(absl::Seconds(6.1));
  runner_->OnMessage(both, Now());
  ASSERT_EQ(calls_.started.size(), 6u);
  EXPECT_EQ(calls_.started[5].body, "body 30");
  Lease(31, 1);
  Revoke({30});
  Finish(Broken(calls_.started[5].id, Transport::kAborted));
  ASSERT_EQ(calls_.started.size(), 7u);
  EXPECT_EQ(calls_.started[6].body, "body 31");
  Finish(Answer(calls_.started[6].id));
  ASSERT_EQ(calls_.started.size(), 8u);
  EXPECT_EQ(calls_.started[7].body, "body 0");
}

TEST_F(LoneTest, DrainHandsBackThoseThatWait) {
  Lease(0, 3);
  ASSERT_EQ(runner_->in_flight(), 1);
  runner_->Drain("stopping", Now());
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(1, 2));
  EXPECT_EQ(runner_->held(), 1);
  Finish(Answer(calls_.started[0].id));
  AcknowledgeAll();
  EXPECT_TRUE(runner_->Idle());
}

TEST_F(LoneTest, RevokedOnesAreForgottenAndTheNextWaitsForTheEndOfTheCall) {
  Lease(0, 3);
  Revoke({1, 0});
  EXPECT_THAT(calls_.aborted, ElementsAre(calls_.started[0].id));
  EXPECT_EQ(runner_->held(), 1);
  EXPECT_EQ(calls_.started.size(), 1u);
  Finish(Broken(calls_.started[0].id, Transport::kAborted));
  ASSERT_EQ(calls_.started.size(), 2u);
  EXPECT_EQ(calls_.started[1].body, "body 2");
}

TEST_F(LoneTest, ARecallTakesThoseThatWait) {
  Lease(0, 3);
  v1::CoordinatorMessage message;
  message.mutable_recall()->set_backend("b");
  message.mutable_recall()->set_count(5);
  runner_->OnMessage(message, Now());
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(1, 2));
}

TEST_F(LoneTest, ABrokenBackendHandsThemBack) {
  Lease(0, 3);
  Finish(HttpError(calls_.started[0].id, 401, "Wrong API Key"));
  EXPECT_THAT(ReturnedIndexes(), UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(runner_->held(), 0);
}

// The call from before has lived through their breaks.
TEST_F(RunnerTest, BreaksThatTheServerLivesThroughMakeNoSuspects) {
  Connect(8);
  Lease(100, 1);
  for (int round = 0; round < kLoneFrom; ++round) {
    clock_.Advance(absl::Milliseconds(1));
    Lease(0, 3, "b", round);
    for (int i = 0; i < 3; ++i) {
      Finish(Broken(calls_.started[calls_.started.size() - 3 + i].id, Transport::kReset));
    }
  }
  Advance(kSurvivedAfter);
  Finish(Answer(calls_.started[0].id));
  Lease(0, 3);
  EXPECT_EQ(runner_->in_flight(), 3);
}

}  // namespace
}  // namespace nightshift
