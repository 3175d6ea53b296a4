#include "tests/coordinator/core/dispatcher_fixture.h"

namespace nightshift {
namespace {

using DispatcherRestart = DispatcherFixture;

// What a coordinator had given out when it died, sent or not, is given out again.
TEST_F(DispatcherRestart, WhatWasNeverLeasedGoesOutAtOnceAndHolesWait) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 16u);
  Do({Answered(worker, ids[0])});
  Start();
  EXPECT_EQ(State(job), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Status(job).counts().succeeded(), 1);
  EXPECT_EQ(Status(job).counts().pending(), 99);
  Connect("other", 100);
  const std::vector<RequestId> first = Plan();
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(first[0], (RequestId{job, 16}));
  const MonotonicTime due = dispatcher->PlanGrants(clock.Now()).next_due;
  EXPECT_EQ(due, clock.Now() + options.reclaim_grace);
  clock.Advance(options.reclaim_grace);
  const std::vector<RequestId> holes = Plan();
  ASSERT_EQ(holes.size(), 15u);
  EXPECT_EQ(holes[0], (RequestId{job, 1}));
}

TEST_F(DispatcherRestart, WithoutAGraceTimeHolesGoOutAtOnce) {
  const JobNumber job = NewJob(100);
  Connect("w");
  Plan();
  options.reclaim_grace = absl::ZeroDuration();
  Start();
  Connect("v");
  EXPECT_EQ(Plan()[0], (RequestId{job, 0}));
}

TEST_F(DispatcherRestart, AWorkerClaimsWhatItStillHolds) {
  const JobNumber job = NewJob(100);
  const WorkerNumber before = Connect("w");
  const std::vector<RequestId> ids = Plan();
  Do({Answered(before, ids[0])});
  Start();
  v1::Hello hello = HelloOf("w", "w-session");
  Hold(&hello, ids[0], true);        // finished: its acknowledgement was lost
  Hold(&hello, ids[1], true);        // its result follows
  Hold(&hello, ids[2], false);       // being called
  Hold(&hello, {99, 0}, false);      // nobody's
  Hold(&hello, {job, 1000}, false);  // out of range
  Hold(&hello, {job, 50}, false);    // above the frontier: odd, but it runs there
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  ASSERT_TRUE(reply.ok());
  ASSERT_EQ(reply->welcome.drop_size(), 3);
  EXPECT_EQ(reply->welcome.drop(0).index(), 0u);
  EXPECT_EQ(reply->welcome.drop(1).job(), 99u);
  EXPECT_EQ(reply->welcome.drop(2).index(), 1000u);
  EXPECT_EQ(reply->welcome.epoch(), options.epoch);
  EXPECT_EQ(reply->welcome.lease_ttl_ms(), 30000);
  EXPECT_EQ(reply->welcome.reconnect_grace_ms(), 7000);
  EXPECT_EQ(Status(job).counts().in_flight(), 3);
  // A failure of a claimed request counts: the worker holds it.
  const WorkerNumber worker = reply->worker;
  EXPECT_EQ(Decision(Failed(worker, ids[1])), ResultDecision::Kind::kRetry);
  EXPECT_EQ(Decision(Answered(worker, ids[2])), ResultDecision::Kind::kRecord);
  clock.Advance(options.reclaim_grace);
  dispatcher->OnReport(worker, ReportOf(100, 0), clock.Now());
  for (const RequestId& id : Plan()) EXPECT_NE(id.index, 50u);
}

// The process died and its answers were kept: the next one brings them under a new session.
TEST_F(DispatcherRestart, AnswersLeftByADeadProcessAreClaimedAndTakenFromTheNext) {
  const JobNumber job = NewJob(100);
  const WorkerNumber dead = Connect("w", 8);
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 16u);
  dispatcher->OnStreamClosed(dead, clock.Now());
  v1::Hello hello = HelloOf("w", "next-session");
  for (int i = 0; i < 3; ++i) Hold(&hello, ids[i], true);
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->welcome.drop_size(), 0);
  // What it holds is not handed out again, what nobody holds is.
  Round();
  dispatcher->OnReport(reply->worker, ReportOf(8, 0), clock.Now());
  const std::vector<RequestId> rest = Plan();
  EXPECT_EQ(rest[0], ids[3]);
  for (const RequestId& id : rest) EXPECT_GT(id.index, ids[2].index);
  EXPECT_EQ(Decision(Answered(reply->worker, ids[0])), ResultDecision::Kind::kRecord);
  EXPECT_EQ(Status(job).counts().succeeded(), 1);
}

TEST_F(DispatcherRestart, AnswersThatNobodyNeedsAnyMoreAreDropped) {
  const JobNumber ended = NewJob(2);
  const JobNumber deleted = NewJob(2);
  const JobNumber running = NewJob(2);
  const WorkerNumber first = Connect("w");
  Do(AnswerAll(first, Plan()));
  ASSERT_EQ(State(ended), v1::JOB_STATE_COMPLETED);
  ASSERT_TRUE(Run(Kind::kDelete, deleted).ok());
  const JobNumber open = NewJob(2);
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 2u);
  Do({Answered(first, ids[0])});
  Start();
  v1::Hello hello = HelloOf("w", "next-session");
  Hold(&hello, {ended, 0}, true);
  Hold(&hello, {deleted, 0}, true);
  Hold(&hello, {running, 1}, true);
  Hold(&hello, {open, 0}, true);  // finished
  Hold(&hello, {77, 0}, true);    // never was
  Hold(&hello, {open, 1}, true);
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  ASSERT_EQ(reply->welcome.drop_size(), 5);
  // And if they come all the same:
  const WorkerNumber next = reply->worker;
  EXPECT_EQ(Decision(Answered(next, {ended, 0})), ResultDecision::Kind::kDrop);
  EXPECT_EQ(Decision(Answered(next, {deleted, 0})), ResultDecision::Kind::kDrop);
  EXPECT_EQ(Decision(Answered(next, {77, 0})), ResultDecision::Kind::kDrop);
  EXPECT_EQ(Decision(Answered(next, {open, 0})), ResultDecision::Kind::kDuplicate);
  EXPECT_EQ(Decision(Answered(next, {open, 1})), ResultDecision::Kind::kRecord);
  EXPECT_EQ(State(open), v1::JOB_STATE_COMPLETED);
}

// Jobs are numbered from one in every store: what belongs to another one must not seem to be ours.
TEST_F(DispatcherRestart, WhatAWorkerHoldsOfAnotherStoreIsIgnored) {
  options.store_id = "ours";
  Start();
  const JobNumber job = NewJob(4);
  v1::Hello hello = HelloOf("w", "s");
  hello.set_store("theirs");
  Hold(&hello, {job, 0}, true);
  Hold(&hello, {job, 1}, false);
  const auto other = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  EXPECT_EQ(other->welcome.store(), "ours");
  EXPECT_EQ(Status(job).counts().in_flight(), 0);
  EXPECT_EQ(Status(job).counts().pending(), 4);
  hello.set_store("ours");
  EXPECT_TRUE(dispatcher->OnHello(hello, clock.Now(), clock.WallNow()).ok());
  EXPECT_EQ(Status(job).counts().in_flight(), 2);
}

TEST_F(DispatcherRestart, AnAnswerMayComeBeforeItsClaim) {
  const JobNumber job = NewJob(3);
  Connect("w");
  const std::vector<RequestId> ids = Plan();
  Start();
  EXPECT_EQ(Decision(Answered(55, ids[1])), ResultDecision::Kind::kRecord);
  EXPECT_EQ(Decision(Failed(55, ids[2])), ResultDecision::Kind::kDrop);
  EXPECT_EQ(Status(job).counts().succeeded(), 1);
}

// The failure is in the store, only its acknowledgement was lost: the worker is told to forget it.
TEST_F(DispatcherRestart, AFailureThatWasChargedIsNotChargedAgainAfterARestart) {
  const JobNumber job = NewJob(2);
  const WorkerNumber before = Connect("w");
  const std::vector<RequestId> ids = Plan();
  Do({Failed(before, ids[0])});
  Start();
  v1::Hello hello = HelloOf("w", "w-session");
  Hold(&hello, ids[0], true);
  hello.mutable_held(0)->set_kind(v1::AttemptResult::RETRY);
  Hold(&hello, ids[1], true);
  hello.mutable_held(1)->set_kind(v1::AttemptResult::RETRY);
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  ASSERT_EQ(reply->welcome.drop_size(), 1);
  EXPECT_EQ(reply->welcome.drop(0).index(), ids[0].index);
  // One that comes all the same changes nothing; one that was not charged is.
  EXPECT_EQ(Decision(Failed(reply->worker, ids[0])), ResultDecision::Kind::kDrop);
  EXPECT_EQ(Decision(Failed(reply->worker, ids[1])), ResultDecision::Kind::kRetry);
  EXPECT_EQ(disk.jobs[job].attempts.at(ids[0].index).charged(), 1);
}

// Another worker has failed with it meanwhile. The call that is still under way counts as what it
// is.
TEST_F(DispatcherRestart, ACallUnderWayFromAnEarlierAttemptIsChargedWhenItFails) {
  const JobNumber job = NewJob(1);
  const WorkerNumber before = Connect("w");
  const RequestId id = Plan()[0];
  Do({Failed(before, id)});
  v1::Hello hello = HelloOf("slow", "slow-session");
  Hold(&hello, id, false);
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  EXPECT_EQ(reply->welcome.drop_size(), 0);
  EXPECT_EQ(Decision(Failed(reply->worker, id, 0)), ResultDecision::Kind::kRetry);
  EXPECT_EQ(disk.jobs[job].attempts.at(0).charged(), 2);
}

TEST_F(DispatcherRestart, ChargedAttemptsAreRemembered) {
  const JobNumber job = NewJob(1);
  const WorkerNumber worker = Connect("w");
  const RequestId id = Plan()[0];
  Do({Failed(worker, id)});
  Start();
  clock.Advance(options.reclaim_grace);
  const WorkerNumber again = Connect("w");
  const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
  ASSERT_EQ(plan.grants.size(), 1u);
  EXPECT_EQ(plan.grants[0].items[0].attempt, 1);
  EXPECT_TRUE(Do({Answered(again, id)}).plan.decisions[0].delete_attempts_row);
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
}

TEST_F(DispatcherRestart, EndedJobsKeepTheirCountsAndNeverChange) {
  const JobNumber job = NewJob(10);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  Do({Answered(worker, ids[0])}, {Command(Kind::kCancel, job)});
  Round();
  const v1::JobStatus before = Status(job);
  ASSERT_EQ(before.state(), v1::JOB_STATE_CANCELLED);
  Start();
  EXPECT_EQ(Status(job).SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(Decision(Answered(worker, ids[1])), ResultDecision::Kind::kDrop);
}

TEST_F(DispatcherRestart, ACancellationInterruptedByACrashIsFinished) {
  const JobNumber job = NewJob(10);
  Connect("w");
  Plan();
  EXPECT_TRUE(Run(Kind::kCancel, job).ok());
  Start();
  EXPECT_EQ(State(job), v1::JOB_STATE_CANCELLING);
  EXPECT_TRUE(dispatcher->HasInternalWork());
  Round();
  EXPECT_EQ(State(job), v1::JOB_STATE_CANCELLED);
  EXPECT_FALSE(dispatcher->HasInternalWork());
}

// An end that a crash of some older version left half written.
TEST_F(DispatcherRestart, AJobWithAllOutcomesIsCompletedAfterARestart) {
  const JobNumber job = NewJob(2);
  ConnectAndAnswer("w");
  disk.jobs[job].record.set_state(v1::JOB_STATE_FINALIZING);
  disk.jobs[job].record.clear_final_sums();
  Start();
  EXPECT_TRUE(dispatcher->HasInternalWork());
  Round();
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(Status(job).counts().succeeded(), 2);
}

TEST_F(DispatcherRestart, APausedJobStaysPaused) {
  const JobNumber job = NewJob(10);
  Connect("w");
  const std::vector<RequestId> ids = Plan();
  EXPECT_TRUE(Run(Kind::kPause, job).ok());
  Start();
  EXPECT_EQ(State(job), v1::JOB_STATE_PAUSED);
  v1::Hello hello = HelloOf("w", "w-session");
  Hold(&hello, ids[0], false);
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  EXPECT_EQ(reply->welcome.drop_size(), 0);
  EXPECT_EQ(Decision(Answered(reply->worker, ids[0])), ResultDecision::Kind::kRecord);
}

TEST_F(DispatcherRestart, JobsThatWereNeverSealedAreLeftOut) {
  disk.jobs[5].record.set_id("job_unsealed0000");
  disk.jobs[5].record.set_state(v1::JOB_STATE_VALIDATING);
  Start();
  EXPECT_TRUE(dispatcher->ListJobs().empty());
}

// Whatever the size of the job, a restart knows the same sums as the rows.
TEST_F(DispatcherRestart, ManyChunksComeBackAsTheyWere) {
  const JobNumber job = NewJob(200000);
  const WorkerNumber worker = Connect("w", 100000);
  std::vector<RequestId> all;
  while (all.size() < 150000) {
    const std::vector<RequestId> ids = Plan();
    ASSERT_FALSE(ids.empty());
    std::vector<ResultEvent> results;
    for (const RequestId& id : ids) {
      if (id.index % 3 != 0) results.push_back(Answered(worker, id));
    }
    Commit(*dispatcher, disk, clock, results, {});
    all.insert(all.end(), ids.begin(), ids.end());
    if (all.size() >= 100000) break;
  }
  const int64_t succeeded = Status(job).counts().succeeded();
  const std::string bitmap = *dispatcher->FinishedBitmap(job, 1);
  Start();
  EXPECT_EQ(Status(job).counts().succeeded(), succeeded);
  EXPECT_EQ(*dispatcher->FinishedBitmap(job, 1), bitmap);
  EXPECT_EQ(dispatcher->FinishedBitmap(job, 4).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace nightshift
