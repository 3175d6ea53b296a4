// Requests that are called for twice: one outcome, whatever happens to either call.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/coordinator/core/dispatcher_fixture.h"

namespace nightshift {
namespace {

class DispatcherCopies : public DispatcherFixture {
 protected:
  // A job of 40 of which request 39 is all that is left, at `owner`, and a copy of it at `helper`.
  void MakeCopy(v1::Speculation speculation = v1::SPECULATION_AUTO, double cost = 0) {
    if (helper != 0) Report(helper, 0, {});
    owner = Connect("owner", 64);
    JobCommand seal = Seal(++last_job, 40);
    if (routed) seal.record.mutable_options()->mutable_route()->add_fallback("b");
    seal.record.mutable_options()->set_speculation(speculation);
    ASSERT_TRUE(Run(seal).ok());
    job = last_job;
    Report(owner, 64, {});
    std::vector<RequestId> ids = Plan();
    ASSERT_EQ(ids.size(), 40u);
    late = ids.back();
    ids.pop_back();
    std::vector<ResultEvent> answers = AnswerAll(owner, ids);
    for (ResultEvent& answer : answers) {
      answer.result.mutable_timing()->set_latency_ms(1000);
      answer.result.mutable_usage()->set_cost_usd(cost);
      answer.result.mutable_usage()->set_cost_known(cost > 0);
    }
    Do(answers);
    helper = Connect("helper", 64);
    Report(helper, 64, {});
    Report(owner, 64, {late}, 2.9);
    EXPECT_TRUE(Plan().empty()) << "too early";
    Report(owner, 64, {late}, 3.1);
    copied = Plan();
    dispatcher->CheckConsistent();
  }

  void Report(WorkerNumber worker, int32_t limit, const std::vector<RequestId>& slow,
              double age = 0) {
    v1::Report report = ReportOf(limit, 1);
    v1::BackendReport& figures = *report.mutable_backends(0);
    figures.set_latency_seconds(1);
    figures.mutable_info()->set_kind(kind);
    for (const RequestId& id : slow) {
      v1::LongCall* call = figures.add_long_calls();
      call->mutable_key()->set_job(id.job);
      call->mutable_key()->set_index(id.index);
      call->set_age_seconds(age);
    }
    dispatcher->OnReport(worker, report, clock.Now());
  }

  // Of a job of 96, the slow owner has 32 under way and 32 that it has not started; the helper has
  // answered the rest.
  GrantPlan PlanBesideAnIdleBackend() {
    JobCommand seal = Seal(++last_job, 96);
    if (routed) seal.record.mutable_options()->mutable_route()->add_fallback("b");
    EXPECT_TRUE(Run(seal).ok());
    job = last_job;
    owner = Connect("owner", 32);
    EXPECT_EQ(Plan().size(), 64u);
    helper = Connect("helper", 32);
    const auto report = [&](WorkerNumber worker, int32_t in_flight, int32_t buffered,
                            double latency) {
      v1::Report made = ReportOf(32, 1);
      made.mutable_backends(0)->set_in_flight(in_flight);
      made.mutable_backends(0)->set_buffered(buffered);
      made.mutable_backends(0)->set_latency_seconds(latency);
      dispatcher->OnReport(worker, made, clock.Now());
    };
    report(owner, 32, 32, 40);
    report(helper, 0, 0, 4);
    const std::vector<RequestId> rest = Plan();
    EXPECT_EQ(rest.size(), 32u);
    Do(AnswerAll(helper, rest));
    return dispatcher->PlanGrants(clock.Now());
  }

  void HandBack(WorkerNumber worker) {
    v1::Returned returned;
    returned.add_keys()->set_job(late.job);
    returned.mutable_keys(0)->set_index(late.index);
    dispatcher->OnReturned(worker, returned, clock.Now());
    dispatcher->CheckConsistent();
  }

  static std::vector<WorkerNumber> Revoked(const Committed& done) {
    std::vector<WorkerNumber> workers;
    for (const Outgoing& out : done.outgoing) {
      if (out.message.has_revoke()) workers.push_back(out.worker);
    }
    return workers;
  }
  int32_t LostWorkers() { return disk.jobs.at(job).attempts.at(late.index).lost_workers(); }

  std::string kind = "vllm";
  bool routed = false;  // the job has a route
  WorkerNumber owner = 0;
  WorkerNumber helper = 0;
  JobNumber job = 0;
  RequestId late;
  std::vector<RequestId> copied;
};

TEST_F(DispatcherCopies, TheFirstAnswerCountsAndTheOtherCallIsGivenUp) {
  for (const bool copy_wins : {true, false}) {
    MakeCopy();
    ASSERT_EQ(copied, std::vector<RequestId>{late});
    EXPECT_EQ(dispatcher->copies_out(), 1);
    EXPECT_EQ(Status(job).counts().in_flight(), 1);
    const WorkerNumber winner = copy_wins ? helper : owner;
    const WorkerNumber loser = copy_wins ? owner : helper;
    const Committed done = Do({Answered(winner, late)});
    EXPECT_EQ(Revoked(done), std::vector<WorkerNumber>{loser});
    EXPECT_EQ(dispatcher->copies_out(), 0);
    EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
    EXPECT_EQ(Decision(Answered(loser, late)), ResultDecision::Kind::kDrop);
  }
}

TEST_F(DispatcherCopies, BothAnswersInOneCommitGiveOneOutcome) {
  MakeCopy();
  const Committed done = Do({Answered(owner, late), Answered(helper, late)});
  EXPECT_EQ(done.plan.decisions[0].kind, ResultDecision::Kind::kRecord);
  EXPECT_EQ(done.plan.decisions[1].kind, ResultDecision::Kind::kDuplicate);
}

TEST_F(DispatcherCopies, ThereIsOneCopyAtATime) {
  MakeCopy();
  const WorkerNumber third = Connect("third", 64);
  Report(third, 64, {});
  Report(owner, 64, {late}, 100);
  EXPECT_TRUE(Plan().empty());
}

TEST_F(DispatcherCopies, AFailureOfOneIsNoneWhileTheOtherGoesOn) {
  for (const bool copy_fails : {true, false}) {
    MakeCopy();
    EXPECT_EQ(Decision(Failed(copy_fails ? helper : owner, late)), ResultDecision::Kind::kDrop);
    EXPECT_EQ(dispatcher->copies_out(), 0);
    EXPECT_EQ(Status(job).counts().in_flight(), 1);
    // Now it is the other's, whose failure counts.
    EXPECT_EQ(Decision(Failed(copy_fails ? owner : helper, late)), ResultDecision::Kind::kRetry);
    EXPECT_EQ(disk.jobs.at(job).attempts.at(late.index).charged(), 1);
  }
}

TEST_F(DispatcherCopies, WhatIsHandedBackStaysWithTheOther) {
  MakeCopy();
  HandBack(owner);
  EXPECT_EQ(Status(job).counts().in_flight(), 1);
  HandBack(helper);
  EXPECT_EQ(Status(job).counts().in_flight(), 0);
  EXPECT_EQ(Status(job).counts().pending(), 1);
}

// The loss of a worker is evidence, whichever of the two it had; the other goes on.
TEST_F(DispatcherCopies, ALostWorkerCountsAndTheOtherGoesOn) {
  for (const bool copy_dies : {true, false}) {
    MakeCopy();
    const WorkerNumber dies = copy_dies ? helper : owner;
    const WorkerNumber lives = copy_dies ? owner : helper;
    dispatcher->OnStreamClosed(dies, clock.Now());
    clock.Advance(absl::Seconds(9));
    Report(lives, 64, {});
    Tick();
    EXPECT_EQ(LostWorkers(), 1);
    EXPECT_EQ(Status(job).counts().in_flight(), 1);
    EXPECT_EQ(Decision(Answered(lives, late)), ResultDecision::Kind::kRecord);
    clock.Advance(absl::Minutes(20));
    Tick();
  }
}

TEST_F(DispatcherCopies, WhenBothAreLostBothCount) {
  MakeCopy();
  dispatcher->OnStreamClosed(owner, clock.Now());
  dispatcher->OnStreamClosed(helper, clock.Now());
  clock.Advance(absl::Seconds(9));
  Tick();
  EXPECT_EQ(LostWorkers(), 2);
  EXPECT_EQ(Status(job).counts().in_flight(), 0);
}

// Between the decision and the disk's word: what was to go on comes back.
TEST_F(DispatcherCopies, TheOtherMayHandItBackWhileALossIsBeingWritten) {
  MakeCopy();
  dispatcher->OnStreamClosed(owner, clock.Now());
  clock.Advance(absl::Seconds(9));
  Report(helper, 64, {});
  dispatcher->Tick(clock.Now());
  std::vector<absl::Status> statuses;
  const CommitPlan plan = dispatcher->Prepare({}, {}, &statuses, clock.Now(), clock.WallNow());
  ASSERT_EQ(plan.losses.size(), 1u);
  HandBack(helper);
  disk.Write(plan);
  dispatcher->Apply(plan, clock.Now(), clock.WallNow());
  dispatcher->CheckConsistent();
  EXPECT_EQ(Status(job).counts().in_flight(), 0);
  EXPECT_EQ(Status(job).counts().pending(), 1);
}

TEST_F(DispatcherCopies, AReconnectedWorkerKeepsItsCopyAndTheHolderItsCall) {
  MakeCopy();
  for (const std::string name : {"helper", "owner"}) {
    v1::Hello hello = HelloOf(name, name + "-session");
    Hold(&hello, late, false);
    const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
    EXPECT_EQ(reply->welcome.drop_size(), 0) << name;
    dispatcher->CheckConsistent();
  }
  EXPECT_EQ(dispatcher->copies_out(), 1);
  // It has it no more.
  EXPECT_TRUE(
      dispatcher->OnHello(HelloOf("helper", "helper-session"), clock.Now(), clock.WallNow()).ok());
  EXPECT_EQ(dispatcher->copies_out(), 0);
  EXPECT_EQ(Status(job).counts().in_flight(), 1);
}

TEST_F(DispatcherCopies, AfterARestartOneOfThemGoesOn) {
  MakeCopy();
  Start();
  int dropped = 0;
  for (const std::string name : {"helper", "owner"}) {
    v1::Hello hello = HelloOf(name, name + "-session");
    Hold(&hello, late, false);
    dropped += dispatcher->OnHello(hello, clock.Now(), clock.WallNow())->welcome.drop_size();
  }
  EXPECT_EQ(dropped, 1);
  EXPECT_EQ(Status(job).counts().in_flight(), 1);
}

TEST_F(DispatcherCopies, ACancelledJobGivesBothCallsUp) {
  MakeCopy();
  std::vector<WorkerNumber> revoked = Revoked(Do({}, {Command(Kind::kCancel, job)}));
  std::sort(revoked.begin(), revoked.end());
  EXPECT_EQ(revoked, (std::vector<WorkerNumber>{owner, helper}));
  EXPECT_EQ(dispatcher->copies_out(), 0);
}

TEST_F(DispatcherCopies, NoneWhereItIsNotWanted) {
  MakeCopy(v1::SPECULATION_OFF);
  EXPECT_TRUE(copied.empty());
}

TEST_F(DispatcherCopies, NoneWhereCallsArePaidByTheTokenUnlessAsked) {
  kind = "cerebras";
  MakeCopy();
  EXPECT_TRUE(copied.empty());
  EXPECT_TRUE(Run(Kind::kCancel, job).ok());
  MakeCopy(v1::SPECULATION_ON);
  EXPECT_EQ(copied.size(), 1u);
}

TEST_F(DispatcherCopies, NoneOnceAJobHasCostMoney) {
  MakeCopy(v1::SPECULATION_AUTO, 0.01);
  EXPECT_TRUE(copied.empty());
}

TEST_F(DispatcherCopies, NoneWhenSwitchedOff) {
  options.speculates = false;
  Start();
  MakeCopy();
  EXPECT_TRUE(copied.empty());
}

// Another backend is not what was asked for.
TEST_F(DispatcherCopies, NoneOfAJobWithARoute) {
  routed = true;
  MakeCopy(v1::SPECULATION_ON);
  EXPECT_TRUE(copied.empty());
}

// It may be what took the first worker down.
TEST_F(DispatcherCopies, NoneOfWhatALostWorkerHeld) {
  const WorkerNumber dead = Connect("dead", 1);
  job = NewJob(40);
  const std::vector<RequestId> held = Plan();
  ASSERT_EQ(held.size(), 2u);
  owner = Connect("owner", 64);
  Report(owner, 64, {});
  const std::vector<RequestId> others = Plan();
  ASSERT_EQ(others.size(), 38u);
  dispatcher->OnStreamClosed(dead, clock.Now());
  clock.Advance(absl::Seconds(9));
  Report(owner, 64, {});
  Tick();
  ASSERT_EQ(Plan(), held);
  std::vector<ResultEvent> answers = AnswerAll(owner, others);
  for (ResultEvent& answer : answers) answer.result.mutable_timing()->set_latency_ms(1000);
  Do(answers);
  helper = Connect("helper", 64);
  Report(helper, 64, {});
  Report(owner, 64, held, 100);
  EXPECT_TRUE(Plan().empty());
  EXPECT_EQ(Status(job).counts().in_flight(), 2);
}

TEST_F(DispatcherCopies, AnIdleBackendGetsWhatASlowOneHasNotStarted) {
  const GrantPlan plan = PlanBesideAnIdleBackend();
  EXPECT_TRUE(plan.grants.empty());
  ASSERT_EQ(plan.recalls.size(), 1u);
  EXPECT_EQ(plan.recalls[0].worker, owner);
  EXPECT_EQ(plan.recalls[0].message.recall().backend(), "b");
  EXPECT_EQ(plan.recalls[0].message.recall().count(), 32);
  // It is given time to answer.
  EXPECT_TRUE(dispatcher->PlanGrants(clock.Now()).recalls.empty());
  EXPECT_EQ(Status(job).counts().in_flight(), 64);
}

// What would come back may be for nobody else.
TEST_F(DispatcherCopies, NothingIsRecalledWhileAJobHasARoute) {
  routed = true;
  EXPECT_TRUE(PlanBesideAnIdleBackend().recalls.empty());
}

}  // namespace
}  // namespace nightshift
