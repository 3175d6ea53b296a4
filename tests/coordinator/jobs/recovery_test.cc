#include "coordinator/jobs/recovery.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "coordinator/commit/progress_chunk.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/record.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

// Counts what is read of each family.
class CountingStore final : public Store {
 public:
  explicit CountingStore(Store& inner) : inner_(inner) {}
  absl::Status Commit(WriteSet writes) override { return inner_.Commit(std::move(writes)); }
  absl::Status CheckRoom(size_t bytes) const override { return inner_.CheckRoom(bytes); }
  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const override {
    ++reads[static_cast<size_t>(family)];
    return inner_.Get(family, key);
  }
  std::unique_ptr<StoreIterator> Scan(Family family, absl::string_view begin, absl::string_view end,
                                      const ScanOptions& options) const override {
    ++reads[static_cast<size_t>(family)];
    return inner_.Scan(family, begin, end, options);
  }
  absl::Status Health() const override { return inner_.Health(); }

  mutable int reads[kFamilyCount] = {};

 private:
  Store& inner_;
};

class RecoveryTest : public testing::Test {
 protected:
  void Restart() {
    world_.reset();
    world_ = std::make_unique<JobWorld>(*store_);
  }
  LoadedJob Load(JobNumber number) {
    absl::StatusOr<std::vector<LoadedJob>> jobs = LoadJobs(*store_);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    for (LoadedJob& job : *jobs) {
      if (job.number == number) return std::move(job);
    }
    ADD_FAILURE() << "job " << number << " is not loaded";
    return {};
  }
  void Damage(Family family, const std::string& key) {
    std::string value = *store_->Get(family, key);
    value.back() = static_cast<char>(value.back() ^ 1);
    WriteSet writes;
    writes.Put(family, key, value);
    ASSERT_TRUE(store_->Commit(std::move(writes)).ok());
  }

  std::unique_ptr<Store> store_ = NewMemoryStore();
  std::unique_ptr<JobWorld> world_ = std::make_unique<JobWorld>(*store_);
};

TEST_F(RecoveryTest, RunningJobComesBackWithBitsSumsAndAttempts) {
  const JobNumber job = world_->SubmitJob(20);
  const std::vector<RequestId> ids = *world_->Lease(10);
  ASSERT_TRUE(world_->Answer({ids[0], ids[3]}).ok());
  ASSERT_TRUE(world_
                  ->Deliver({world_->Result(ids[5], v1::AttemptResult::REJECTED),
                             world_->Result(ids[6], v1::AttemptResult::RETRY)})
                  .ok());
  const LoadedJob loaded = Load(job);
  ASSERT_EQ(loaded.finished_bitmaps.size(), 1u);
  EXPECT_EQ(CountBits(loaded.finished_bitmaps[0]), 3u);
  EXPECT_TRUE(BitIsSet(loaded.finished_bitmaps[0], 5));
  EXPECT_EQ(loaded.sums.succeeded(), 2);
  EXPECT_EQ(loaded.sums.failed(), 1);
  ASSERT_EQ(loaded.attempts.size(), 1u);
  EXPECT_EQ(loaded.attempts[0].first, 6u);
  EXPECT_EQ(loaded.attempts[0].second.charged(), 1);
  EXPECT_GE(loaded.record.lease_frontier(), 10);

  Restart();
  EXPECT_EQ(world_->Status(job).counts().succeeded(), 2);
  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_EQ(world_->Status(job).state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(world_->Status(job).counts().succeeded(), 19);
  world_->ExpectAuditAgrees(job);
}

TEST_F(RecoveryTest, EndedJobComesBackByItsRowAlone) {
  const JobNumber job = world_->SubmitJob(5);
  ASSERT_TRUE(world_->FinishAll().ok());
  const LoadedJob loaded = Load(job);
  EXPECT_TRUE(loaded.finished_bitmaps.empty());
  EXPECT_EQ(loaded.sums.succeeded(), 5);
  std::vector<std::string> bitmaps;
  v1::ProgressSums sums;
  ASSERT_TRUE(LoadProgress(*store_, job, 5, &bitmaps, &sums).ok());
  EXPECT_EQ(sums.succeeded(), 5);
  EXPECT_EQ(CountBits(bitmaps.at(0)), 5u);
}

// However many have ended before it, the one that runs goes on. And that they all have
// requests of the same names means nothing.
TEST_F(RecoveryTest, TheNewestOfManyJobsGoesOn) {
  for (int i = 0; i < 200; ++i) world_->SubmitJob(2);
  ASSERT_TRUE(world_->FinishAll().ok());
  const JobNumber running = world_->SubmitJob(10);
  ASSERT_TRUE(world_->Answer(*world_->Lease(4)).ok());
  Restart();
  EXPECT_EQ(world_->dispatcher().ListJobs().size(), 201u);
  EXPECT_EQ(world_->Status(running).state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(world_->Status(running).counts().succeeded(), 4);
  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_EQ(world_->Status(running).counts().succeeded(), 10);
  EXPECT_EQ(world_->Lines(running, v1::ReadOutputRequest::RESULTS).size(), 10u);
}

// A restart costs what is unfinished, not what is done.
TEST_F(RecoveryTest, LoadingReadsNeitherRequestsNorOutcomes) {
  world_->SubmitJob(50);
  ASSERT_TRUE(world_->Answer(*world_->Lease(20)).ok());
  CountingStore counting(*store_);
  ASSERT_TRUE(LoadJobs(counting).ok());
  for (const Family family : {Family::kRequests, Family::kOutcomes, Family::kResponses}) {
    EXPECT_EQ(counting.reads[static_cast<size_t>(family)], 0) << FamilyName(family);
  }
  EXPECT_EQ(counting.reads[static_cast<size_t>(Family::kProgress)], 1);
}

// A crash in the middle of a cancellation: the restart ends it.
TEST_F(RecoveryTest, InterruptedCancellationEnds) {
  const JobNumber job = world_->SubmitJob(5);
  world_.reset();
  StoppingStore stopping(*store_, 1);  // cancelling, but not cancelled
  {
    JobWorld world(stopping);
    EXPECT_TRUE(world.Control(job, JobCommand::Kind::kCancel).ok());
  }
  EXPECT_EQ(Load(job).record.state(), v1::JOB_STATE_CANCELLING);
  Restart();
  world_->committer().Shutdown();
  EXPECT_EQ(world_->Status(job).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(world_->Status(job).counts().cancelled(), 5);
}

TEST_F(RecoveryTest, DamagedRowsAreDataLoss) {
  const JobNumber job = world_->SubmitJob(5);
  ASSERT_TRUE(world_->Answer({(*world_->Lease(5))[0]}).ok());
  world_.reset();
  const std::string progress = ProgressKey(job, 0, 0);
  Damage(Family::kProgress, progress);
  EXPECT_EQ(LoadJobs(*store_).status().code(), absl::StatusCode::kDataLoss);
  Damage(Family::kProgress, progress);  // whole again
  EXPECT_TRUE(LoadJobs(*store_).ok());
  Damage(Family::kJobs, JobKey(job));
  EXPECT_EQ(LoadJobs(*store_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DropUnsealedJobs(*store_).code(), absl::StatusCode::kDataLoss);
}

TEST_F(RecoveryTest, ProgressPastTheEndIsDataLoss) {
  const JobNumber job = world_->SubmitJob(5);
  const std::string key = ProgressKey(job, 1, 0);
  WriteSet writes;
  writes.Put(Family::kProgress, key, EncodeRecord(key, v1::ProgressBase()));
  ASSERT_TRUE(store_->Commit(std::move(writes)).ok());
  EXPECT_EQ(LoadJobs(*store_).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace nightshift
