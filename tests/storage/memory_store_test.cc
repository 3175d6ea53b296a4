#include "storage/memory_store.h"

#include "base/clock.h"
#include "storage/metered_store.h"
#include "tests/storage/store_conformance.h"

namespace nightshift {
namespace {

class MemoryStoreFixture final : public StoreFixture {
 public:
  Store& store() override { return *store_; }

 private:
  const std::unique_ptr<Store> store_ = NewMemoryStore();
};

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformanceTest,
                         testing::Values(StoreFixtureMaker{
                             "memory", [] { return std::make_unique<MemoryStoreFixture>(); }}));

class MeteredStoreFixture final : public StoreFixture {
 public:
  Store& store() override { return *store_; }

 private:
  const std::unique_ptr<Store> store_ =
      NewMeteredStore(NewMemoryStore(), Clock::Real(), [](absl::Duration) {});
};

INSTANTIATE_TEST_SUITE_P(Metered, StoreConformanceTest,
                         testing::Values(StoreFixtureMaker{
                             "metered", [] { return std::make_unique<MeteredStoreFixture>(); }}));

TEST(MeteredStoreTest, EveryCommitIsToldFailedOnesToo) {
  int commits = 0;
  const std::unique_ptr<Store> store =
      NewMeteredStore(NewMemoryStore(), Clock::Real(), [&](absl::Duration took) {
        EXPECT_GE(took, absl::ZeroDuration());
        ++commits;
      });
  WriteSet writes;
  writes.ExpectAbsent(Family::kJobs, "a");
  writes.Put(Family::kJobs, "a", "1");
  EXPECT_TRUE(store->Commit(writes).ok());
  EXPECT_FALSE(store->Commit(std::move(writes)).ok());
  EXPECT_EQ(commits, 2);
}

TEST(MemoryStoreTest, ScanMayOutliveItsStore) {
  std::unique_ptr<Store> store = NewMemoryStore();
  WriteSet writes;
  writes.Put(Family::kJobs, "a", "1");
  ASSERT_TRUE(store->Commit(std::move(writes)).ok());
  const std::unique_ptr<StoreIterator> rows = store->Scan(Family::kJobs, "", "");
  store.reset();
  ASSERT_TRUE(rows->Valid());
  EXPECT_EQ(rows->value(), "1");
}

}  // namespace
}  // namespace nightshift
