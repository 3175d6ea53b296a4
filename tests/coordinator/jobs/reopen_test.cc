#include "coordinator/jobs/reopen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "storage/keys.h"
#include "storage/memory_store.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

using ::testing::HasSubstr;

class ReopenTest : public testing::Test {
 protected:
  absl::Status Reopen(const std::vector<v1::ErrorClass>& classes = {}) {
    return ReopenJob(*store_, world_->committer(), world_->dispatcher(), job_, classes);
  }
  // 8 requests: 0..3 succeed, 4 and 5 are rejected, 6 times out; 7 is not answered.
  void SubmitAndAnswer() {
    job_ = world_->SubmitJob(8);
    ASSERT_EQ(world_->Lease(8)->size(), 8u);
    ASSERT_TRUE(world_->Answer({{job_, 0}, {job_, 1}, {job_, 2}, {job_, 3}}).ok());
    v1::AttemptResult timeout = world_->Result({job_, 6}, v1::AttemptResult::REJECTED);
    timeout.set_error_class(v1::ERROR_CLASS_TIMEOUT);
    timeout.clear_body();
    ASSERT_TRUE(world_
                    ->Deliver({world_->Result({job_, 4}, v1::AttemptResult::REJECTED),
                               world_->Result({job_, 5}, v1::AttemptResult::REJECTED), timeout})
                    .ok());
  }
  void Complete() { ASSERT_TRUE(world_->Answer({{job_, 7}}).ok()); }
  void Cancel() {
    ASSERT_TRUE(world_->Control(job_, JobCommand::Kind::kCancel).ok());
    while (world_->Status(job_).state() == v1::JOB_STATE_CANCELLING) {
      (void)world_->Control(job_, JobCommand::Kind::kCancel);
    }
  }
  v1::Counts Counts() { return world_->Status(job_).counts(); }
  int32_t Run() { return world_->dispatcher().GetRecord(job_)->run(); }

  std::unique_ptr<Store> store_ = NewMemoryStore();
  std::unique_ptr<JobWorld> world_ = std::make_unique<JobWorld>(*store_);
  JobNumber job_ = 0;
};

TEST_F(ReopenTest, FailedRequestsRunAgainAndSucceededOnesStay) {
  SubmitAndAnswer();
  Complete();
  ASSERT_TRUE(Reopen().ok());
  EXPECT_EQ(Run(), 2);
  EXPECT_EQ(Counts().succeeded(), 5);
  EXPECT_EQ(Counts().failed(), 0);
  EXPECT_EQ(Counts().pending(), 3);
  EXPECT_EQ(world_->Status(job_).prompt_tokens(), 50);
  world_->ExpectAuditAgrees(job_);
  EXPECT_EQ(world_->Lines(job_, v1::ReadOutputRequest::RESULTS).size(), 5u);
  EXPECT_TRUE(world_->Lines(job_, v1::ReadOutputRequest::ERRORS).empty());

  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_EQ(world_->Status(job_).state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(Counts().succeeded(), 8);
  world_->ExpectAuditAgrees(job_);
}

TEST_F(ReopenTest, OnlyTheNamedClassesRunAgain) {
  SubmitAndAnswer();
  Complete();
  ASSERT_TRUE(Reopen({v1::ERROR_CLASS_TIMEOUT}).ok());
  EXPECT_EQ(Counts().failed(), 2);
  EXPECT_EQ(Counts().pending(), 1);
  world_->ExpectAuditAgrees(job_);
  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_EQ(Counts().succeeded(), 6);
  EXPECT_EQ(Counts().failed(), 2);
  world_->ExpectAuditAgrees(job_);
}

TEST_F(ReopenTest, RequestsThatNeverRanGoToo) {
  SubmitAndAnswer();
  Cancel();
  EXPECT_EQ(Counts().cancelled(), 1);
  ASSERT_TRUE(Reopen().ok());
  EXPECT_EQ(Counts().cancelled(), 0);
  EXPECT_EQ(Counts().pending(), 4);
  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_EQ(Counts().succeeded(), 8);
  world_->ExpectAuditAgrees(job_);
}

// They would have to run although nobody asked for it: the person decides.
TEST_F(ReopenTest, ClassesThatLeaveOutUnrunRequestsAreRefused) {
  SubmitAndAnswer();
  Cancel();
  const absl::Status status = Reopen({v1::ERROR_CLASS_TIMEOUT});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("1 requests that never ran"));
  EXPECT_EQ(Run(), 1);
  ASSERT_TRUE(Reopen({v1::ERROR_CLASS_TIMEOUT, v1::ERROR_CLASS_CANCELLED}).ok());
  EXPECT_EQ(Counts().pending(), 2);
  EXPECT_EQ(Counts().failed(), 2);
  world_->ExpectAuditAgrees(job_);
}

TEST_F(ReopenTest, RunningJobIsRefused) {
  SubmitAndAnswer();
  EXPECT_EQ(Reopen().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReopenJob(*store_, world_->committer(), world_->dispatcher(), job_ + 1, {}).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ReopenTest, NothingToRunAgainChangesNothing) {
  SubmitAndAnswer();
  Complete();
  EXPECT_TRUE(Reopen({v1::ERROR_CLASS_AUTH}).ok());
  EXPECT_EQ(Run(), 1);
  EXPECT_EQ(world_->Status(job_).state(), v1::JOB_STATE_COMPLETED);
}

TEST_F(ReopenTest, UnusableLinesStayFailed) {
  v1::SubmitRequests requests = JobWorld::Requests(0, 3);
  requests.mutable_requests(1)->set_body("x");
  v1::SubmitBegin begin;
  begin.set_skip_bad_lines(true);
  const auto reply = world_->Submit(requests, begin, "");
  ASSERT_TRUE(reply.ok());
  job_ = *world_->dispatcher().FindJob(reply->job().id());
  ASSERT_TRUE(world_->Lease(3).ok());
  ASSERT_TRUE(world_
                  ->Deliver({world_->Result({job_, 0}, v1::AttemptResult::REJECTED),
                             world_->Result({job_, 2}, v1::AttemptResult::ANSWERED)})
                  .ok());
  ASSERT_TRUE(Reopen().ok());
  EXPECT_EQ(Counts().failed(), 1);
  EXPECT_EQ(Counts().pending(), 1);
  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_EQ(Counts().failed(), 1);
  world_->ExpectAuditAgrees(job_);
  // Only the unusable line is left: nothing to do.
  EXPECT_TRUE(Reopen().ok());
  EXPECT_EQ(Run(), 2);
}

TEST_F(ReopenTest, ReopenedJobSurvivesARestart) {
  SubmitAndAnswer();
  Complete();
  ASSERT_TRUE(Reopen().ok());
  ASSERT_EQ(world_->Lease(1)->size(), 1u);
  ASSERT_TRUE(world_->Answer({{job_, 4}}).ok());
  world_.reset();
  world_ = std::make_unique<JobWorld>(*store_);
  EXPECT_EQ(Counts().succeeded(), 6);
  EXPECT_EQ(Counts().pending(), 2);
  world_->ExpectAuditAgrees(job_);
  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_EQ(Counts().succeeded(), 8);
  ASSERT_TRUE(Reopen().ok());
  EXPECT_EQ(Run(), 2);
}

// What one call has read must not be written over what the other has done since.
TEST_F(ReopenTest, TwoAtOnceMakeOneNewRun) {
  for (int i = 0; i < 20; ++i) {
    SubmitAndAnswer();
    Complete();
    absl::Status statuses[2];
    std::thread other([&] { statuses[1] = Reopen(); });
    statuses[0] = Reopen();
    other.join();
    EXPECT_TRUE(statuses[0].ok() || statuses[1].ok());
    EXPECT_EQ(Run(), 2);
    EXPECT_EQ(Counts().pending(), 3);
    world_->ExpectAuditAgrees(job_);
    ASSERT_TRUE(world_->FinishAll().ok());
    EXPECT_EQ(Counts().succeeded(), 8);
  }
}

}  // namespace
}  // namespace nightshift
