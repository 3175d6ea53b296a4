// A store of each version of the schema, as the program of that time wrote it, is opened by this
// one: nothing is lost, counts agree, and its jobs go on.
//
// Raising kSchemaVersion makes this fail until there is a fixture of the new version too: with
// NIGHTSHIFT_WRITE_FIXTURE=1 it is written into the source tree. Those of earlier versions stay as
// their programs wrote them.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "storage/keys.h"
#include "storage/rocksdb_store.h"
#include "storage/schema.h"
#include "storage/schema_upgrades.h"
#include "tests/coordinator/jobs/job_world.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

namespace fs = std::filesystem;

constexpr JobNumber kFinished = 1;   // 4 of 6 succeeded, one line could not be used, one rejected
constexpr JobNumber kCancelled = 2;  // 2 of 5 succeeded
constexpr JobNumber kHalf = 3;       // 3 of 9 succeeded, one is being retried
constexpr JobNumber kNumbers = 4;    // the next one

std::string FixtureFolder(uint32_t version) {
  return absl::StrCat(NIGHTSHIFT_FIXTURES, "/schema-", version);
}

std::unique_ptr<Store> Open(const std::string& path) {
  RocksDbStoreOptions options;
  options.path = path;
  absl::StatusOr<std::unique_ptr<DiskStore>> store = OpenRocksDbStore(options);
  NIGHTSHIFT_CHECK(store.ok(), store.status().ToString());
  return *std::move(store);
}

JobWorld::Options Options() {
  JobWorld::Options options;
  options.committer.deltas_per_chunk_max = 100;
  return options;
}

// Tables of the first life, a log of the second.
void WriteFixture(const std::string& path) {
  fs::remove_all(path);
  fs::create_directories(fs::path(path).parent_path());
  {
    const std::unique_ptr<Store> store = Open(path);
    ASSERT_TRUE(PrepareSchema(*store).ok());
    Random random(1);
    ASSERT_TRUE(StoreId(*store, random).ok());
    ASSERT_TRUE(StartEpoch(*store).ok());
    JobWorld world(*store, Options());
    v1::SubmitRequests requests = JobWorld::Requests(0, 6);
    requests.mutable_requests(2)->set_body("not JSON");
    v1::SubmitBegin begin;
    begin.set_skip_bad_lines(true);
    ASSERT_TRUE(world.Submit(std::move(requests), begin, "token-1").ok());
    ASSERT_TRUE(world.Lease(100).ok());
    ASSERT_TRUE(world.Deliver({world.Result({kFinished, 5}, v1::AttemptResult::REJECTED)}).ok());
    ASSERT_TRUE(
        world.Answer({{kFinished, 0}, {kFinished, 1}, {kFinished, 3}, {kFinished, 4}}).ok());
    ASSERT_EQ(world.SubmitJob(5), kCancelled);
    ASSERT_TRUE(world.Answer(*world.Lease(2)).ok());
    ASSERT_TRUE(world.Control(kCancelled, JobCommand::Kind::kCancel).ok());
    world.committer().Shutdown();
  }
  const std::unique_ptr<Store> store = Open(path);
  ASSERT_TRUE(StartEpoch(*store).ok());
  JobWorld world(*store, Options());
  ASSERT_EQ(world.SubmitJob(9), kHalf);
  ASSERT_TRUE(world.Lease(4).ok());
  ASSERT_TRUE(world.Answer({{kHalf, 0}, {kHalf, 1}}).ok());
  ASSERT_TRUE(world.Deliver({world.Result({kHalf, 2}, v1::AttemptResult::RETRY)}).ok());
  ASSERT_TRUE(world.Answer({{kHalf, 3}}).ok());
}

void DropWhatNoStoreIsReadFrom(const std::string& path) {
  std::vector<fs::path> dropped;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    for (const char* const beginning : {"LOG", "LOCK", "OPTIONS-", "nightshift.lock"}) {
      if (name.starts_with(beginning)) dropped.push_back(entry.path());
    }
  }
  for (const fs::path& file : dropped) fs::remove(file);
}

void ExpectCounts(JobWorld& world, JobNumber job, int64_t succeeded, int64_t failed,
                  int64_t cancelled, int64_t unfinished) {
  const v1::Counts counts = world.Status(job).counts();
  EXPECT_EQ(counts.succeeded(), succeeded) << "job " << job;
  EXPECT_EQ(counts.failed(), failed) << "job " << job;
  EXPECT_EQ(counts.cancelled(), cancelled) << "job " << job;
  EXPECT_EQ(counts.pending() + counts.retrying() + counts.in_flight(), unfinished) << "job " << job;
}

void CheckStore(Store& store) {
  ASSERT_TRUE(PrepareSchema(store).ok());
  EXPECT_EQ(*StartEpoch(store), 3u);
  Random random(2);
  EXPECT_EQ(*StoreId(store, random), "853b559647364ceab3f2af6d0fc710c5");
  EXPECT_EQ(*NextJobNumber(store), kNumbers);
  JobWorld world(store, Options());
  ASSERT_EQ(world.dispatcher().ListJobs().size(), 3u);
  for (const JobNumber job : {kFinished, kCancelled, kHalf}) world.ExpectAuditAgrees(job);
  EXPECT_EQ(world.Status(kFinished).state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(world.dispatcher().FindJobByToken("token-1"), kFinished);
  ExpectCounts(world, kFinished, 4, 2, 0, 0);
  EXPECT_EQ(world.Status(kCancelled).state(), v1::JOB_STATE_CANCELLED);
  ExpectCounts(world, kCancelled, 2, 0, 3, 0);
  ExpectCounts(world, kHalf, 3, 0, 0, 6);
  EXPECT_TRUE(store.Get(Family::kAttempts, RequestRowKey(kHalf, 2)).ok());
  const std::vector<std::string> results = world.Lines(kFinished, v1::ReadOutputRequest::RESULTS);
  ASSERT_EQ(results.size(), 4u);
  EXPECT_NE(results[3].find("\"custom_id\":\"r-4\""), std::string::npos) << results[3];
  EXPECT_NE(results[3].find(JobWorld::Body({kFinished, 4})), std::string::npos) << results[3];
  const std::vector<std::string> errors = world.Lines(kFinished, v1::ReadOutputRequest::ERRORS);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_NE(errors[0].find("invalid_request_line"), std::string::npos) << errors[0];
  ASSERT_TRUE(world.FinishAll().ok());
  EXPECT_EQ(world.Status(kHalf).state(), v1::JOB_STATE_COMPLETED);
  ExpectCounts(world, kHalf, 9, 0, 0, 0);
  world.ExpectAuditAgrees(kHalf);
}

TEST(SchemaFixtureTest, StoreOfEachVersionIsOpenedAndGoesOn) {
  if (getenv("NIGHTSHIFT_WRITE_FIXTURE") != nullptr) {
    WriteFixture(FixtureFolder(kSchemaVersion));
    DropWhatNoStoreIsReadFrom(FixtureFolder(kSchemaVersion));
  }
  for (uint32_t version = 1; version <= kSchemaVersion; ++version) {
    SCOPED_TRACE(FixtureFolder(version));
    ASSERT_TRUE(fs::exists(FixtureFolder(version) + "/CURRENT")) << "there is no fixture";
    const TempFolder folder;
    fs::copy(FixtureFolder(version), folder / "store", fs::copy_options::recursive);
    const std::unique_ptr<Store> store = Open(folder / "store");
    CheckStore(*store);
  }
}

// Its families, keys and records may mean something else: nothing of it is touched.
TEST(SchemaFixtureTest, StoreOfANewerVersionIsRefusedAndLeftAlone) {
  const TempFolder folder;
  fs::copy(FixtureFolder(kSchemaVersion), folder / "store", fs::copy_options::recursive);
  {
    const std::unique_ptr<Store> store = Open(folder / "store");
    const std::vector<SchemaUpgrade> upgrade = {
        {kSchemaVersion, [](Store&) { return absl::OkStatus(); }}};
    ASSERT_TRUE(PrepareSchemaWith(*store, kSchemaVersion + 1, upgrade).ok());
  }
  {
    const std::unique_ptr<Store> store = Open(folder / "store");
    const absl::Status status = PrepareSchema(*store);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(status.message().find(absl::StrCat("the store has version ", kSchemaVersion + 1,
                                                 ", this program knows versions up to ",
                                                 kSchemaVersion, ": nothing was changed")),
              absl::string_view::npos)
        << status;
  }
  const std::unique_ptr<Store> store = Open(folder / "store");
  EXPECT_TRUE(PrepareSchemaWith(*store, kSchemaVersion + 1, {}).ok()) << "it was changed";
}

}  // namespace
}  // namespace nightshift
