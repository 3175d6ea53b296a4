#include "tests/coordinator/core/dispatcher_fixture.h"

namespace nightshift {
namespace {

class DispatcherStatus : public DispatcherFixture {
 protected:
  std::string Waiting(JobNumber job) { return Status(job).waiting_for(); }
};

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << text

TEST_F(DispatcherStatus, SaysThatNoWorkerIsThere) {
  const JobNumber job = NewJob(10);
  EXPECT_CONTAINS(Waiting(job), "no worker is connected");
  const WorkerNumber worker = Connect("w");
  EXPECT_EQ(Waiting(job), "");
  Plan();
  dispatcher->OnStreamClosed(worker, clock.Now());
  clock.Advance(absl::Seconds(7));
  EXPECT_CONTAINS(Waiting(job), "worker w has not been heard of");
}

// It says what it waits for.
TEST_F(DispatcherStatus, SaysThatNoBackendServesTheModel) {
  JobCommand seal = Seal(1, 10);
  seal.record.add_models("gpt-oss-120b");
  ASSERT_TRUE(Run(seal).ok());
  Connect("w", 8, 0, {"llama", "qwen"});
  EXPECT_EQ(Waiting(1), "no connected backend serves model gpt-oss-120b (they serve llama, qwen)");
}

TEST_F(DispatcherStatus, SaysWhatTheBackendWaitsFor) {
  const JobNumber job = NewJob(10);
  const WorkerNumber worker = Connect("w", 8);
  v1::Report report = ReportOf(0, 0);
  report.mutable_backends(0)->mutable_info()->set_state("starting");
  report.mutable_backends(0)->mutable_info()->set_detail("loading the model");
  dispatcher->OnReport(worker, report, clock.Now());
  EXPECT_EQ(Waiting(job), "backend b is starting: loading the model");
  report.mutable_backends(0)->set_waiting_for("the token quota, 20 s");
  dispatcher->OnReport(worker, report, clock.Now());
  EXPECT_EQ(Waiting(job), "backend b: the token quota, 20 s");
}

TEST_F(DispatcherStatus, SaysWhyItIsPaused) {
  const JobNumber job = NewJob(10);
  EXPECT_TRUE(Run(Kind::kPause, job).ok());
  EXPECT_CONTAINS(Waiting(job), "paused: by the user");
  EXPECT_CONTAINS(Waiting(job), "nightshift resume job_000000000001");
}

TEST_F(DispatcherStatus, SaysThatOnlyRetriesAreLeft) {
  const JobNumber job = NewJob(1);
  const WorkerNumber worker = Connect("w");
  Do({Failed(worker, Plan()[0])});
  EXPECT_CONTAINS(Waiting(job), "1 requests wait for their next attempt");
}

TEST_F(DispatcherStatus, SaysThatWorkersMayComeBackAfterARestart) {
  const JobNumber job = NewJob(8);
  Connect("w");
  Plan();
  Start();
  Connect("v");
  EXPECT_CONTAINS(Waiting(job), "8 requests were out");
}

TEST_F(DispatcherStatus, AnEndedJobWaitsForNothing) {
  const JobNumber job = NewJob(1);
  ConnectAndAnswer("w");
  EXPECT_EQ(Waiting(job), "");
  EXPECT_LT(Status(job).eta_low_seconds(), 0);
}

TEST_F(DispatcherStatus, RatesAndEstimateComeFromTheLastMinute) {
  const JobNumber job = NewJob(1000);
  const WorkerNumber worker = Connect("w", 20);
  EXPECT_LT(Status(job).eta_low_seconds(), 0);
  std::vector<RequestId> held;
  for (int second = 0; second < 10; ++second) {
    const std::vector<RequestId> granted = Plan();
    held.insert(held.end(), granted.begin(), granted.end());
    clock.Advance(absl::Seconds(1));
    ASSERT_GE(held.size(), 10u);
    Do(AnswerAll(worker, {held.begin(), held.begin() + 10}));
    held.erase(held.begin(), held.begin() + 10);
  }
  const v1::JobStatus status = Status(job);
  EXPECT_NEAR(status.requests_per_second(), 10, 1e-6);
  EXPECT_EQ(status.counts().succeeded(), 100);
  EXPECT_NEAR(status.tokens_per_second(), status.requests_per_second() * 5, 1e-6);
  const double rest = 1000.0 - static_cast<double>(status.counts().succeeded());
  EXPECT_LT(status.eta_low_seconds(), rest / status.requests_per_second());
  EXPECT_GT(status.eta_high_seconds(), rest / status.requests_per_second());
}

TEST_F(DispatcherStatus, ChangesAreCounted) {
  const JobNumber job = NewJob(100);
  uint64_t last = dispatcher->ChangeCount(job);
  EXPECT_GT(last, 0u);
  const auto rises = [&] {
    const uint64_t before = last;
    last = dispatcher->ChangeCount(job);
    return last > before;
  };
  EXPECT_FALSE(rises());
  const WorkerNumber worker = Connect("w");
  EXPECT_TRUE(rises());
  const std::vector<RequestId> ids = Plan();
  EXPECT_TRUE(rises());
  Do({Answered(worker, ids[0])});
  EXPECT_TRUE(rises());
  dispatcher->OnReport(worker, ReportOf(8, 1), clock.Now());
  EXPECT_FALSE(rises());
  dispatcher->HoldForDisk("full");
  EXPECT_TRUE(rises());
  dispatcher->HoldForDisk("");
  EXPECT_TRUE(rises());
  EXPECT_TRUE(Run(Kind::kExpire, job).ok());
  EXPECT_TRUE(rises());
  // Ended: what happens to the fleet is no longer its business.
  dispatcher->OnStreamClosed(worker, clock.Now());
  EXPECT_FALSE(rises());
}

TEST_F(DispatcherStatus, EverythingThatMayMoveAJobWakesTheListeners) {
  NewJob(100);
  const auto wakes = [this](const std::function<void()>& what) {
    const int before = wake_ups;
    what();
    return wake_ups > before;
  };
  WorkerNumber worker = 0;
  EXPECT_TRUE(wakes([&] { worker = Connect("w"); }));
  EXPECT_TRUE(wakes([&] { dispatcher->OnReport(worker, ReportOf(8, 0), clock.Now()); }));
  EXPECT_TRUE(wakes([&] { dispatcher->OnReturned(worker, v1::Returned(), clock.Now()); }));
  EXPECT_TRUE(wakes([&] { dispatcher->Tick(clock.Now()); }));
  EXPECT_TRUE(wakes([&] { NewJob(1); }));
  EXPECT_TRUE(wakes([&] { dispatcher->HoldForDisk("full"); }));
  EXPECT_TRUE(wakes([&] { dispatcher->HoldForDisk(""); }));
  // A plan must not wake the loop that makes plans.
  EXPECT_FALSE(wakes([&] { dispatcher->PlanGrants(clock.Now()); }));
}

}  // namespace
}  // namespace nightshift
