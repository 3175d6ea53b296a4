#include "tests/coordinator/core/dispatcher_fixture.h"

namespace nightshift {
namespace {

using Decided = ResultDecision::Kind;
using DispatcherResults = DispatcherFixture;

// Nobody has to be told for a job to end.
TEST_F(DispatcherResults, TheLastAnswerCompletesTheJobInTheSameCommit) {
  const JobNumber job = NewJob(2);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 2u);
  Do({Answered(worker, ids[0])});
  EXPECT_EQ(State(job), v1::JOB_STATE_RUNNING);
  const Committed done = Do({Answered(worker, ids[1])});
  ASSERT_EQ(done.plan.job_writes.size(), 1u);
  const v1::JobRecord& record = done.plan.job_writes[0].record;
  EXPECT_EQ(record.state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(record.finished_at_ms(), absl::ToUnixMillis(clock.WallNow()));
  EXPECT_EQ(record.final_sums().succeeded(), 2);
  EXPECT_EQ(record.final_sums().completion_tokens(), 10);
  const v1::JobStatus status = Status(job);
  EXPECT_EQ(status.counts().succeeded(), 2);
  EXPECT_EQ(status.counts().in_flight(), 0);
  EXPECT_EQ(dispatcher->FinishedBitmap(job, 0).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(DispatcherResults, MemoryDoesNotSayWhatTheDiskDoesNot) {
  const JobNumber job = NewJob(2);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  std::vector<absl::Status> statuses;
  const std::vector<ResultEvent> results = AnswerAll(worker, ids);
  const CommitPlan plan = dispatcher->Prepare(results, {}, &statuses, clock.Now(), clock.WallNow());
  EXPECT_EQ(State(job), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Status(job).counts().succeeded(), 0);
  EXPECT_EQ(Status(job).counts().in_flight(), 2);
  EXPECT_EQ(*dispatcher->FinishedBitmap(job, 0), std::string(1, '\0'));
  dispatcher->CheckConsistent();
  disk.Write(plan);
  dispatcher->Apply(plan, clock.Now(), clock.WallNow());
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
}

TEST_F(DispatcherResults, TheOutcomeSaysWhoAndHowOften) {
  NewJob(1);
  const WorkerNumber worker = Connect("w");
  const RequestId id = Plan()[0];
  Do({Failed(worker, id)});
  clock.Advance(absl::Seconds(2));
  ASSERT_EQ(Plan().size(), 1u);
  ResultEvent answer = Answered(worker, id);
  answer.result.set_backend("b");
  const Committed done = Do({answer});
  EXPECT_EQ(done.plan.decisions[0].outcome.attempts(), 2);
  EXPECT_EQ(done.plan.decisions[0].outcome.worker(), "w");
  EXPECT_EQ(done.plan.decisions[0].outcome.backend(), "b");
  EXPECT_TRUE(done.plan.decisions[0].delete_attempts_row);
}

TEST_F(DispatcherResults, ASecondResultIsADuplicate) {
  NewJob(2);
  const WorkerNumber worker = Connect("w");
  const RequestId id = Plan()[0];
  // Twice in one commit, and once more later.
  const Committed done = Do({Answered(worker, id), Answered(worker, id)});
  EXPECT_EQ(done.plan.decisions[0].kind, Decided::kRecord);
  EXPECT_EQ(done.plan.decisions[1].kind, Decided::kDuplicate);
  EXPECT_EQ(Decision(Failed(worker, id)), Decided::kDuplicate);
  EXPECT_EQ(dispatcher->duplicate_results(), 2);
}

// The holder's attempt fails, and one that had lost the lease brings the answer, both while a
// commit is under way: the answer was paid for.
TEST_F(DispatcherResults, AnAnswerInTheSameCommitAsAFailureWins) {
  const JobNumber job = NewJob(1);
  const WorkerNumber lost = Connect("lost");
  const RequestId id = Plan()[0];
  dispatcher->OnStreamClosed(lost, clock.Now());
  clock.Advance(options.lease_ttl + absl::Seconds(1));
  Tick();
  const WorkerNumber holder = Connect("holder");
  ASSERT_EQ(Plan().size(), 1u);
  const Committed done = Do({Failed(holder, id), Answered(lost, id)});
  EXPECT_EQ(done.plan.decisions[0].kind, Decided::kDuplicate);
  EXPECT_EQ(done.plan.decisions[1].kind, Decided::kRecord);
  EXPECT_EQ(done.plan.decisions[1].outcome.kind(), v1::OUTCOME_SUCCEEDED);
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
}

TEST_F(DispatcherResults, APlanWithoutAnythingToWriteNeedNotBeApplied) {
  const JobNumber job = NewJob(2);
  const WorkerNumber worker = Connect("w");
  const RequestId id = Plan()[0];
  Do({Answered(worker, id)});
  std::vector<absl::Status> statuses;
  const std::vector<ResultEvent> again = {Answered(worker, id)};
  const std::vector<JobCommand> resume = {Command(Kind::kResume, job)};
  for (int i = 0; i < 2; ++i) {
    const CommitPlan plan =
        dispatcher->Prepare(again, resume, &statuses, clock.Now(), clock.WallNow());
    EXPECT_TRUE(plan.job_writes.empty());
    EXPECT_EQ(plan.commands.size(), 1u);
  }
  dispatcher->CheckConsistent();
}

TEST_F(DispatcherResults, ResultsForUnknownJobsOrIndexesAreDropped) {
  const JobNumber job = NewJob(2);
  const WorkerNumber worker = Connect("w");
  EXPECT_EQ(Decision(Answered(worker, {99, 0})), Decided::kDrop);
  EXPECT_EQ(Decision(Answered(worker, {job, 2})), Decided::kDrop);
  EXPECT_EQ(Decision(Answered(worker, {job, ~uint64_t{0}})), Decided::kDrop);
  EXPECT_EQ(dispatcher->duplicate_results(), 0);
}

TEST_F(DispatcherResults, LateResultAfterCancelIsDropped) {
  const JobNumber job = NewJob(10);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  EXPECT_TRUE(Run(Kind::kCancel, job).ok());
  EXPECT_EQ(Decision(Answered(worker, ids[0])), Decided::kDrop);  // this round also ends it
  EXPECT_EQ(State(job), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Decision(Answered(worker, ids[1])), Decided::kDrop);
  EXPECT_EQ(Status(job).counts().cancelled(), 10);
}

TEST_F(DispatcherResults, RejectedRequestsFailAtOnceWithTheirHttpAnswer) {
  const JobNumber job = NewJob(1);
  const WorkerNumber worker = Connect("w");
  ResultEvent rejected = Result(worker, Plan()[0], v1::AttemptResult::REJECTED);
  rejected.result.set_http_status(400);
  rejected.result.set_error_class(v1::ERROR_CLASS_CONTEXT_TOO_LONG);
  const Committed done = Do({rejected});
  EXPECT_EQ(done.plan.decisions[0].kind, Decided::kRecord);
  EXPECT_EQ(done.plan.decisions[0].outcome.kind(), v1::OUTCOME_FAILED);
  EXPECT_EQ(done.plan.decisions[0].outcome.http_status(), 400);
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(Status(job).counts().failed(), 1);
  EXPECT_EQ(Status(job).failed_by_class().at(v1::ERROR_CLASS_CONTEXT_TOO_LONG), 1);
}

TEST_F(DispatcherResults, TheLastChargedAttemptBecomesTheFailure) {
  JobCommand seal = Seal(1, 1);
  seal.record.mutable_options()->set_max_attempts(3);
  ASSERT_TRUE(Run(seal).ok());
  const WorkerNumber worker = Connect("w");
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const std::vector<RequestId> ids = Plan();
    ASSERT_EQ(ids.size(), 1u) << attempt;
    const Committed done = Do({Failed(worker, ids[0], attempt - 1)});
    if (attempt < 3) {
      ASSERT_EQ(done.plan.decisions[0].kind, Decided::kRetry);
      EXPECT_EQ(done.plan.decisions[0].attempts.charged(), attempt);
      EXPECT_EQ(done.plan.decisions[0].attempts.last_class(), v1::ERROR_CLASS_SERVER_ERROR);
      EXPECT_EQ(Status(1).counts().retrying(), 1);
      EXPECT_TRUE(Plan().empty());
      clock.Advance(absl::Minutes(1));
    } else {
      ASSERT_EQ(done.plan.decisions[0].kind, Decided::kRecord);
      EXPECT_EQ(done.plan.decisions[0].outcome.attempts(), 3);
      EXPECT_EQ(done.plan.decisions[0].outcome.http_status(), 500);
      EXPECT_TRUE(done.plan.decisions[0].delete_attempts_row);
    }
  }
  EXPECT_EQ(State(1), v1::JOB_STATE_COMPLETED);
}

// What comes back again and again must not leak anything.
TEST_F(DispatcherResults, UnchargedFailuresCountForNothing) {
  const JobNumber job = NewJob(1);
  const WorkerNumber worker = Connect("w");
  for (int i = 0; i < 50; ++i) {
    const std::vector<RequestId> ids = Plan();
    ASSERT_EQ(ids.size(), 1u);
    ResultEvent busy = Failed(worker, ids[0]);
    busy.result.set_charged(false);
    ASSERT_EQ(Do({busy}).plan.decisions[0].attempts.charged(), 0);
    clock.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(Status(job).counts().failed(), 0);
  EXPECT_EQ(dispatcher->ListWorkers(clock.Now())[0].leased(), 0);
}

// The answer to the first was lost, or it is under way twice: it must not cost a second attempt.
TEST_F(DispatcherResults, AFailureThatIsSentAgainIsChargedOnce) {
  const JobNumber job = NewJob(1);
  const WorkerNumber worker = Connect("w");
  const RequestId id = Plan()[0];
  const ResultEvent failed = Failed(worker, id);
  EXPECT_EQ(Decision(failed), Decided::kRetry);
  EXPECT_EQ(Decision(failed), Decided::kDrop);
  clock.Advance(absl::Minutes(1));
  // Also when the same worker has the request again by then.
  dispatcher->OnReport(worker, ReportOf(8, 0), clock.Now());
  ASSERT_EQ(Plan().size(), 1u);
  EXPECT_EQ(Decision(failed), Decided::kDrop);
  EXPECT_EQ(Status(job).counts().in_flight(), 1) << "its new try goes on";
  EXPECT_EQ(disk.jobs[job].attempts.at(0).charged(), 1);
  const Committed done = Do({Failed(worker, id, 1)});
  EXPECT_EQ(done.plan.decisions[0].attempts.charged(), 2);
}

// `retry` has put an end to what an earlier run decided. An answer is an answer all the same.
TEST_F(DispatcherResults, ARejectionOfAnEarlierRunIsNoOutcomeOfThisOne) {
  const JobNumber job = NewJob(3);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  std::vector<ResultEvent> rejected;
  for (const RequestId& id : ids) {
    rejected.push_back(Result(worker, id, v1::AttemptResult::REJECTED));
    rejected.back().result.set_run(1);
  }
  Do(rejected);
  ASSERT_EQ(State(job), v1::JOB_STATE_COMPLETED);
  JobCommand reopen = Command(Kind::kReopen, job);
  reopen.finished_bitmaps = {std::string(1, '\0')};
  ASSERT_TRUE(Run(reopen).ok());
  EXPECT_EQ(Decision(rejected[0]), Decided::kDrop);
  EXPECT_EQ(Status(job).counts().failed(), 0);
  ResultEvent answered = Answered(worker, ids[1]);
  answered.result.set_run(1);
  EXPECT_EQ(Decision(answered), Decided::kRecord);
  // Nor does a Hello bring it back, or keep the request from being leased.
  v1::Hello hello = HelloOf("other", "other-session");
  Hold(&hello, ids[0], true);
  hello.mutable_held(0)->set_kind(v1::AttemptResult::REJECTED);
  hello.mutable_held(0)->set_run(1);
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  EXPECT_EQ(reply->welcome.drop_size(), 1);
  EXPECT_EQ(Status(job).counts().in_flight(), 0);
}

// What a stale worker says.
TEST_F(DispatcherResults, AFailureOfSomeoneWhoDoesNotHoldTheRequestIsDropped) {
  const JobNumber job = NewJob(1);
  const WorkerNumber lost = Connect("lost");
  const RequestId id = Plan()[0];
  clock.Advance(absl::Seconds(31));
  Tick();
  EXPECT_EQ(Decision(Failed(lost, id)), Decided::kDrop);
  dispatcher->OnStreamClosed(lost, clock.Now());
  const WorkerNumber other = Connect("other");
  ASSERT_EQ(Plan().size(), 1u);
  EXPECT_EQ(Decision(Failed(lost, id)), Decided::kDrop);
  EXPECT_EQ(Status(job).counts().in_flight(), 1);
  EXPECT_EQ(Decision(Failed(other, id)), Decided::kRetry);
}

TEST_F(DispatcherResults, ALateAnswerIsTakenAndTheOtherCopyRevoked) {
  const JobNumber job = NewJob(3);
  const WorkerNumber lost = Connect("lost");
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 3u);
  clock.Advance(absl::Seconds(31));
  Tick();
  EXPECT_EQ(dispatcher->lapsed_leases(), 1);
  EXPECT_EQ(Status(job).counts().pending(), 3);
  // The first from the queue itself, the second while another worker has it.
  EXPECT_EQ(Decision(Answered(lost, ids[0])), Decided::kRecord);
  const WorkerNumber other = Connect("other");
  dispatcher->OnStreamClosed(lost, clock.Now());
  ASSERT_EQ(Plan().size(), 2u);
  const Committed done = Do({Answered(lost, ids[1])});
  EXPECT_EQ(done.plan.decisions[0].kind, Decided::kRecord);
  ASSERT_EQ(done.outgoing.size(), 1u);
  EXPECT_EQ(done.outgoing[0].worker, other);
  ASSERT_EQ(done.outgoing[0].message.revoke().keys_size(), 1);
  EXPECT_EQ(done.outgoing[0].message.revoke().keys(0).index(), ids[1].index);
  EXPECT_EQ(Decision(Answered(other, ids[1])), Decided::kDuplicate);
  Do({Answered(other, ids[2])});
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
}

TEST_F(DispatcherResults, ALateAnswerRemovesAWaitingRetry) {
  const JobNumber job = NewJob(1);
  const WorkerNumber lost = Connect("lost");
  const RequestId id = Plan()[0];
  clock.Advance(absl::Seconds(31));
  Tick();
  const WorkerNumber other = Connect("other");
  ASSERT_EQ(Plan().size(), 1u);
  Do({Failed(other, id)});
  EXPECT_EQ(Status(job).counts().retrying(), 1);
  const Committed done = Do({Answered(lost, id)});
  EXPECT_TRUE(done.plan.decisions[0].delete_attempts_row);
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
  EXPECT_TRUE(dispatcher->PlanGrants(clock.Now()).next_due.infinite());
}

TEST_F(DispatcherResults, AResultIsASignOfLife) {
  NewJob(100);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  clock.Advance(absl::Seconds(20));
  Do({Answered(worker, ids[0])});
  clock.Advance(absl::Seconds(20));
  Tick();
  EXPECT_EQ(dispatcher->lapsed_leases(), 0);
}

TEST_F(DispatcherResults, TheBudgetPausesTheJobWithTheCommitThatReachesIt) {
  JobCommand seal = Seal(1, 100);
  seal.record.mutable_options()->set_budget_tokens(30);  // two answers of 15
  ASSERT_TRUE(Run(seal).ok());
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  Do({Answered(worker, ids[0])});
  EXPECT_EQ(State(1), v1::JOB_STATE_RUNNING);
  const Committed done = Do({Answered(worker, ids[1])});
  ASSERT_EQ(done.plan.job_writes.size(), 1u);
  EXPECT_EQ(Status(1).state(), v1::JOB_STATE_PAUSED);
  EXPECT_EQ(Status(1).reason(), v1::PAUSE_REASON_BUDGET);
  EXPECT_TRUE(Plan().empty());
  // What is out was paid for.
  EXPECT_EQ(Decision(Answered(worker, ids[2])), Decided::kRecord);
  EXPECT_EQ(Run(Kind::kResume, 1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Run(Kind::kCancel, 1).ok());
}

TEST_F(DispatcherResults, ALargerBudgetLetsTheJobGoOnAndASmallerOnePausesIt) {
  JobCommand seal = Seal(1, 100);
  seal.record.mutable_options()->set_budget_tokens(15);  // one answer
  ASSERT_TRUE(Run(seal).ok());
  const WorkerNumber worker = Connect("w", 2);
  const std::vector<RequestId> ids = Plan();
  Do({Answered(worker, ids[0])});
  ASSERT_EQ(Status(1).reason(), v1::PAUSE_REASON_BUDGET);
  Do(AnswerAll(worker, {ids.begin() + 1, ids.end()}));
  const auto spent = static_cast<int64_t>(15 * ids.size());
  JobCommand resume = Command(Kind::kResume, 1);
  resume.budget_tokens = spent;
  EXPECT_EQ(Run(resume).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Status(1).options().budget_tokens(), 15) << "refused as a whole";
  resume.budget_tokens = spent + 1;
  ASSERT_TRUE(Run(resume).ok());
  EXPECT_EQ(Status(1).state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(disk.jobs.at(1).record.options().budget_tokens(), spent + 1);
  EXPECT_FALSE(Plan().empty());
  // Of a job that runs, too; what has been spent is more than that.
  resume.budget_tokens = 10;
  ASSERT_TRUE(Run(resume).ok());
  EXPECT_EQ(Status(1).reason(), v1::PAUSE_REASON_BUDGET);
  EXPECT_TRUE(Plan().empty());
}

TEST_F(DispatcherResults, TheMoneyBudgetCountsKnownCosts) {
  JobCommand seal = Seal(1, 100);
  seal.record.mutable_options()->set_budget_usd(1.0);
  ASSERT_TRUE(Run(seal).ok());
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  ResultEvent answer = Answered(worker, ids[0]);
  answer.result.mutable_usage()->set_cost_known(true);
  answer.result.mutable_usage()->set_cost_usd(1.25);
  Do({answer});
  EXPECT_EQ(Status(1).reason(), v1::PAUSE_REASON_BUDGET);
  EXPECT_NE(Status(1).waiting_for().find("$1.00"), std::string::npos) << Status(1).waiting_for();
}

TEST_F(DispatcherResults, TheErrorPolicyStopsTheJobAfterTwentyAnswers) {
  JobCommand seal = Seal(1, 100);
  seal.record.mutable_options()->set_stop_on_error_rate(0.5);
  ASSERT_TRUE(Run(seal).ok());
  const WorkerNumber worker = Connect("w", 50);
  const std::vector<RequestId> ids = Plan();
  std::vector<ResultEvent> results;
  for (int i = 0; i < 19; ++i) {
    results.push_back(Result(worker, ids[i], v1::AttemptResult::REJECTED));
  }
  Do(results);
  EXPECT_EQ(State(1), v1::JOB_STATE_RUNNING);
  const Committed done = Do({Result(worker, ids[19], v1::AttemptResult::REJECTED)});
  EXPECT_EQ(State(1), v1::JOB_STATE_FAILED);
  EXPECT_NE(Status(1).state_detail().find("20 of 20"), std::string::npos);
  EXPECT_EQ(Status(1).counts().failed(), 20);
  EXPECT_EQ(Status(1).counts().cancelled(), 80);
  ASSERT_EQ(done.outgoing.size(), 1u);
  EXPECT_EQ(done.outgoing[0].message.revoke().keys_size(), static_cast<int>(ids.size()) - 20);
}

TEST_F(DispatcherResults, FewErrorsDoNotStopTheJob) {
  JobCommand seal = Seal(1, 100);
  seal.record.mutable_options()->set_stop_on_error_rate(0.5);
  ASSERT_TRUE(Run(seal).ok());
  const WorkerNumber worker = Connect("w", 50);
  const std::vector<RequestId> ids = Plan();
  std::vector<ResultEvent> results;
  for (int i = 0; i < 40; ++i) {
    results.push_back(i % 3 == 0 ? Result(worker, ids[i], v1::AttemptResult::REJECTED)
                                 : Answered(worker, ids[i]));
  }
  Do(results);
  EXPECT_EQ(State(1), v1::JOB_STATE_RUNNING);
}

}  // namespace
}  // namespace nightshift
