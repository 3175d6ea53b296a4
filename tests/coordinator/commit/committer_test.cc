#include "coordinator/commit/committer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "coordinator/jobs/recovery.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/record.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

// A disk that can be full.
class FullStore final : public Store {
 public:
  explicit FullStore(Store& inner) : inner_(inner) {}

  absl::Status Commit(WriteSet writes) override {
    ++tried;
    if (full) return absl::ResourceExhaustedError("full");
    return inner_.Commit(std::move(writes));
  }
  absl::Status CheckRoom(size_t) const override {
    return full ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  }
  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const override {
    return inner_.Get(family, key);
  }
  std::unique_ptr<StoreIterator> Scan(Family family, absl::string_view begin, absl::string_view end,
                                      const ScanOptions& options = {}) const override {
    return inner_.Scan(family, begin, end, options);
  }
  absl::Status Health() const override { return inner_.Health(); }

  std::atomic<bool> full{false};
  std::atomic<int> tried{0};

 private:
  Store& inner_;
};

class CommitterTest : public testing::Test {
 protected:
  std::vector<RequestId> Lease(int64_t count) {
    absl::StatusOr<std::vector<RequestId>> ids = world_->Lease(count);
    EXPECT_TRUE(ids.ok()) << ids.status();
    return *std::move(ids);
  }
  size_t Rows(Store& store, Family family, JobNumber job) {
    size_t rows = 0;
    const auto scan = store.Scan(family, JobKey(job), JobKey(job + 1));
    for (; scan->Valid(); scan->Next()) ++rows;
    return rows;
  }
  absl::StatusOr<v1::OutcomeRecord> Outcome(RequestId id) {
    const std::string key = RequestRowKey(id.job, id.index);
    const absl::StatusOr<std::string> value = store_->Get(Family::kOutcomes, key);
    if (!value.ok()) return value.status();
    v1::OutcomeRecord outcome;
    const absl::Status status = DecodeRecord(key, *value, &outcome);
    if (!status.ok()) return status;
    return outcome;
  }

  std::unique_ptr<Store> store_ = NewMemoryStore();
  std::unique_ptr<JobWorld> world_ = std::make_unique<JobWorld>(*store_);
};

TEST_F(CommitterTest, AcknowledgedResultIsInTheStore) {
  const JobNumber job = world_->SubmitJob(3);
  const std::vector<RequestId> ids = Lease(3);
  ASSERT_TRUE(world_->Answer({ids[0]}).ok());
  const absl::StatusOr<v1::OutcomeRecord> outcome = Outcome(ids[0]);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kind(), v1::OUTCOME_SUCCEEDED);
  EXPECT_EQ(outcome->worker(), "worker-1");
  EXPECT_EQ(outcome->body_size(), static_cast<int64_t>(JobWorld::Body(ids[0]).size()));
  const std::string key = RequestRowKey(job, ids[0].index);
  const std::string answer = *store_->Get(Family::kResponses, key);
  EXPECT_EQ(*DecodeBytes(key, answer), JobWorld::Body(ids[0]));
  EXPECT_EQ(world_->Status(job).counts().succeeded(), 1);
  world_->ExpectAuditAgrees(job);
}

TEST_F(CommitterTest, JobIsCompletedByItsLastResult) {
  const JobNumber job = world_->SubmitJob(100);
  ASSERT_TRUE(world_->FinishAll().ok());
  const v1::JobStatus status = world_->Status(job);
  EXPECT_EQ(status.state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(status.counts().succeeded(), 100);
  EXPECT_EQ(status.prompt_tokens(), 1000);
  world_->ExpectAuditAgrees(job);
}

TEST_F(CommitterTest, OneAcknowledgementPerWorkerHoldsDroppedAndDuplicateResultsToo) {
  const JobNumber job = world_->SubmitJob(2);
  const std::vector<RequestId> ids = Lease(2);
  ASSERT_TRUE(world_
                  ->Deliver({world_->Result(ids[0], v1::AttemptResult::ANSWERED),
                             world_->Result(ids[0], v1::AttemptResult::ANSWERED),
                             world_->Result({job + 50, 0}, v1::AttemptResult::ANSWERED),
                             world_->Result({job, 99}, v1::AttemptResult::REJECTED)})
                  .ok());
  const std::vector<v1::CoordinatorMessage> messages = world_->messages();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].acknowledge().sequences_size(), 4);
  EXPECT_EQ(world_->dispatcher().duplicate_results(), 1);
  EXPECT_EQ(Rows(*store_, Family::kOutcomes, job), 1u);
  world_->ExpectAuditAgrees(job);
}

// First outcome wins, whatever comes later and in whatever commit.
TEST_F(CommitterTest, LaterResultDoesNotChangeAnOutcome) {
  const JobNumber job = world_->SubmitJob(2);
  const std::vector<RequestId> ids = Lease(2);
  ASSERT_TRUE(world_->Answer({ids[0]}).ok());
  ASSERT_TRUE(world_->Deliver({world_->Result(ids[0], v1::AttemptResult::REJECTED)}).ok());
  EXPECT_EQ(Outcome(ids[0])->kind(), v1::OUTCOME_SUCCEEDED);
  EXPECT_EQ(world_->Status(job).counts().failed(), 0);
}

TEST_F(CommitterTest, RetryKeepsAttemptsUntilTheOutcome) {
  const JobNumber job = world_->SubmitJob(1);
  ASSERT_TRUE(world_->Deliver({world_->Result(Lease(1)[0], v1::AttemptResult::RETRY)}).ok());
  EXPECT_EQ(Rows(*store_, Family::kAttempts, job), 1u);
  EXPECT_EQ(Rows(*store_, Family::kOutcomes, job), 0u);
  world_->ExpectAuditAgrees(job);
  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_EQ(Rows(*store_, Family::kAttempts, job), 0u);
  EXPECT_EQ(Outcome({job, 0})->attempts(), 2);
  world_->ExpectAuditAgrees(job);
}

TEST_F(CommitterTest, RefusedCommandSaysWhyAndOthersGoOn) {
  const JobNumber job = world_->SubmitJob(1);
  EXPECT_EQ(world_->Control(job, JobCommand::Kind::kDelete).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(world_->Control(job + 1, JobCommand::Kind::kPause).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(world_->Control(job, JobCommand::Kind::kPause).ok());
  EXPECT_EQ(world_->Status(job).state(), v1::JOB_STATE_PAUSED);
}

// The step from cancelling to cancelled is nobody's request: the committer must see it by itself.
TEST_F(CommitterTest, CancelEndsByItself) {
  const JobNumber job = world_->SubmitJob(5);
  const std::vector<RequestId> ids = Lease(3);
  ASSERT_TRUE(world_->Answer({ids[0]}).ok());
  ASSERT_TRUE(world_->Control(job, JobCommand::Kind::kCancel).ok());
  // A command is answered after whatever round was under way.
  while (world_->Status(job).state() == v1::JOB_STATE_CANCELLING) {
    (void)world_->Control(job, JobCommand::Kind::kCancel);
  }
  EXPECT_EQ(world_->Status(job).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(world_->Status(job).counts().cancelled(), 4);
  // The late answer is acknowledged and dropped.
  ASSERT_TRUE(world_->Answer({ids[1]}).ok());
  EXPECT_EQ(Rows(*store_, Family::kOutcomes, job), 1u);
  bool revoked = false;
  for (const auto& message : world_->messages()) {
    if (message.has_revoke()) revoked = message.revoke().keys_size() == 2;
  }
  EXPECT_TRUE(revoked);
  world_->ExpectAuditAgrees(job);
}

TEST_F(CommitterTest, DeletedJobLeavesNoRow) {
  const JobNumber other = world_->SubmitJob(2);
  const JobNumber job = world_->SubmitJob(2);
  ASSERT_TRUE(world_->FinishAll().ok());
  ASSERT_TRUE(world_->Control(job, JobCommand::Kind::kDelete).ok());
  for (const Family family : {Family::kJobs, Family::kRequests, Family::kOutcomes,
                              Family::kResponses, Family::kProgress, Family::kAttempts}) {
    EXPECT_EQ(Rows(*store_, family, job), 0u) << FamilyName(family);
  }
  EXPECT_FALSE(world_->dispatcher().GetRecord(job).ok());
  world_->ExpectAuditAgrees(other);
}

TEST_F(CommitterTest, ShutdownCommitsWhatIsQueuedAndFolds) {
  const JobNumber job = world_->SubmitJob(10);
  const std::vector<RequestId> ids = Lease(10);
  ASSERT_TRUE(world_->Answer({ids[0]}).ok());
  v1::ResultBatch batch;
  *batch.add_results() = world_->Result(ids[1], v1::AttemptResult::ANSWERED);
  world_->committer().AddResults(1, std::move(batch));
  world_->committer().Shutdown();
  EXPECT_TRUE(Outcome(ids[1]).ok());
  const auto scan = store_->Scan(Family::kProgress, JobKey(job), JobKey(job + 1));
  ASSERT_TRUE(scan->Valid());
  EXPECT_EQ(ParseProgressKey(scan->key())->commit, 0u);
  scan->Next();
  EXPECT_FALSE(scan->Valid());
  EXPECT_EQ(world_->Control(job, JobCommand::Kind::kPause).code(), absl::StatusCode::kUnavailable);
}

TEST_F(CommitterTest, FailedCommitConfirmsNothingAndIsReportedOnce) {
  const JobNumber job = world_->SubmitJob(4);
  world_.reset();

  StoppingStore stopped(*store_, 1);  // the frontier gets through
  JobWorld world(stopped);
  const std::vector<RequestId> ids = *world.Lease(4);
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_EQ(world.Answer({ids[0], ids[1]}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(world.broken_count(), 1);
  EXPECT_TRUE(world.acknowledged().empty());
  EXPECT_FALSE(Outcome(ids[0]).ok());
  // Memory does not say what the disk does not.
  EXPECT_EQ(world.Status(job).counts().succeeded(), 0);
  EXPECT_EQ(world.Control(job, JobCommand::Kind::kPause).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(world.Answer({ids[2]}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(world.broken_count(), 1);
}

TEST_F(CommitterTest, FailedCommitFailsItsCommands) {
  const JobNumber job = world_->SubmitJob(4);
  world_.reset();
  StoppingStore stopped(*store_, 0);
  JobWorld world(stopped);
  EXPECT_EQ(world.Control(job, JobCommand::Kind::kPause).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(world.Status(job).state(), v1::JOB_STATE_QUEUED);
}

// A stale command must not undo the commit of everybody else.
TEST_F(CommitterTest, UnmetConditionRefusesThatCommandAlone) {
  const JobNumber job = world_->SubmitJob(2);
  JobCommand stale;
  stale.kind = JobCommand::Kind::kPause;
  stale.job = job;
  stale.extra.ExpectValue(Family::kJobs, JobKey(job), "something else");
  EXPECT_EQ(world_->committer().Execute(std::move(stale)).code(), absl::StatusCode::kAborted);
  JobCommand fresh;
  fresh.kind = JobCommand::Kind::kPause;
  fresh.job = job;
  fresh.extra.ExpectValue(Family::kJobs, JobKey(job), *store_->Get(Family::kJobs, JobKey(job)));
  EXPECT_TRUE(world_->committer().Execute(std::move(fresh)).ok());
  EXPECT_EQ(world_->broken_count(), 0);
}

// Many threads bring results and commands; every one is answered, and the counts are right.
TEST_F(CommitterTest, ManyCallersShareCommits) {
  JobWorld::Options options;
  options.committer.batch_results_max = 16;
  options.committer.deltas_per_chunk_max = 3;
  world_.reset();
  world_ = std::make_unique<JobWorld>(*store_, options);
  const JobNumber job = world_->SubmitJob(400);
  const JobNumber other = world_->SubmitJob(1);
  const std::vector<RequestId> ids = Lease(401);
  std::vector<std::vector<v1::AttemptResult>> parts(4);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i].job != job) continue;
    parts[i % 4].push_back(world_->Result(ids[i], v1::AttemptResult::ANSWERED));
  }
  std::vector<std::thread> threads;
  for (auto& part : parts) {
    threads.emplace_back([this, &part] {
      for (v1::AttemptResult& result : part) {
        ASSERT_TRUE(world_->Deliver({std::move(result)}).ok());
      }
    });
  }
  threads.emplace_back([this, other] {
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(world_->Control(other, JobCommand::Kind::kPause).ok());
      ASSERT_TRUE(world_->Control(other, JobCommand::Kind::kResume).ok());
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(world_->Status(job).state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(world_->Status(job).counts().succeeded(), 400);
  world_->ExpectAuditAgrees(job);
  world_->ExpectAuditAgrees(other);
}

TEST_F(CommitterTest, MessageLargerThanABatchIsSplit) {
  JobWorld::Options options;
  options.committer.batch_results_max = 3;
  options.committer.batch_bytes_max = 64;
  world_.reset();
  StoppingStore counting(*store_, 1 << 20);
  JobWorld world(counting, options);
  const JobNumber job = world.SubmitJob(10);
  const std::vector<RequestId> ids = *world.Lease(10);
  const int64_t before = counting.commits();
  ASSERT_TRUE(world.Answer(ids).ok());
  // Three results at most in each.
  EXPECT_GE(counting.commits() - before, 4);
  EXPECT_EQ(world.Status(job).state(), v1::JOB_STATE_COMPLETED);
}

TEST_F(CommitterTest, OnAFullDiskResultsWaitAndCommandsAreRefused) {
  world_.reset();
  FullStore store(*store_);
  JobWorld world(store);
  const JobNumber job = world.SubmitJob(3);
  const std::vector<RequestId> ids = *world.Lease(3);
  store.full = true;
  const int tried = store.tried;
  absl::Status delivered;
  std::thread worker([&] { delivered = world.Answer(ids); });
  EXPECT_TRUE(absl::IsResourceExhausted(world.Control(job, JobCommand::Kind::kPause)));
  EXPECT_TRUE(absl::IsResourceExhausted(world.Control(job, JobCommand::Kind::kPause)));
  EXPECT_TRUE(world.acknowledged().empty());
  EXPECT_EQ(store.tried, tried) << "a commit was tried";
  store.full = false;
  worker.join();
  EXPECT_TRUE(delivered.ok()) << delivered;
  EXPECT_EQ(world.Status(job).state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(world.broken_count(), 0);
  world.ExpectAuditAgrees(job);
}

// A worker that reconnects while the disk is full sends everything again: what waits of it must not
// grow with each time.
TEST_F(CommitterTest, WhatWaitsOfAWorkerIsDroppedAtItsHello) {
  world_.reset();
  FullStore store(*store_);
  JobWorld::Options options;
  options.committer.batch_results_max = 1;
  JobWorld world(store, options);
  const JobNumber job = world.SubmitJob(4);
  const std::vector<RequestId> ids = *world.Lease(4);
  ASSERT_EQ(ids.size(), 4u);
  const auto add = [&](std::vector<RequestId> some) {
    v1::ResultBatch batch;
    for (const RequestId id : some) {
      *batch.add_results() = world.Result(id, v1::AttemptResult::ANSWERED);
    }
    world.committer().AddResults(1, std::move(batch));
  };
  store.full = true;
  add({ids[0], ids[1]});
  // Refused when the committer has looked at the disk: the first result is in a round, the second
  // waits with the rounds, and the third arrives later.
  EXPECT_TRUE(absl::IsResourceExhausted(world.Control(job, JobCommand::Kind::kPause)));
  add({ids[2]});
  world.committer().DropWaiting(2);  // another worker's Hello
  world.committer().DropWaiting(1);
  add({ids[3]});
  store.full = false;
  world.committer().Shutdown();
  EXPECT_EQ(world.acknowledged(), (std::set<uint64_t>{1, 4}));
  EXPECT_EQ(world.Status(job).counts().succeeded(), 2);
}

// A command that was refused leaves nothing to commit; that is no sign of room.
TEST_F(CommitterTest, RoomIsSaidToBeBackOnlyWhenItIs) {
  world_.reset();
  FullStore store(*store_);
  JobWorld world(store);
  const JobNumber job = world.SubmitJob(1);
  SetLogLevel(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  store.full = true;
  for (int i = 0; i < 3; ++i) {  // each wakes the committer, which looks again
    EXPECT_TRUE(absl::IsResourceExhausted(world.Control(job, JobCommand::Kind::kPause)));
  }
  const std::string held = ::testing::internal::GetCapturedStderr();
  ::testing::internal::CaptureStderr();
  store.full = false;
  EXPECT_TRUE(world.Control(job, JobCommand::Kind::kPause).ok());
  const std::string on = ::testing::internal::GetCapturedStderr();
  SetLogLevel(LogLevel::kWarning);
  const size_t told = held.find("nothing is committed");
  EXPECT_NE(told, std::string::npos) << held;
  EXPECT_EQ(held.find("nothing is committed", told + 1), std::string::npos) << held;
  EXPECT_EQ(held.find("room again"), std::string::npos) << held;
  EXPECT_NE(on.find("room again"), std::string::npos) << on;
}

TEST_F(CommitterTest, EndsOnAFullDiskWithoutWaitingForRoom) {
  world_.reset();
  FullStore store(*store_);
  JobNumber job = 0;
  {
    JobWorld world(store);
    job = world.SubmitJob(3);
    ASSERT_TRUE(world.Answer(*world.Lease(1)).ok());  // leaves something to fold
    store.full = true;
    const int tried = store.tried;
    world.committer().Shutdown();
    EXPECT_EQ(store.tried, tried);
    EXPECT_TRUE(absl::IsUnavailable(world.Control(job, JobCommand::Kind::kPause)));
  }
  world_ = std::make_unique<JobWorld>(*store_);
  EXPECT_EQ(world_->Status(job).counts().succeeded(), 1);
  world_->ExpectAuditAgrees(job);
}

}  // namespace
}  // namespace nightshift
