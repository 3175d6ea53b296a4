#include "client/cli/exit_code.h"

#include "absl/status/status.h"
#include "client/cli/failure.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

v1::JobStatus Job(v1::JobState state, int64_t total, int64_t succeeded) {
  v1::JobStatus job;
  job.set_state(state);
  job.mutable_counts()->set_total(total);
  job.mutable_counts()->set_succeeded(succeeded);
  job.mutable_counts()->set_failed(total - succeeded);
  return job;
}

TEST(ExitCodeTest, CompletedWithFailuresIsNotASuccess) {
  EXPECT_EQ(ExitCodeOf(Job(v1::JOB_STATE_COMPLETED, 3, 3)), ExitCode::kSuccess);
  EXPECT_EQ(ExitCodeOf(Job(v1::JOB_STATE_COMPLETED, 3, 2)), ExitCode::kSomeFailed);
}

TEST(ExitCodeTest, EndsBeforeTheEndAreAllFour) {
  for (const v1::JobState state :
       {v1::JOB_STATE_CANCELLED, v1::JOB_STATE_EXPIRED, v1::JOB_STATE_FAILED}) {
    EXPECT_TRUE(JobIsOver(Job(state, 3, 1)));
    EXPECT_EQ(ExitCodeOf(Job(state, 3, 1)), ExitCode::kStopped);
  }
}

// A budget that is used up waits for a person: following it any longer would hang a script.
TEST(ExitCodeTest, AUsedUpBudgetIsOverOnceTheLastCallIsBack) {
  v1::JobStatus job = Job(v1::JOB_STATE_PAUSED, 3, 1);
  job.set_reason(v1::PAUSE_REASON_BUDGET);
  job.mutable_counts()->set_in_flight(1);
  EXPECT_FALSE(JobIsOver(job));
  job.mutable_counts()->set_in_flight(0);
  EXPECT_TRUE(JobIsOver(job));
  EXPECT_EQ(ExitCodeOf(job), ExitCode::kStopped);
}

TEST(ExitCodeTest, APauseByAPersonIsWaitedFor) {
  v1::JobStatus job = Job(v1::JOB_STATE_PAUSED, 3, 1);
  job.set_reason(v1::PAUSE_REASON_USER);
  EXPECT_FALSE(JobIsOver(job));
  EXPECT_FALSE(JobIsOver(Job(v1::JOB_STATE_FINALIZING, 3, 3)));
}

// A script can wait for room and try again; nothing is wrong with the program or the input.
TEST(ExitCodeTest, AFullDiskHasACodeOfItsOwn) {
  const Failure failure = FailureFrom(absl::ResourceExhaustedError("the disk of /data is full"));
  EXPECT_EQ(failure.exit, ExitCode::kInternal);
  EXPECT_EQ(failure.code, "disk_full");
  EXPECT_EQ(failure.message, "the disk of /data is full");
}

TEST(ExitCodeTest, HelpNamesEveryCode) {
  const std::string help = ExitCodeHelp();
  for (const char* code :
       {"  0  ", "  1  ", "  2  ", "  3  ", "  4  ", "  5  ", " 75  ", "130", "143"})
    EXPECT_NE(help.find(code), std::string::npos) << code;
}

}  // namespace
}  // namespace nightshift
