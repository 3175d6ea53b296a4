#include "storage/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "storage/memory_store.h"
#include "storage/record.h"
#include "storage/schema_upgrades.h"

namespace nightshift {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::Status Put(Store& store, Family family, const std::string& key, const std::string& value) {
  WriteSet writes;
  writes.Put(family, key, value);
  return store.Commit(std::move(writes));
}

std::string Get(const Store& store, Family family, const std::string& key) {
  return store.Get(family, key).value_or("<absent>");
}

TEST(SchemaTest, NewStoreGetsTheCurrentVersionAndOpensAgain) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  ASSERT_TRUE(PrepareSchema(*store).ok());
  EXPECT_EQ(Get(*store, Family::kMeta, "schema_version"),
            EncodeBytes("schema_version", absl::StrCat(kSchemaVersion)));
  EXPECT_TRUE(PrepareSchema(*store).ok());
}

TEST(SchemaTest, NewerStoreIsRefusedNamingBothVersions) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  ASSERT_TRUE(PrepareSchemaWith(*store, 41, {}).ok());
  const std::string before = Get(*store, Family::kMeta, "schema_version");
  const absl::Status status = PrepareSchema(*store);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("41"), HasSubstr(absl::StrCat(kSchemaVersion))));
  EXPECT_EQ(Get(*store, Family::kMeta, "schema_version"), before);
}

TEST(SchemaTest, OlderStoreIsUpgradedStepByStep) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  ASSERT_TRUE(PrepareSchemaWith(*store, 1, {}).ok());
  ASSERT_TRUE(Put(*store, Family::kJobs, "job", "one").ok());
  const std::vector<SchemaUpgrade> upgrades = {
      {2,
       [](Store& s) {
         return Put(s, Family::kJobs, "job", absl::StrCat(Get(s, Family::kJobs, "job"), "-three"));
       }},
      {1, [](Store& s) {
         return Put(s, Family::kJobs, "job", absl::StrCat(Get(s, Family::kJobs, "job"), "-two"));
       }}};
  ASSERT_TRUE(PrepareSchemaWith(*store, 3, upgrades).ok());
  EXPECT_EQ(Get(*store, Family::kJobs, "job"), "one-two-three");
  ASSERT_TRUE(PrepareSchemaWith(*store, 3, upgrades).ok());
  EXPECT_EQ(Get(*store, Family::kJobs, "job"), "one-two-three") << "steps ran twice";
}

TEST(SchemaTest, FailedStepIsNamedAndRunsAgainNextTime) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  ASSERT_TRUE(PrepareSchemaWith(*store, 1, {}).ok());
  const absl::Status status =
      PrepareSchemaWith(*store, 2, {{1, [](Store&) { return absl::UnavailableError("disk"); }}});
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 1: disk"));
  ASSERT_TRUE(PrepareSchemaWith(
                  *store, 2, {{1, [](Store& s) { return Put(s, Family::kFiles, "ran", "again"); }}})
                  .ok());
  EXPECT_EQ(Get(*store, Family::kFiles, "ran"), "again");
}

TEST(SchemaTest, MissingStepIsRefused) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  ASSERT_TRUE(PrepareSchemaWith(*store, 1, {}).ok());
  EXPECT_EQ(PrepareSchemaWith(*store, 3, {{2, [](Store&) { return absl::OkStatus(); }}}).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SchemaTest, RowsWithoutAVersionAreDamage) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  ASSERT_TRUE(Put(*store, Family::kResponses, "a", "b").ok());
  const absl::Status status = PrepareSchema(*store);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("responses"));
}

TEST(SchemaTest, DamagedVersionIsDamage) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  ASSERT_TRUE(Put(*store, Family::kMeta, "schema_version", "1").ok());
  EXPECT_TRUE(absl::IsDataLoss(PrepareSchema(*store)));
  ASSERT_TRUE(
      Put(*store, Family::kMeta, "schema_version", EncodeBytes("schema_version", "one")).ok());
  EXPECT_TRUE(absl::IsDataLoss(PrepareSchema(*store)));
}

TEST(SchemaTest, EpochRisesByOneWithEachStart) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  EXPECT_EQ(StartEpoch(*store).value(), 1u);
  EXPECT_EQ(StartEpoch(*store).value(), 2u);
  EXPECT_EQ(NextJobNumber(*store).value(), 1u) << "counters must not share a row";
  EXPECT_EQ(StartEpoch(*store).value(), 3u);
}

TEST(SchemaTest, JobNumbersAreNeverHandedOutTwice) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  const std::unique_ptr<Store> store = NewMemoryStore();
  Mutex mutex;
  std::set<uint64_t> seen;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        const absl::StatusOr<uint64_t> number = NextJobNumber(*store);
        ASSERT_TRUE(number.ok()) << number.status();
        MutexLock lock(&mutex);
        EXPECT_TRUE(seen.insert(*number).second) << *number;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen.size(), static_cast<size_t>(kThreads * kEach));
  EXPECT_EQ(*seen.rbegin(), static_cast<uint64_t>(kThreads * kEach));
}

TEST(SchemaTest, DamagedCounterStopsInsteadOfStartingOver) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  ASSERT_TRUE(NextJobNumber(*store).ok());
  ASSERT_TRUE(Put(*store, Family::kMeta, "next_job", "garbage that is long enough").ok());
  EXPECT_TRUE(absl::IsDataLoss(NextJobNumber(*store).status()));
}

TEST(SchemaTest, AStoreKeepsItsIdAndOthersHaveAnother) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  const std::unique_ptr<Store> other = NewMemoryStore();
  Random random(7);
  ASSERT_TRUE(PrepareSchema(*store).ok());
  const std::string id = *StoreId(*store, random);
  EXPECT_EQ(id.size(), 32u);
  EXPECT_EQ(*StoreId(*store, random), id);
  EXPECT_NE(*StoreId(*other, random), id);
  const std::string renewed = *RenewStoreId(*store, random);
  EXPECT_EQ(renewed.size(), 32u);
  EXPECT_NE(renewed, id);
  EXPECT_EQ(*StoreId(*store, random), renewed);
  ASSERT_TRUE(Put(*store, Family::kMeta, "store_id", "not a record").ok());
  EXPECT_EQ(StoreId(*store, random).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace nightshift
