#include <map>
#include <set>

#include "coordinator/core/batch_sizer.h"
#include "tests/coordinator/core/dispatcher_fixture.h"

namespace nightshift {
namespace {

class DispatcherGrants : public DispatcherFixture {
 protected:
  std::map<WorkerNumber, std::vector<RequestId>> PlanByWorker() {
    std::map<WorkerNumber, std::vector<RequestId>> by_worker;
    const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
    for (const Grant& grant : plan.grants) {
      for (const Grant::Item& item : grant.items) by_worker[grant.worker].push_back(item.id);
    }
    for (const JobNumber job : plan.frontier_moved) EXPECT_TRUE(Run(Kind::kFrontier, job).ok());
    return by_worker;
  }
};

TEST_F(DispatcherGrants, AWorkerGetsItsFillOnceInRisingOrder) {
  const JobNumber job = NewJob(1000);
  const WorkerNumber worker = Connect("w", 8);
  const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
  ASSERT_EQ(plan.grants.size(), 1u);
  EXPECT_EQ(plan.grants[0].worker, worker);
  EXPECT_EQ(plan.grants[0].backend, "b");
  EXPECT_NE(plan.grants[0].lease_id, 0u);
  ASSERT_EQ(plan.grants[0].items.size(), 16u);
  for (uint64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(plan.grants[0].items[i].id, (RequestId{job, i}));
    EXPECT_EQ(plan.grants[0].items[i].attempt, 0);
  }
  EXPECT_EQ(plan.frontier_moved, std::vector<JobNumber>{job});
  EXPECT_TRUE(dispatcher->PlanGrants(clock.Now()).grants.empty());
}

TEST_F(DispatcherGrants, NothingBeforeTheFirstReport) {
  NewJob(10);
  ASSERT_TRUE(dispatcher->OnHello(HelloOf("w", "s"), clock.Now(), clock.WallNow()).ok());
  EXPECT_TRUE(Plan().empty());
}

TEST_F(DispatcherGrants, TheFirstLeaseStartsTheJobWithTheFrontier) {
  const JobNumber job = NewJob(100);
  Connect("w");
  const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
  EXPECT_EQ(State(job), v1::JOB_STATE_QUEUED);  // not before the disk says so
  ASSERT_EQ(plan.frontier_moved.size(), 1u);
  const Committed done = Do({}, {Command(Kind::kFrontier, job), Command(Kind::kFrontier, job)});
  ASSERT_EQ(done.plan.job_writes.size(), 1u);  // one row per job
  EXPECT_EQ(done.plan.job_writes[0].record.lease_frontier(), 16);
  EXPECT_EQ(State(job), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Status(job).started_at_ms(), absl::ToUnixMillis(clock.WallNow()));
  EXPECT_EQ(Status(job).counts().in_flight(), 16);
}

TEST_F(DispatcherGrants, AFrontierThatIsDurableIsNotWrittenAgain) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  dispatcher->Ungrant(worker, ids, clock.Now());
  const GrantPlan again = dispatcher->PlanGrants(clock.Now());
  EXPECT_EQ(again.grants.size(), 1u);
  EXPECT_TRUE(again.frontier_moved.empty());
  EXPECT_TRUE(Do({}, {Command(Kind::kFrontier, job)}).plan.job_writes.empty());
}

TEST_F(DispatcherGrants, AJobThatHasEndedRefusesItsFrontier) {
  const JobNumber job = NewJob(100);
  Connect("w");
  dispatcher->PlanGrants(clock.Now());
  EXPECT_TRUE(Run(Kind::kCancel, job).ok());
  EXPECT_EQ(Run(Kind::kFrontier, job).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DispatcherGrants, UngrantedRequestsGoOutFirstNextTime) {
  const JobNumber job = NewJob(100);
  const WorkerNumber worker = Connect("w", 4);
  Plan();
  const std::vector<RequestId> back = {{job, 5}, {job, 2}};
  dispatcher->Ungrant(worker, back, clock.Now());
  dispatcher->Ungrant(worker, back, clock.Now());  // no longer its own: nothing happens
  dispatcher->OnReport(worker, ReportOf(8, 0), clock.Now());
  const std::vector<RequestId> next = Plan();
  ASSERT_GE(next.size(), 3u);
  EXPECT_EQ(next[0], (RequestId{job, 2}));
  EXPECT_EQ(next[1], (RequestId{job, 5}));
  EXPECT_EQ(next[2], (RequestId{job, 8}));
}

TEST_F(DispatcherGrants, BackendsGetOnlyJobsWhoseModelsTheyAllHave) {
  JobCommand seal = Seal(1, 60);
  seal.record.add_models("a");
  seal.record.add_models("b");
  ASSERT_TRUE(Run(seal).ok());
  const WorkerNumber half = Connect("half", 8, 0, {"a"});
  const WorkerNumber whole = Connect("whole", 8, 0, {"b", "a", "c"});
  auto grants = PlanByWorker();
  EXPECT_EQ(grants.count(half), 0u);
  EXPECT_GT(grants[whole].size(), 0u);
  const WorkerNumber any = Connect("any", 8, 0, {});
  EXPECT_GT(PlanByWorker()[any].size(), 0u);
  // The half one learns the other model.
  dispatcher->OnReport(half, ReportOf(8, 0, {"a", "b"}), clock.Now());
  Do(AnswerAll(whole, grants[whole]));
  EXPECT_GT(PlanByWorker()[half].size(), 0u);
}

TEST_F(DispatcherGrants, HigherPriorityJobsGoFirst) {
  const JobNumber low = NewJob(1000);
  JobCommand seal = Seal(++last_job, 10);
  seal.record.mutable_options()->set_priority(3);
  ASSERT_TRUE(Run(seal).ok());
  Connect("w", 8);
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 16u);
  EXPECT_EQ(std::count_if(ids.begin(), ids.end(), [&](RequestId id) { return id.job == low; }), 6);
}

TEST_F(DispatcherGrants, EqualJobsShareTheWorkInFlight) {
  const JobNumber a = NewJob(1000);
  Connect("w", 8);
  Plan();
  const JobNumber b = NewJob(1000);
  Connect("v", 20);
  Plan();
  EXPECT_NEAR(static_cast<double>(Status(a).counts().in_flight()),
              static_cast<double>(Status(b).counts().in_flight()), 1);
}

TEST_F(DispatcherGrants, PausedJobsGiveNothing) {
  const JobNumber job = NewJob(100);
  EXPECT_TRUE(Run(Kind::kPause, job).ok());
  Connect("w");
  EXPECT_TRUE(Plan().empty());
  EXPECT_TRUE(Run(Kind::kResume, job).ok());
  EXPECT_EQ(Plan().size(), 16u);
}

// While the commit that cancels a job is on its way to the disk, nothing of it may go out: it would
// arrive after its own revocation.
TEST_F(DispatcherGrants, NothingGoesOutWhileACancellationIsBeingWritten) {
  const JobNumber job = NewJob(100);
  Connect("w");
  std::vector<absl::Status> statuses;
  const std::vector<JobCommand> commands = {Command(Kind::kCancel, job)};
  const CommitPlan plan =
      dispatcher->Prepare({}, commands, &statuses, clock.Now(), clock.WallNow());
  EXPECT_TRUE(dispatcher->PlanGrants(clock.Now()).grants.empty());
  disk.Write(plan);
  dispatcher->Apply(plan, clock.Now(), clock.WallNow());
}

TEST_F(DispatcherGrants, MoreThanOneGrantIsPlannedAgainAtOnce) {
  NewJob(5000);
  const WorkerNumber worker = Connect("w", 2000);
  const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
  ASSERT_EQ(plan.grants.size(), 1u);
  EXPECT_EQ(static_cast<int64_t>(plan.grants[0].items.size()), kGrantMax);
  EXPECT_EQ(plan.next_due, clock.Now());
  EXPECT_EQ(static_cast<int64_t>(PlanByWorker()[worker].size()), kGrantMax);
}

TEST_F(DispatcherGrants, TheNextPlanIsDueWithTheNextRetry) {
  const JobNumber job = NewJob(1);
  const WorkerNumber worker = Connect("w");
  const std::vector<RequestId> ids = Plan();
  EXPECT_TRUE(dispatcher->PlanGrants(clock.Now()).next_due.infinite());
  ResultEvent failed = Failed(worker, ids[0]);
  failed.result.set_retry_after_ms(20000);
  Do({failed});
  const MonotonicTime due = dispatcher->PlanGrants(clock.Now()).next_due;
  EXPECT_GE(due, clock.Now() + absl::Seconds(20));
  EXPECT_LE(due, clock.Now() + absl::Seconds(21));
  clock.Advance(due - clock.Now());
  const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
  ASSERT_EQ(plan.grants.size(), 1u);
  EXPECT_EQ(plan.grants[0].items[0].id, (RequestId{job, 0}));
  EXPECT_EQ(plan.grants[0].items[0].attempt, 1);
}

// Two equal workers and few requests: both work, neither holds the other's share.
TEST_F(DispatcherGrants, AShortJobIsSharedByAllThatCanWork) {
  NewJob(10);
  const WorkerNumber a = Connect("a", 8);
  const WorkerNumber b = Connect("b", 8);
  auto grants = PlanByWorker();
  EXPECT_EQ(grants[a].size(), 5u);
  EXPECT_EQ(grants[b].size(), 5u);
}

TEST_F(DispatcherGrants, ASlowBackendDoesNotGetTheTailOfAFastOne) {
  NewJob(40);
  const WorkerNumber slow = Connect("slow", 64, 0.5);
  const WorkerNumber fast = Connect("fast", 16, 100);
  auto grants = PlanByWorker();
  EXPECT_EQ(grants[slow].size(), 1u);
  EXPECT_GE(grants[fast].size(), 16u);
}

TEST_F(DispatcherGrants, ALimitOfZeroAndDrainingWorkersGetNothing) {
  NewJob(100);
  Connect("none", 0);
  const WorkerNumber draining = Connect("draining", 8);
  dispatcher->OnDrain(draining, v1::Drain(), clock.Now());
  EXPECT_TRUE(Plan().empty());
}

}  // namespace
}  // namespace nightshift
