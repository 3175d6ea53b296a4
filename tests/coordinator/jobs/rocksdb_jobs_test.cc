// The same life on the store that people use.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "storage/rocksdb_store.h"
#include "tests/coordinator/jobs/crash_scenario.h"
#include "tests/coordinator/jobs/job_world.h"
#include "tests/coordinator/jobs/lifecycle_race.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

class RocksDbJobsTest : public testing::Test {
 protected:
  // Closes what is open; a fresh one is in another folder.
  Store& Open(bool fresh) {
    store_.reset();
    if (fresh) ++number_;
    RocksDbStoreOptions options;
    options.path = folder_ / absl::StrCat("db-", number_);
    absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksDbStore(options);
    NIGHTSHIFT_CHECK(store.ok(), store.status().ToString());
    store_ = *std::move(store);
    return *store_;
  }

  TempFolder folder_;
  int number_ = 0;
  std::unique_ptr<Store> store_;
};

TEST_F(RocksDbJobsTest, AnyCommitMayBeTheLast) {
  CrashEverywhere([this](bool fresh) -> Store& { return Open(fresh); }, 7);
}

// NIGHTSHIFT_RACES for a long run.
TEST_F(RocksDbJobsTest, JobsThatAreRacedOverEndOnce) {
  int rounds = 100;
  if (const char* given = std::getenv("NIGHTSHIFT_RACES"); given != nullptr) {
    NIGHTSHIFT_CHECK(absl::SimpleAtoi(given, &rounds), "NIGHTSHIFT_RACES is no number");
  }
  for (const auto& [state, count] : RaceLifecycles(Open(true), rounds)) {
    std::printf("%s %d\n", state.c_str(), count);
  }
}

TEST_F(RocksDbJobsTest, JobGoesThroughAndIsRead) {
  JobWorld::Options options;
  options.committer.deltas_per_chunk_max = 3;
  JobNumber job = 0;
  {
    JobWorld world(Open(true), options);
    job = world.SubmitJob(5000);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(world.Answer(*world.Lease(100)).ok());
  }
  JobWorld world(Open(false), options);
  EXPECT_EQ(world.Status(job).counts().succeeded(), 2000);
  ASSERT_TRUE(world.FinishAll().ok());
  EXPECT_EQ(world.Status(job).state(), v1::JOB_STATE_COMPLETED);
  world.ExpectAuditAgrees(job);
  const std::vector<std::string> lines = world.Lines(job, v1::ReadOutputRequest::RESULTS);
  ASSERT_EQ(lines.size(), 5000u);
  EXPECT_NE(lines[4999].find("\"custom_id\":\"r-4999\""), std::string::npos);
  ASSERT_TRUE(world.Control(job, JobCommand::Kind::kDelete).ok());
  for (int i = 1; i < kFamilyCount; ++i) {
    EXPECT_FALSE(store_->Scan(static_cast<Family>(i), "", "")->Valid());
  }
}

}  // namespace
}  // namespace nightshift
