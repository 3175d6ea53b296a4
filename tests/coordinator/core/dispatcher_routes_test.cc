// Jobs whose requests belong to certain backends.
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/core/route.h"
#include "tests/coordinator/core/dispatcher_fixture.h"

namespace nightshift {
namespace {

class DispatcherRoutes : public DispatcherFixture {
 protected:
  // Of `total` requests the share goes to "new".
  JobNumber NewRoutedJob(int64_t total, double share, std::vector<std::string> fallback = {},
                         int32_t max_attempts = 0) {
    JobCommand seal = Seal(++last_job, total);
    v1::JobOptions& options_of_job = *seal.record.mutable_options();
    options_of_job.set_max_attempts(max_attempts);
    v1::Route& route = *options_of_job.mutable_route();
    if (share > 0) {
      route.add_shares()->set_backend("new");
      route.mutable_shares(0)->set_share(share);
    }
    for (const std::string& name : fallback) *route.add_fallback() = name;
    EXPECT_TRUE(Run(std::move(seal)).ok());
    return last_job;
  }

  // One worker with these backends, which says how each is.
  WorkerNumber ConnectWith(const std::vector<std::string>& names, int32_t limit = 8) {
    names_ = names;
    v1::Hello hello = HelloOf("w", "w-session");
    hello.clear_backends();
    for (const std::string& name : names) hello.add_backends()->set_name(name);
    auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
    EXPECT_TRUE(reply.ok());
    worker_ = reply->worker;
    Report(limit);
    return worker_;
  }
  void Report(int32_t limit, const std::string& broken = "") {
    v1::Report report;
    for (const std::string& name : names_) {
      v1::BackendReport& entry = *report.add_backends();
      entry.mutable_info()->set_name(name);
      entry.mutable_info()->set_state(name == broken ? "broken" : "ready");
      entry.set_limit(name == broken ? 0 : limit);
    }
    dispatcher->OnReport(worker_, report, clock.Now());
  }

  static std::string CustomId(const RequestId& id) { return absl::StrCat("id-", id.index); }
  // As the lease sender does: plans until nothing more goes out; what was sent, by backend.
  std::map<std::string, std::vector<RequestId>> Send() {
    std::map<std::string, std::vector<RequestId>> sent;
    for (bool more = true; more;) {
      more = false;
      const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
      for (const JobNumber job : plan.frontier_moved) {
        Commit(*dispatcher, disk, clock, {}, {Command(Kind::kFrontier, job)});
      }
      for (const Grant& grant : plan.grants) {
        std::vector<RequestId> ids;
        std::vector<std::string> names;
        for (const Grant::Item& item : grant.items) ids.push_back(item.id);
        for (const RequestId& id : ids) names.push_back(CustomId(id));
        std::vector<const std::string*> custom_ids;
        for (const std::string& name : names) custom_ids.push_back(&name);
        const std::vector<bool> keep = dispatcher->Route(grant.worker, ids, custom_ids);
        for (size_t i = 0; i < ids.size(); ++i) {
          if (keep[i]) sent[grant.backend].push_back(ids[i]);
          more = true;
        }
      }
      dispatcher->CheckConsistent();
    }
    return sent;
  }
  std::vector<RequestId> SendTo(const std::string& backend) { return Send()[backend]; }
  bool IsNew(const RequestId& id, double share) const {
    v1::Route route;
    route.add_shares()->set_backend("new");
    route.mutable_shares(0)->set_share(share);
    const Router router(route);
    return router.Serves(router.First(CustomId(id)), "new");
  }
  ResultEvent From(ResultEvent event, const std::string& backend) const {
    event.result.set_backend(backend);
    return event;
  }

  std::vector<std::string> names_;
  WorkerNumber worker_ = 0;
};

TEST_F(DispatcherRoutes, EachBackendGetsItsOwnAndNothingElse) {
  const JobNumber job = NewRoutedJob(400, 0.3);
  ConnectWith({"old", "new"});
  std::map<std::string, int64_t> counted;
  while (Status(job).counts().succeeded() < 400) {
    const auto sent = Send();
    ASSERT_FALSE(sent.empty());
    std::vector<ResultEvent> events;
    for (const auto& [backend, ids] : sent) {
      for (const RequestId& id : ids) {
        EXPECT_EQ(IsNew(id, 0.3), backend == "new") << id.index;
        ++counted[backend];
        events.push_back(From(Answered(worker_, id), backend));
      }
    }
    Do(events);
    if (Status(job).counts().pending() + Status(job).counts().in_flight() == 0) break;
  }
  EXPECT_EQ(counted["old"] + counted["new"], 400);
  EXPECT_NEAR(static_cast<double>(counted["new"]), 120, 30);
  EXPECT_EQ(Status(job).moved(), 0);
}

TEST_F(DispatcherRoutes, AFailureMovesTheRequestToTheOthersAtOnce) {
  const JobNumber job = NewRoutedJob(60, 0.5, {}, /*max_attempts=*/1);
  ConnectWith({"old", "new"}, 100);
  auto sent = Send();
  const RequestId one = sent["new"].at(0);
  EXPECT_EQ(Decision(From(Failed(worker_, one), "new")), ResultDecision::Kind::kRetry);
  sent = Send();
  ASSERT_EQ(sent["old"], std::vector<RequestId>{one});
  EXPECT_TRUE(sent["new"].empty());
  ResultEvent answer = From(Answered(worker_, one), "old");
  const Committed done = Do({answer});
  EXPECT_TRUE(done.plan.decisions[0].outcome.moved());
  EXPECT_EQ(done.plan.decisions[0].outcome.attempts(), 2);
  EXPECT_EQ(Status(job).moved(), 1);
}

TEST_F(DispatcherRoutes, ARefusedRequestNeverMovesOn) {
  NewRoutedJob(60, 0.5);
  ConnectWith({"old", "new"}, 100);
  auto sent = Send();
  for (const auto error_class : {v1::ERROR_CLASS_INVALID_REQUEST, v1::ERROR_CLASS_CONTEXT_TOO_LONG,
                                 v1::ERROR_CLASS_CONTENT_FILTER}) {
    ResultEvent rejected = From(Answered(worker_, sent["new"].back()), "new");
    sent["new"].pop_back();
    rejected.result.set_kind(v1::AttemptResult::REJECTED);
    rejected.result.set_error_class(error_class);
    rejected.result.set_http_status(400);
    EXPECT_EQ(Decision(rejected), ResultDecision::Kind::kRecord);
  }
}

TEST_F(DispatcherRoutes, AModelThatIsNotThereMovesOn) {
  NewRoutedJob(60, 0.5);
  ConnectWith({"old", "new"}, 100);
  auto sent = Send();
  ResultEvent gone = From(Answered(worker_, sent["new"].at(0)), "new");
  gone.result.set_kind(v1::AttemptResult::REJECTED);
  gone.result.set_error_class(v1::ERROR_CLASS_MODEL_NOT_FOUND);
  EXPECT_EQ(Decision(gone), ResultDecision::Kind::kRetry);
  EXPECT_EQ(SendTo("old").size(), 1u);
}

// Its acknowledgement was lost with the stream, or with the coordinator.
TEST_F(DispatcherRoutes, ARejectionThatMovedARequestOnIsNoEndWhenItIsSentAgain) {
  for (const bool restart : {false, true}) {
    const JobNumber job = NewRoutedJob(60, 0.5);
    ConnectWith({"old", "new"}, 100);
    const RequestId one = Send()["new"].at(0);
    ResultEvent gone = From(Answered(worker_, one), "new");
    gone.result.set_kind(v1::AttemptResult::REJECTED);
    gone.result.set_error_class(v1::ERROR_CLASS_MODEL_NOT_FOUND);
    EXPECT_EQ(Decision(gone), ResultDecision::Kind::kRetry);
    if (restart) {
      Start();
    } else {
      EXPECT_EQ(SendTo("old"), std::vector<RequestId>{one});
    }
    v1::Hello hello = HelloOf("w", "w-session");
    hello.clear_backends();
    for (const std::string& name : names_) hello.add_backends()->set_name(name);
    Hold(&hello, one, /*answered=*/true);
    hello.mutable_held(0)->set_backend("new");
    hello.mutable_held(0)->set_kind(v1::AttemptResult::REJECTED);
    const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(reply->welcome.drop_size(), 1);
    worker_ = reply->worker;
    gone.worker = worker_;
    EXPECT_EQ(Decision(gone), ResultDecision::Kind::kDrop);
    EXPECT_EQ(Status(job).counts().failed(), 0);
    Start();
  }
}

// A quota that is used up for hours: it is there, and has no room.
TEST_F(DispatcherRoutes, ABackendWithoutRoomIsWaitedForAShortWhile) {
  NewRoutedJob(60, 1);
  ConnectWith({"old", "new"}, 100);
  const auto report = [&] {
    v1::Report told;
    for (const std::string& name : names_) {
      v1::BackendReport& entry = *told.add_backends();
      entry.mutable_info()->set_name(name);
      entry.mutable_info()->set_state("ready");
      entry.set_limit(name == "new" ? 0 : 100);
    }
    dispatcher->OnReport(worker_, told, clock.Now());
  };
  report();
  EXPECT_TRUE(SendTo("old").empty());
  clock.Advance(absl::Seconds(10));
  report();
  EXPECT_EQ(SendTo("old").size(), 60u);
}

TEST_F(DispatcherRoutes, ABrokenBackendsRequestsGoToTheOthersAtOnceAndItsOwnAgainLater) {
  const JobNumber job = NewRoutedJob(300, 0.5);
  ConnectWith({"old", "new"}, 12);
  Report(12, "new");
  auto sent = Send();
  EXPECT_TRUE(sent["new"].empty());
  int64_t moved = 0;
  std::vector<ResultEvent> events;
  for (const RequestId& id : sent["old"]) {
    moved += IsNew(id, 0.5) ? 1 : 0;
    events.push_back(From(Answered(worker_, id), "old"));
  }
  EXPECT_GT(moved, 0);
  Do(events);
  EXPECT_EQ(Status(job).moved(), moved);
  Report(12);
  for (const RequestId& id : SendTo("old")) EXPECT_FALSE(IsNew(id, 0.5));
}

TEST_F(DispatcherRoutes, AnAbsentBackendIsWaitedForAShortWhile) {
  NewRoutedJob(300, 0.5);
  ConnectWith({"old"}, 100);
  for (const RequestId& id : SendTo("old")) EXPECT_FALSE(IsNew(id, 0.5));
  clock.Advance(absl::Seconds(9));
  Report(400);
  for (const RequestId& id : SendTo("old")) EXPECT_FALSE(IsNew(id, 0.5));
  clock.Advance(absl::Seconds(1));
  Report(400);
  int64_t moved = 0;
  for (const RequestId& id : SendTo("old")) moved += IsNew(id, 0.5) ? 1 : 0;
  EXPECT_GT(moved, 0);
}

TEST_F(DispatcherRoutes, TheLastOfTheChainUsesUpTheAttempts) {
  const JobNumber job = NewRoutedJob(1, 0, {"a", "b"}, /*max_attempts=*/2);
  ConnectWith({"a", "b"});
  auto sent = Send();
  ASSERT_EQ(sent["a"].size(), 1u);
  const RequestId one = sent["a"][0];
  EXPECT_EQ(Decision(From(Failed(worker_, one), "a")), ResultDecision::Kind::kRetry);
  sent = Send();
  ASSERT_EQ(sent["b"].size(), 1u);
  ResultEvent failed = From(Failed(worker_, one), "b");
  failed.result.set_attempt(1);
  EXPECT_EQ(Decision(failed), ResultDecision::Kind::kRecord);
  EXPECT_EQ(Status(job).counts().failed(), 1);
}

// Others would be done with the rest much sooner, and must not have it.
TEST_F(DispatcherRoutes, ASlowBackendGetsItsOwnToTheEnd) {
  const JobNumber job = NewRoutedJob(60, 0.5);
  ConnectWith({"old", "new"}, 4);
  v1::Report report;
  for (const std::string& name : names_) {
    v1::BackendReport& entry = *report.add_backends();
    entry.mutable_info()->set_name(name);
    entry.mutable_info()->set_state("ready");
    entry.set_limit(4);
    entry.set_latency_seconds(name == "old" ? 1000 : 0.1);
  }
  while (State(job) != v1::JOB_STATE_COMPLETED) {
    dispatcher->OnReport(worker_, report, clock.Now());
    const auto sent = Send();
    ASSERT_FALSE(sent.empty());
    std::vector<ResultEvent> events;
    for (const auto& [backend, ids] : sent) {
      for (const RequestId& id : ids) {
        EXPECT_EQ(IsNew(id, 0.5), backend == "new");
        events.push_back(From(Answered(worker_, id), backend));
      }
    }
    Do(events);
  }
}

TEST_F(DispatcherRoutes, WhatIsHandedBackGoesToWhomItBelongsTo) {
  const JobNumber job = NewRoutedJob(60, 0.5);
  ConnectWith({"old", "new"}, 100);
  const auto sent = Send();
  v1::Returned returned;
  for (const auto& [backend, ids] : sent) {
    for (const RequestId& id : ids) {
      returned.add_keys()->set_job(id.job);
      returned.mutable_keys(returned.keys_size() - 1)->set_index(id.index);
    }
  }
  ASSERT_EQ(returned.keys_size(), 60);
  dispatcher->OnReturned(worker_, returned, clock.Now());
  EXPECT_EQ(Status(job).counts().in_flight(), 0);
  Report(100);
  int64_t again = 0;
  for (const auto& [backend, ids] : Send()) {
    for (const RequestId& id : ids) EXPECT_EQ(IsNew(id, 0.5), backend == "new");
    again += static_cast<int64_t>(ids.size());
  }
  EXPECT_GT(again, 30);
}

TEST_F(DispatcherRoutes, AReconnectedWorkersFailureStillMovesOn) {
  NewRoutedJob(60, 0.5, {}, /*max_attempts=*/1);
  ConnectWith({"old", "new"}, 100);
  auto sent = Send();
  const RequestId one = sent["new"].at(0);
  v1::Hello hello = HelloOf("w", "w-session");
  hello.clear_backends();
  for (const std::string& name : names_) hello.add_backends()->set_name(name);
  Hold(&hello, one, /*answered=*/false);
  hello.mutable_held(0)->set_backend("new");
  ASSERT_TRUE(dispatcher->OnHello(hello, clock.Now(), clock.WallNow()).ok());
  EXPECT_EQ(Decision(From(Failed(worker_, one), "new")), ResultDecision::Kind::kRetry);
}

TEST_F(DispatcherRoutes, ACallFromBeforeARestartStillMovesOn) {
  NewRoutedJob(60, 0.5, {}, /*max_attempts=*/1);
  ConnectWith({"old", "new"}, 100);
  const RequestId one = Send()["new"].at(0);
  Start();
  v1::Hello hello = HelloOf("w", "w-session");
  hello.clear_backends();
  for (const std::string& name : names_) hello.add_backends()->set_name(name);
  Hold(&hello, one, /*answered=*/false);
  hello.mutable_held(0)->set_backend("new");
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  ASSERT_TRUE(reply.ok());
  worker_ = reply->worker;
  EXPECT_EQ(Decision(From(Failed(worker_, one), "new")), ResultDecision::Kind::kRetry);
}

// How far a request has come along its route outlives the coordinator.
TEST_F(DispatcherRoutes, ARestartRemembersWhoHasFailed) {
  NewRoutedJob(60, 0.5);
  ConnectWith({"old", "new"}, 100);
  auto sent = Send();
  const RequestId one = sent["new"].at(0);
  EXPECT_EQ(Decision(From(Failed(worker_, one), "new")), ResultDecision::Kind::kRetry);
  Start();
  clock.Advance(absl::Minutes(1));
  ConnectWith({"old", "new"}, 100);
  sent = Send();
  const std::set<RequestId> old(sent["old"].begin(), sent["old"].end());
  EXPECT_EQ(old.count(one), 1u);
}

}  // namespace
}  // namespace nightshift
