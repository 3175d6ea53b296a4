#include "tests/coordinator/core/dispatcher_fixture.h"

namespace nightshift {
namespace {

class DispatcherWorkers : public DispatcherFixture {
 protected:
  v1::WorkerStatus WorkerNamed(const std::string& name) {
    for (const v1::WorkerStatus& worker : dispatcher->ListWorkers(clock.Now())) {
      if (worker.name() == name) return worker;
    }
    return {};
  }
  void AdvanceAndTick(absl::Duration d) {
    clock.Advance(d);
    Tick();
  }
};

// A worker that is killed costs its lease time, not the job.
TEST_F(DispatcherWorkers, ASilentWorkerLosesItsLeasesAfterTheTimeToLive) {
  const JobNumber job = NewJob(100);
  Connect("dead");
  ASSERT_EQ(Plan().size(), 16u);
  AdvanceAndTick(absl::Seconds(30));
  EXPECT_EQ(Status(job).counts().in_flight(), 16);
  EXPECT_EQ(WorkerNamed("dead").state(), "silent");
  AdvanceAndTick(absl::Seconds(1));
  EXPECT_EQ(Status(job).counts().in_flight(), 0);
  EXPECT_EQ(WorkerNamed("dead").state(), "gone");
  EXPECT_EQ(dispatcher->lapsed_leases(), 1);
  Connect("alive");
  EXPECT_EQ(Plan()[0], (RequestId{job, 0}));
}

// A lease lives as long as its worker, however long the calls take and wait.
TEST_F(DispatcherWorkers, ReportsKeepLeasesForEver) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("w");
  Plan();
  for (int i = 0; i < 3600; ++i) {
    AdvanceAndTick(absl::Seconds(1));
    dispatcher->OnReport(worker, ReportOf(8, 0), clock.Now());
  }
  EXPECT_EQ(Status(job).counts().in_flight(), 16);
}

TEST_F(DispatcherWorkers, AWallClockJumpChangesNothing) {
  const JobNumber job = NewJob(100);
  Connect("w");
  Plan();
  clock.JumpWall(absl::Hours(5));
  dispatcher->Tick(clock.Now());
  clock.JumpWall(absl::Hours(-50));
  dispatcher->Tick(clock.Now());
  EXPECT_EQ(Status(job).counts().in_flight(), 16);
}

TEST_F(DispatcherWorkers, AWorkerWhoseStreamIsGoneLosesItsLeasesSooner) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("dead");
  ASSERT_EQ(Plan().size(), 16u);
  dispatcher->OnStreamClosed(worker, clock.Now());
  AdvanceAndTick(options.reconnect_grace);
  EXPECT_EQ(Status(job).counts().in_flight(), 16);
  AdvanceAndTick(absl::Seconds(1));
  EXPECT_EQ(Status(job).counts().in_flight(), 0);
  EXPECT_EQ(WorkerNamed("dead").state(), "gone");
}

TEST_F(DispatcherWorkers, AReconnectWithinTheGraceKeepsTheLeases) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  dispatcher->OnStreamClosed(worker, clock.Now());
  EXPECT_EQ(WorkerNamed("w").state(), "silent");
  AdvanceAndTick(options.reconnect_grace);
  v1::Hello hello = HelloOf("w", "w-session");
  for (const RequestId& id : ids) Hold(&hello, id, false);
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  EXPECT_EQ(reply->worker, worker);
  EXPECT_EQ(reply->welcome.drop_size(), 0);
  EXPECT_EQ(Status(job).counts().in_flight(), 16);
  EXPECT_EQ(WorkerNamed("w").state(), "connected");
  EXPECT_EQ(dispatcher->lapsed_leases(), 0);
}

TEST_F(DispatcherWorkers, LeasesLostOnTheWayAreFreeAtOnce) {
  const JobNumber job = NewJob(100);
  Connect("w");
  const std::vector<RequestId> ids = Plan();
  v1::Hello hello = HelloOf("w", "w-session");
  Hold(&hello, ids[3], false);
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(Status(job).counts().in_flight(), 1);
  dispatcher->OnReport(reply->worker, ReportOf(8, 0), clock.Now());
  const std::vector<RequestId> again = Plan();
  EXPECT_EQ(again[0], ids[0]);
  EXPECT_EQ(again.size(), 15u);
}

TEST_F(DispatcherWorkers, AWorkerThatComesBackLateKeepsOnlyWhatNobodyElseHas) {
  const JobNumber job = NewJob(4);
  const WorkerNumber late = Connect("late");
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 4u);
  dispatcher->OnStreamClosed(late, clock.Now());
  AdvanceAndTick(absl::Seconds(31));
  const WorkerNumber other = Connect("other", 1);  // takes two
  ASSERT_EQ(Plan().size(), 2u);
  v1::Hello hello = HelloOf("late", "late-session");
  Hold(&hello, ids[0], false);  // the other one's now
  Hold(&hello, ids[1], true);   // the other one's too, but this answer is there already
  Hold(&hello, ids[2], false);  // nobody's
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  ASSERT_EQ(reply->welcome.drop_size(), 1);
  EXPECT_EQ(reply->welcome.drop(0).index(), ids[0].index);
  EXPECT_EQ(Status(job).counts().in_flight(), 3);
  const Committed done = Do({Answered(reply->worker, ids[1])});
  EXPECT_EQ(done.plan.decisions[0].kind, ResultDecision::Kind::kRecord);
  ASSERT_EQ(done.outgoing.size(), 1u);
  EXPECT_EQ(done.outgoing[0].worker, other);
}

TEST_F(DispatcherWorkers, WhatIsBeingWrittenIsDroppedUnlessAnswered) {
  NewJob(2);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  std::vector<absl::Status> statuses;
  const std::vector<ResultEvent> results = AnswerAll(worker, ids);
  const CommitPlan plan = dispatcher->Prepare(results, {}, &statuses, clock.Now(), clock.WallNow());
  v1::Hello hello = HelloOf("w", "w-session");
  Hold(&hello, ids[0], true);
  Hold(&hello, ids[1], false);
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  ASSERT_EQ(reply->welcome.drop_size(), 1);
  EXPECT_EQ(reply->welcome.drop(0).index(), ids[1].index);
  disk.Write(plan);
  dispatcher->Apply(plan, clock.Now(), clock.WallNow());
  EXPECT_EQ(Decision(Answered(worker, ids[0])), ResultDecision::Kind::kDrop);  // job completed
}

TEST_F(DispatcherWorkers, ANewProcessOfTheSameNameFreesTheOldOnesLeases) {
  const JobNumber job = NewJob(100);
  const WorkerNumber old = Connect("w");
  Plan();
  // The old stream still stands: perhaps two machines with one name.
  v1::Hello hello = HelloOf("w", "second");
  ASSERT_TRUE(dispatcher->OnHello(hello, clock.Now(), clock.WallNow()).ok());
  EXPECT_EQ(Status(job).counts().in_flight(), 16);
  dispatcher->OnStreamClosed(old, clock.Now());
  EXPECT_EQ(Status(job).counts().in_flight(), 16);
  ASSERT_TRUE(dispatcher->OnHello(HelloOf("w", "third"), clock.Now(), clock.WallNow()).ok());
  EXPECT_TRUE(dispatcher->HasInternalWork());
  Round();
  EXPECT_EQ(Status(job).counts().in_flight(), 0);
}

// The worker's breaker is open but its report is not here yet: sending the same again would make
// the two play ping-pong.
TEST_F(DispatcherWorkers, ABackendThatHandsBackGetsNothingUntilItReports) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  v1::Returned returned;
  for (const RequestId& id : {ids[1], ids[2]}) {
    returned.add_keys()->set_job(id.job);
    returned.mutable_keys(returned.keys_size() - 1)->set_index(id.index);
  }
  returned.add_keys()->set_job(999);  // nobody's
  dispatcher->OnReturned(worker, returned, clock.Now());
  EXPECT_EQ(Status(job).counts().in_flight(), 14);
  Do({Answered(worker, ids[0]), Answered(worker, ids[3]), Answered(worker, ids[4]),
      Answered(worker, ids[5])});
  EXPECT_TRUE(Plan().empty());
  dispatcher->OnReport(worker, ReportOf(8, 0), clock.Now());
  EXPECT_EQ(Plan()[0], ids[1]);
}

TEST_F(DispatcherWorkers, OnlyTheHolderCanHandBack) {
  const JobNumber job = NewJob(100);
  Connect("w");
  const std::vector<RequestId> ids = Plan();
  const WorkerNumber other = Connect("other");
  v1::Returned returned;
  returned.add_keys()->set_job(ids[0].job);
  dispatcher->OnReturned(other, returned, clock.Now());
  EXPECT_EQ(Status(job).counts().in_flight(), 16);
}

TEST_F(DispatcherWorkers, ADrainingWorkerFinishesWhatItHolds) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  dispatcher->OnDrain(worker, v1::Drain(), clock.Now());
  EXPECT_EQ(WorkerNamed("w").state(), "draining");
  EXPECT_EQ(WorkerNamed("w").leased(), 16);
  Do(AnswerAll(worker, ids));
  EXPECT_EQ(Status(job).counts().succeeded(), 16);
  EXPECT_TRUE(Plan().empty());
}

// Not seven seconds later, as one whose connection broke.
TEST_F(DispatcherWorkers, AWorkerThatEndedInOrderIsGoneAtOnce) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  dispatcher->OnDrain(worker, v1::Drain(), clock.Now());
  Do(AnswerAll(worker, ids));
  EXPECT_EQ(WorkerNamed("w").state(), "draining");
  dispatcher->OnStreamClosed(worker, clock.Now());
  EXPECT_EQ(WorkerNamed("w").state(), "gone");
  EXPECT_EQ(Status(job).counts().succeeded(), 16);
  EXPECT_EQ(dispatcher->lapsed_leases(), 0);
}

// Its last answers are there and being written, or its stream broke and it comes again with them.
TEST_F(DispatcherWorkers, AWorkerThatIsOwedAnswersIsNotGoneBeforeTheyAreRecorded) {
  NewJob(16);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  dispatcher->OnDrain(worker, v1::Drain(), clock.Now());
  dispatcher->OnStreamClosed(worker, clock.Now());
  AdvanceAndTick(absl::Seconds(1));
  EXPECT_EQ(WorkerNamed("w").state(), "draining");
  Do(AnswerAll(worker, ids));
  AdvanceAndTick(absl::Seconds(1));
  EXPECT_EQ(WorkerNamed("w").state(), "gone");
}

TEST_F(DispatcherWorkers, MessagesOfUnknownWorkersDoNothing) {
  dispatcher->OnReport(77, ReportOf(8, 0), clock.Now());
  dispatcher->OnReturned(77, v1::Returned(), clock.Now());
  dispatcher->OnDrain(77, v1::Drain(), clock.Now());
  dispatcher->OnStreamClosed(77, clock.Now());
  EXPECT_TRUE(dispatcher->ListWorkers(clock.Now()).empty());
}

TEST_F(DispatcherWorkers, AnotherProtocolIsRefused) {
  v1::Hello hello = HelloOf("w", "s");
  hello.set_protocol("other");
  EXPECT_EQ(dispatcher->OnHello(hello, clock.Now(), clock.WallNow()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(DispatcherWorkers, AWorkerThatWakesOnAnOpenStreamWorksAgain) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  AdvanceAndTick(absl::Seconds(60));  // SIGSTOP
  EXPECT_EQ(Status(job).counts().pending(), 100);
  dispatcher->OnReport(worker, ReportOf(8, 0), clock.Now());
  EXPECT_EQ(WorkerNamed("w").state(), "connected");
  EXPECT_EQ(Plan(), ids);
}

TEST_F(DispatcherWorkers, ListsWhatWorkersReport) {
  v1::Report report = ReportOf(8, 2.5, {"m"});
  report.mutable_backends(0)->set_in_flight(3);
  report.mutable_backends(0)->set_waiting_for("rate limit");
  const WorkerNumber worker = Connect("w");
  dispatcher->OnReport(worker, report, clock.Now());
  clock.Advance(absl::Seconds(2));
  const v1::WorkerStatus status = WorkerNamed("w");
  EXPECT_EQ(status.session(), "w-session");
  EXPECT_NEAR(status.last_seen_seconds(), 2, 0.01);
  ASSERT_EQ(status.backends_size(), 1);
  EXPECT_EQ(status.backends(0).name(), "b");
  EXPECT_EQ(status.backends(0).models(0), "m");
  EXPECT_EQ(status.backends(0).limit(), 8);
  EXPECT_EQ(status.backends(0).in_flight(), 3);
  EXPECT_EQ(status.backends(0).requests_per_second(), 2.5);
  EXPECT_EQ(status.backends(0).waiting_for(), "rate limit");
}

}  // namespace
}  // namespace nightshift
