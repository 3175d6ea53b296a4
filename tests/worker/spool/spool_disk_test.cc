#include "worker/spool/spool_disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

constexpr uint64_t kNone = UINT64_MAX;
constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

// A coordinator that answers costs no sync: whatever was there at one look is gone at the next.
TEST(SyncPolicyTest, WhatIsForgottenInTimeIsNeverSynced) {
  SyncPolicy policy(kLookEvery);
  MonotonicTime now;
  EXPECT_FALSE(policy.Look(now, kNone, 0));
  for (uint64_t written = 10; written < 1000; written += 10) {
    EXPECT_FALSE(policy.Look(now = now + kLookEvery, written - 9, written)) << written;
  }
  EXPECT_TRUE(policy.Idle(kNone, 990));
}

TEST(SyncPolicyTest, WhatIsStillThereAtTheNextLookIsSyncedOnce) {
  SyncPolicy policy(kLookEvery);
  MonotonicTime now;
  EXPECT_FALSE(policy.Look(now, 1, 10));
  EXPECT_TRUE(policy.Look(now = now + kLookEvery, 1, 15));
  policy.Synced(15);
  EXPECT_FALSE(policy.Look(now = now + kLookEvery, 1, 15));
  EXPECT_TRUE(policy.Idle(1, 15));
  // More has come while the old ones wait.
  EXPECT_FALSE(policy.Idle(1, 16));
  EXPECT_TRUE(policy.Look(now + kLookEvery, 1, 16));
}

// While one answer stays (its acknowledgement is slow, or lost), others come one by one, and the
// thread is woken for each of them and for files too.
TEST(SyncPolicyTest, OneOldAnswerDoesNotMakeEachNewOneASync) {
  SyncPolicy policy(kLookEvery);
  int syncs = 0;
  for (int ms = 0; ms < 1000; ++ms) {
    const MonotonicTime now = MonotonicTime{} + absl::Milliseconds(ms);
    const auto written = static_cast<uint64_t>(ms + 1);
    if (!policy.Look(now, 1, written)) continue;
    policy.Synced(written);
    ++syncs;
  }
  EXPECT_EQ(syncs, 9);  // the first look has seen nothing before
}

class SpoolDiskTest : public ::testing::Test {
 protected:
  void Start() {
    auto started = SpoolDisk::Start(folder_.path(), 1, absl::Milliseconds(2));
    ASSERT_TRUE(started.ok()) << started.status();
    disk_ = *std::move(started);
  }
  std::shared_ptr<SpoolFile> AwaitFile() {
    for (;;) {
      if (auto file = disk_->TakeFile(); file != nullptr) return file;
      std::this_thread::yield();
    }
  }

  const TempFolder folder_;
  std::unique_ptr<SpoolDisk> disk_;
};

TEST_F(SpoolDiskTest, HasTheNextFileReadyAndRemovesWhatItIsTold) {
  Start();
  const auto first = AwaitFile();
  const auto second = AwaitFile();
  EXPECT_LT(first->path, second->path);
  struct stat info;
  ASSERT_EQ(stat(first->path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  disk_->Remove(first->path);
  disk_->AwaitRemoved();
  EXPECT_NE(stat(first->path.c_str(), &info), 0);
  EXPECT_EQ(stat(second->path.c_str(), &info), 0);
}

TEST_F(SpoolDiskTest, SyncsWhatStays) {
  Start();
  const auto file = AwaitFile();
  disk_->Written(file, 1, 1);
  while (disk_->syncs() == 0) std::this_thread::yield();
  EXPECT_FALSE(disk_->failed());
}

// What a failed sync should have saved may be gone, and the next one would not say so.
TEST_F(SpoolDiskTest, AFailedSyncIsNotTriedAgain) {
  Start();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto unsyncable = std::make_shared<SpoolFile>("a pipe", ends[1]);
  disk_->Written(unsyncable, 1, 1);
  while (!disk_->failed()) std::this_thread::yield();
  EXPECT_EQ(disk_->syncs(), 1);
  EXPECT_NE(disk_->failure().find("a pipe"), std::string::npos);
  disk_->Written(unsyncable, 1, 2);
  disk_->Remove(folder_ / "none");
  disk_->AwaitRemoved();
  EXPECT_EQ(disk_->syncs(), 1);
  close(ends[0]);
}

}  // namespace
}  // namespace nightshift
