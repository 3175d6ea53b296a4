#include "tests/coordinator/core/dispatcher_fixture.h"

namespace nightshift {
namespace {

using DispatcherCommands = DispatcherFixture;

constexpr absl::StatusCode kForbidden = absl::StatusCode::kFailedPrecondition;

TEST_F(DispatcherCommands, ASealedJobIsQueuedAndCanBeFound) {
  JobCommand seal = Seal(7, 3);
  seal.record.set_idempotency_token("token");
  seal.record.mutable_options()->set_deadline_ms(60000);
  ASSERT_TRUE(Run(seal).ok());
  EXPECT_EQ(*dispatcher->FindJob("job_000000000007"), 7u);
  EXPECT_EQ(dispatcher->FindJobByToken("token"), 7u);
  const v1::JobRecord record = *dispatcher->GetRecord(7);
  EXPECT_EQ(record.state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(record.run(), 1);
  EXPECT_EQ(record.created_at_ms(), absl::ToUnixMillis(clock.WallNow()));
  EXPECT_EQ(record.deadline_at_ms(), record.created_at_ms() + 60000);
  EXPECT_EQ(Status(7).counts().pending(), 3);
}

TEST_F(DispatcherCommands, ATokenMakesOneJobOnly) {
  JobCommand first = Seal(1, 3), second = Seal(2, 3), third = Seal(3, 3);
  for (JobCommand* seal : {&first, &second, &third}) seal->record.set_idempotency_token("t");
  const Committed done = Do({}, {first, second});  // at the same moment
  EXPECT_TRUE(done.statuses[0].ok());
  EXPECT_EQ(done.statuses[1].code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(done.statuses[1].message(), first.record.id());
  EXPECT_EQ(done.plan.commands.size(), 1u);
  EXPECT_EQ(Run(third).message(), first.record.id());
  EXPECT_EQ(dispatcher->ListJobs(), std::vector<JobNumber>{1});
}

TEST_F(DispatcherCommands, JobsWithoutATokenAreAlwaysNew) {
  NewJob(1);
  NewJob(1);
  EXPECT_EQ(dispatcher->ListJobs(), (std::vector<JobNumber>{2, 1}));
}

TEST_F(DispatcherCommands, InvalidLinesAreFailedFromTheStart) {
  JobCommand seal = Seal(1, 4);
  seal.invalid = {0, 2};
  ASSERT_TRUE(Run(seal).ok());
  EXPECT_EQ(Status(1).counts().failed(), 2);
  EXPECT_EQ(Status(1).counts().pending(), 2);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  EXPECT_EQ(ids, (std::vector<RequestId>{{1, 1}, {1, 3}}));
  Do(AnswerAll(worker, ids));
  EXPECT_EQ(State(1), v1::JOB_STATE_COMPLETED);
}

TEST_F(DispatcherCommands, AJobOfInvalidLinesOnlyCompletesAtTheSeal) {
  JobCommand seal = Seal(1, 2);
  seal.invalid = {0, 1};
  const Committed done = Do({}, {seal});
  ASSERT_EQ(done.plan.job_writes.size(), 1u);
  EXPECT_EQ(done.plan.job_writes[0].record.state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(done.plan.job_writes[0].record.final_sums().failed(), 2);
  EXPECT_EQ(State(1), v1::JOB_STATE_COMPLETED);
}

TEST_F(DispatcherCommands, CancelRevokesAtOnceAndEndsInTheNextRound) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  Do({Answered(worker, ids[0])});
  EXPECT_FALSE(dispatcher->HasInternalWork());
  const int before = wake_ups;
  const Committed done = Do({}, {Command(Kind::kCancel, job)});
  ASSERT_EQ(done.outgoing.size(), 1u);
  EXPECT_EQ(done.outgoing[0].worker, worker);
  EXPECT_EQ(done.outgoing[0].message.revoke().keys_size(), 15);
  EXPECT_EQ(State(job), v1::JOB_STATE_CANCELLING);
  EXPECT_EQ(Status(job).counts().pending(), 99);
  EXPECT_EQ(Status(job).counts().in_flight(), 0);
  EXPECT_TRUE(dispatcher->HasInternalWork());
  EXPECT_GT(wake_ups, before);
  Round();
  EXPECT_FALSE(dispatcher->HasInternalWork());
  EXPECT_EQ(State(job), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Status(job).counts().succeeded(), 1);
  EXPECT_EQ(Status(job).counts().cancelled(), 99);
  EXPECT_GT(Status(job).finished_at_ms(), 0);
}

// Whatever comes with the cancellation is kept, and the last answer wins over it.
TEST_F(DispatcherCommands, AnswersInTheSameCommitAsTheCancellationAreKept) {
  const JobNumber job = NewJob(2);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  Do({Answered(worker, ids[0])}, {Command(Kind::kCancel, job)});
  EXPECT_EQ(Status(job).counts().succeeded(), 1);
  Round();
  EXPECT_EQ(Status(job).counts().cancelled(), 1);
}

TEST_F(DispatcherCommands, ACancellationThatComesWithTheLastAnswerIsTooLate) {
  const JobNumber job = NewJob(2);
  const WorkerNumber worker = Connect("w");
  const Committed done = Do(AnswerAll(worker, Plan()), {Command(Kind::kCancel, job)});
  EXPECT_EQ(done.statuses[0].code(), kForbidden);
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(Status(job).counts().succeeded(), 2);
}

// What was on its way when the job was cancelled (that its first requests go out, an answer, a
// failure, a change of mind) does not take it back to where it was.
TEST_F(DispatcherCommands, ACancelledJobOnlyMovesForward) {
  const JobNumber job = NewJob(10);
  const WorkerNumber worker = Connect("w");
  dispatcher->PlanGrants(clock.Now());
  ASSERT_TRUE(Run(Kind::kCancel, job).ok());
  ASSERT_EQ(State(job), v1::JOB_STATE_CANCELLING);
  const Committed done =
      Do({Answered(worker, {job, 0}), Failed(worker, {job, 1})},
         {Command(Kind::kFrontier, job), Command(Kind::kResume, job), Command(Kind::kPause, job)});
  for (const absl::Status& status : done.statuses) EXPECT_EQ(status.code(), kForbidden) << status;
  ASSERT_EQ(done.plan.job_writes.size(), 1u);
  EXPECT_EQ(done.plan.job_writes[0].record.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(State(job), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Status(job).counts().cancelled(), 10);
}

TEST_F(DispatcherCommands, CommandsThatAreSoAlreadyAreFine) {
  const JobNumber job = NewJob(5);
  EXPECT_TRUE(Run(Kind::kResume, job).ok());
  EXPECT_TRUE(Run(Kind::kPause, job).ok());
  EXPECT_TRUE(Run(Kind::kPause, job).ok());
  EXPECT_TRUE(Run(Kind::kCancel, job).ok());
  EXPECT_TRUE(Run(Kind::kCancel, job).ok());
  EXPECT_TRUE(Run(Kind::kCancel, job).ok());
  EXPECT_EQ(State(job), v1::JOB_STATE_CANCELLED);
  const JobNumber other = NewJob(5);
  EXPECT_TRUE(Run(Kind::kExpire, other).ok());
  EXPECT_TRUE(Run(Kind::kExpire, other).ok());
  EXPECT_EQ(State(other), v1::JOB_STATE_EXPIRED);
}

TEST_F(DispatcherCommands, WhatTheStateForbidsIsRefusedWithASentence) {
  const JobNumber job = NewJob(1);
  ConnectAndAnswer("w");
  ASSERT_EQ(State(job), v1::JOB_STATE_COMPLETED);
  for (const Kind kind : {Kind::kCancel, Kind::kPause, Kind::kResume, Kind::kExpire, Kind::kStop}) {
    const absl::Status status = Run(kind, job);
    EXPECT_EQ(status.code(), kForbidden);
    EXPECT_NE(std::string(status.message()).find("completed"), std::string::npos) << status;
  }
  const JobNumber running = NewJob(1);
  EXPECT_EQ(Run(Kind::kReopen, running).code(), kForbidden);
  const absl::Status deleting = Run(Kind::kDelete, running);
  EXPECT_EQ(deleting.code(), kForbidden);
  EXPECT_NE(std::string(deleting.message()).find("nightshift cancel"), std::string::npos);
}

TEST_F(DispatcherCommands, AnUnknownJobIsAnotherErrorThanAWrongState) {
  for (const Kind kind : {Kind::kCancel, Kind::kPause, Kind::kResume, Kind::kExpire, Kind::kStop,
                          Kind::kReopen, Kind::kDelete, Kind::kFrontier}) {
    EXPECT_EQ(Run(kind, 77).code(), absl::StatusCode::kNotFound);
  }
}

TEST_F(DispatcherCommands, APausedJobWhoseLastCallEndsCompletes) {
  const JobNumber job = NewJob(2);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  EXPECT_TRUE(Run(Kind::kPause, job).ok());
  EXPECT_EQ(Status(job).reason(), v1::PAUSE_REASON_USER);
  Do({Answered(worker, ids[0])});
  EXPECT_EQ(State(job), v1::JOB_STATE_PAUSED);
  Do({Answered(worker, ids[1])});
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
}

TEST_F(DispatcherCommands, AJobPausedBeforeItStartedIsQueuedAgain) {
  const JobNumber job = NewJob(2);
  EXPECT_TRUE(Run(Kind::kPause, job).ok());
  EXPECT_TRUE(Run(Kind::kResume, job).ok());
  EXPECT_EQ(State(job), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Status(job).reason(), v1::PAUSE_REASON_NONE);
}

TEST_F(DispatcherCommands, AFullDiskStopsWhatGoesOutAndTakesWhatComesBack) {
  const JobNumber job = NewJob(20);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  ASSERT_LT(ids.size(), 20u);
  dispatcher->HoldForDisk("the disk of /data is nearly full");
  EXPECT_EQ(State(job), v1::JOB_STATE_PAUSED);
  EXPECT_EQ(Status(job).reason(), v1::PAUSE_REASON_DISK);
  EXPECT_EQ(Status(job).waiting_for(), "paused: the disk of /data is nearly full");
  EXPECT_TRUE(absl::IsResourceExhausted(dispatcher->TakesNewJobs()));
  for (const RequestId& id : ids) {
    EXPECT_EQ(Decision(Answered(worker, id)), ResultDecision::Kind::kRecord);
  }
  EXPECT_TRUE(Plan().empty());

  dispatcher->HoldForDisk("");
  EXPECT_EQ(State(job), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Status(job).reason(), v1::PAUSE_REASON_NONE);
  EXPECT_TRUE(dispatcher->TakesNewJobs().ok());
  EXPECT_FALSE(Plan().empty());
}

// What a person or a policy has paused stays so, whatever the disk does.
TEST_F(DispatcherCommands, AFullDiskChangesNothingForAJobThatIsPausedAnyway) {
  const JobNumber job = NewJob(2);
  EXPECT_TRUE(Run(Kind::kPause, job).ok());
  dispatcher->HoldForDisk("full");
  EXPECT_EQ(Status(job).reason(), v1::PAUSE_REASON_USER);
  dispatcher->HoldForDisk("");
  EXPECT_EQ(State(job), v1::JOB_STATE_PAUSED);
  // Resumed while the disk is full, it waits for the disk alone.
  dispatcher->HoldForDisk("full");
  EXPECT_TRUE(Run(Kind::kResume, job).ok());
  EXPECT_EQ(Status(job).reason(), v1::PAUSE_REASON_DISK);
  dispatcher->HoldForDisk("");
  EXPECT_EQ(State(job), v1::JOB_STATE_QUEUED);
}

// The pause is of memory alone: a coordinator that starts with room knows nothing of it.
TEST_F(DispatcherCommands, AFullDiskLeavesNoTraceInTheStore) {
  const JobNumber job = NewJob(2);
  dispatcher->HoldForDisk("full");
  Start();
  EXPECT_EQ(State(job), v1::JOB_STATE_QUEUED);
}

TEST_F(DispatcherCommands, ExpiryKeepsWhatIsDone) {
  JobCommand seal = Seal(1, 5);
  seal.record.mutable_options()->set_deadline_ms(1000);
  ASSERT_TRUE(Run(seal).ok());
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  EXPECT_TRUE(dispatcher->ExpiredJobs(clock.Now(), clock.WallNow()).empty());
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(dispatcher->ExpiredJobs(clock.Now(), clock.WallNow()), std::vector<JobNumber>{1});
  const Committed done = Do({Answered(worker, ids[0])}, {Command(Kind::kExpire, 1)});
  EXPECT_EQ(State(1), v1::JOB_STATE_EXPIRED);
  EXPECT_EQ(Status(1).counts().succeeded(), 1);
  EXPECT_EQ(Status(1).counts().expired(), 4);
  ASSERT_EQ(done.outgoing.size(), 1u);
  EXPECT_EQ(done.outgoing[0].message.revoke().keys_size(), 4);
  EXPECT_TRUE(dispatcher->ExpiredJobs(clock.Now(), clock.WallNow()).empty());
}

TEST_F(DispatcherCommands, StopFailsTheJobWithItsReason) {
  const JobNumber job = NewJob(3);
  JobCommand stop = Command(Kind::kStop, job);
  stop.detail = "too many errors";
  EXPECT_TRUE(Run(stop).ok());
  EXPECT_EQ(State(job), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Status(job).state_detail(), "too many errors");
  EXPECT_EQ(Status(job).counts().cancelled(), 3);
}

TEST_F(DispatcherCommands, RetryRunsAgainWhatFailed) {
  const JobNumber job = NewJob(10);
  const WorkerNumber worker = Connect("w", 20);
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 10u);
  std::vector<ResultEvent> results = AnswerAll(worker, ids);
  results[3] = Result(worker, ids[3], v1::AttemptResult::REJECTED);
  results[8] = Result(worker, ids[8], v1::AttemptResult::REJECTED);
  Do(results);
  ASSERT_EQ(State(job), v1::JOB_STATE_COMPLETED);

  JobCommand reopen = Command(Kind::kReopen, job);
  reopen.finished_bitmaps = {std::string("\xf7\x02", 2)};
  reopen.sums.set_succeeded(8);
  EXPECT_TRUE(Run(reopen).ok());
  EXPECT_EQ(State(job), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(dispatcher->GetRecord(job)->run(), 2);
  EXPECT_EQ(Status(job).counts().pending(), 2);
  EXPECT_EQ(Status(job).finished_at_ms(), 0);
  const std::vector<RequestId> again = Plan();
  EXPECT_EQ(again, (std::vector<RequestId>{{job, 3}, {job, 8}}));
  Do(AnswerAll(worker, again));
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(Status(job).counts().succeeded(), 10);
}

TEST_F(DispatcherCommands, ADeletedJobIsForgotten) {
  JobCommand seal = Seal(1, 2);
  seal.record.set_idempotency_token("t");
  ASSERT_TRUE(Run(seal).ok());
  EXPECT_TRUE(Run(Kind::kCancel, 1).ok());
  Round();
  const Committed done = Do({}, {Command(Kind::kDelete, 1), Command(Kind::kDelete, 1)});
  EXPECT_TRUE(done.statuses[0].ok());
  EXPECT_EQ(done.statuses[1].code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(done.plan.job_writes.size(), 1u);
  EXPECT_TRUE(done.plan.job_writes[0].erase);
  EXPECT_EQ(dispatcher->GetStatus(1, clock.Now()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(dispatcher->FindJobByToken("t"), std::nullopt);
  EXPECT_EQ(dispatcher->ChangeCount(1), 0u);
  EXPECT_EQ(Decision(Answered(1, {1, 0})), ResultDecision::Kind::kDrop);
}

TEST_F(DispatcherCommands, SeveralCommandsOfOneCommitSeeEachOther) {
  const JobNumber job = NewJob(2);
  const Committed done =
      Do({}, {Command(Kind::kPause, job), Command(Kind::kResume, job), Command(Kind::kExpire, job),
              Command(Kind::kPause, job), Command(Kind::kDelete, job)});
  EXPECT_TRUE(done.statuses[2].ok());
  EXPECT_EQ(done.statuses[3].code(), kForbidden);
  EXPECT_TRUE(done.statuses[4].ok());
  EXPECT_TRUE(dispatcher->ListJobs().empty());
}

}  // namespace
}  // namespace nightshift
