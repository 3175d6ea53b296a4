// Backups of a store that is in use: whole, verified, put back as a store of its own or not at all.
#include "storage/backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/folder_lock.h"
#include "base/random.h"
#include "storage/rocksdb_internal.h"
#include "storage/schema.h"
#include "tests/storage/random_writer.h"
#include "tests/storage/sleepless_env.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A disk on which so many more bytes of backups have room; syncs are skipped for speed.
class FullDisk final : public rocksdb::FileSystemWrapper {
 public:
  explicit FullDisk(std::atomic<int64_t>* room)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), room_(room) {}

  const char* Name() const override { return "FullDisk"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &file, context);
    if (!status.ok() || name.find("/backups/") == std::string::npos) {
      *result = std::move(file);
    } else {
      *result = std::make_unique<File>(std::move(file), room_);
    }
    return status;
  }

 private:
  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> file, std::atomic<int64_t>* room)
        : FSWritableFileOwnerWrapper(std::move(file)), room_(room) {}
    using FSWritableFileOwnerWrapper::Append;
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* context) override {
      if (room_->fetch_sub(static_cast<int64_t>(data.size())) < static_cast<int64_t>(data.size())) {
        return rocksdb::IOStatus::NoSpace("injected");
      }
      return FSWritableFileOwnerWrapper::Append(data, options, context);
    }

   private:
    std::atomic<int64_t>* const room_;
  };

  std::atomic<int64_t>* const room_;
};

class BackupTest : public ::testing::Test {
 protected:
  BackupTest() { OpenStore(); }

  void OpenStore() {
    RocksDbStoreOptions options;
    options.path = folder_ / "store";
    options.write_buffer_bytes = size_t{256} << 10;  // tables soon
    RocksDbDisk disk;
    disk.env = &env_;
    absl::StatusOr<std::unique_ptr<DiskStore>> store = OpenRocksDbStoreOn(options, disk);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    ASSERT_TRUE(PrepareSchema(*store_).ok());
    writer_.RememberAll();
  }

  BackupOptions Options() const {
    BackupOptions options;
    options.folder = folder_ / "backups";
    options.record.set_schema_version(kSchemaVersion);
    options.record.set_jobs(3);
    return options;
  }

  absl::StatusOr<StoreBackup> Create() { return store_->CreateBackup(Options()); }

  void Write(int commits) {
    ASSERT_TRUE(writer_.Run(*store_, commits, [] { return true; }).ok());
  }

  absl::StatusOr<StoreBackup> Restore(uint32_t number = 0, const std::string& to = "restored") {
    return RestoreBackup(folder_ / "backups", number, folder_ / to);
  }

  // How many acknowledged commits the restored store lacks.
  int Missing(const std::string& of = "restored") {
    RocksDbStoreOptions options;
    options.path = folder_ / of;
    const absl::StatusOr<std::unique_ptr<DiskStore>> store = OpenRocksDbStore(options);
    if (!store.ok()) {
      ADD_FAILURE() << store.status();
      return -1;
    }
    const absl::StatusOr<int> missing = writer_.CommitsMissing(**store);
    EXPECT_TRUE(missing.ok()) << missing.status();
    return missing.value_or(-1);
  }

  std::vector<uint32_t> Listed() const {
    const absl::StatusOr<BackupList> list = ListBackups(folder_ / "backups");
    std::vector<uint32_t> numbers;
    if (list.ok()) {
      for (const StoreBackup& backup : list->whole) numbers.push_back(backup.number);
    }
    return numbers;
  }

  uint64_t BytesInBackups() const {
    uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "backups")) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
  }

  std::vector<fs::path> BackupFiles(const std::string& ending) const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "backups")) {
      if (entry.is_regular_file() && entry.path().string().ends_with(ending)) {
        files.push_back(entry.path());
      }
    }
    return files;
  }

  static void FlipByte(const fs::path& path, uint64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
  }

  const TempFolder folder_;
  std::atomic<int64_t> room_{INT64_MAX};
  SleeplessEnv env_{std::make_shared<FullDisk>(&room_)};
  std::unique_ptr<DiskStore> store_;
  RandomWriter writer_{1, TestSeed()};
  Random random_{TestSeed()};
};

TEST_F(BackupTest, RestoredCopyHasEverythingAndAnIdOfItsOwn) {
  Random random(1);
  const std::string id = *StoreId(*store_, random);
  Write(40);
  const absl::StatusOr<StoreBackup> made = Create();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->number, 1u);
  EXPECT_EQ(made->record.jobs(), 3);
  EXPECT_GT(made->bytes, 1000u);
  Write(10);
  const absl::StatusOr<StoreBackup> restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->number, 1u);
  EXPECT_EQ(Missing(), 10);
  RocksDbStoreOptions options;
  options.path = folder_ / "restored";
  const absl::StatusOr<std::unique_ptr<DiskStore>> copy = OpenRocksDbStore(options);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_NE(*StoreId(**copy, random), id)
      << "what workers bring from the lost store would be taken";
  EXPECT_EQ(*StoreId(*store_, random), id);
}

// The log that grows meanwhile is copied in the middle of a record as often as not.
TEST_F(BackupTest, BackupsWhileCommitsGoOnAreOneMomentEach) {
  std::atomic<bool> done{false};
  std::thread writing([&] {
    while (!done) Write(1);
  });
  std::vector<absl::StatusOr<StoreBackup>> backups;
  for (int i = 0; i < 6; ++i) backups.push_back(Create());
  done = true;
  writing.join();
  int before = INT32_MAX;
  for (const absl::StatusOr<StoreBackup>& backup : backups) {
    ASSERT_TRUE(backup.ok()) << backup.status();
    const std::string to = absl::StrCat("restored-", backup->number);
    const absl::StatusOr<StoreBackup> restored = Restore(backup->number, to);
    ASSERT_TRUE(restored.ok()) << restored.status();
    const int missing = Missing(to);
    EXPECT_LE(missing, before) << "a later backup has less";
    before = missing;
  }
}

TEST_F(BackupTest, LaterBackupsShareTablesAndOldOnesGoWithKeep) {
  for (int i = 0; i < 4; ++i) Write(60);
  ASSERT_TRUE(Create().ok());
  Write(5);
  BackupOptions options = Options();
  options.keep = 2;
  ASSERT_TRUE(store_->CreateBackup(options).ok());
  EXPECT_THAT(Listed(), testing::ElementsAre(1, 2));
  // How much the second one added is no measure: a compaction in between writes tables anew.
  std::set<std::string> tables;
  for (const fs::path& path : BackupFiles(".sst")) {
    const std::string name = path.filename();
    EXPECT_TRUE(tables.insert(name.substr(0, name.find('_'))).second) << path << " is there twice";
    EXPECT_EQ(path.parent_path().filename(), "shared_checksum");
  }
  EXPECT_FALSE(tables.empty());
  Write(5);
  ASSERT_TRUE(store_->CreateBackup(options).ok());
  EXPECT_THAT(Listed(), testing::ElementsAre(2, 3));
  ASSERT_TRUE(Restore(2).ok());
  EXPECT_EQ(Missing(), 5);
  EXPECT_TRUE(absl::IsNotFound(Restore(1, "first").status()));
}

TEST_F(BackupTest, NoDamageIsRestored) {
  Write(60);
  const absl::StatusOr<StoreBackup> made = Create();
  ASSERT_TRUE(made.ok()) << made.status();
  int files = 0;
  for (const fs::path& path : BackupFiles("")) {
    // That they are there is all that they say.
    if (path.filename() == "nightshift.lock" || path.filename() == "nightshift.backups") continue;
    SCOPED_TRACE(path);
    const uint64_t size = fs::file_size(path);
    if (size == 0) continue;
    const uint64_t at = random_.Below(size);
    FlipByte(path, at);
    const absl::StatusOr<StoreBackup> restored = Restore();
    if (path.parent_path().filename() == "meta" && restored.ok()) {
      // What a backup says of itself is for the list; its files were the right ones.
      EXPECT_EQ(Missing(), 0);
      fs::remove_all(folder_ / "restored");
    } else {
      EXPECT_FALSE(restored.ok()) << "byte " << at;
      EXPECT_FALSE(fs::exists(folder_ / "restored"));
    }
    FlipByte(path, at);
    ++files;
  }
  EXPECT_GT(files, 4);
  ASSERT_TRUE(Restore().ok());
  EXPECT_EQ(Missing(), 0);
}

TEST_F(BackupTest, BackupThatLacksAFileIsNotTakenForTheNewest) {
  Write(30);
  ASSERT_TRUE(Create().ok());
  Write(10);
  ASSERT_TRUE(Create().ok());
  ASSERT_TRUE(fs::remove(BackupFiles("/private/2/CURRENT").at(0)));
  const absl::StatusOr<BackupList> list = ListBackups(folder_ / "backups");
  ASSERT_TRUE(list.ok());
  EXPECT_THAT(Listed(), testing::ElementsAre(1));
  EXPECT_THAT(list->damaged, testing::ElementsAre(2));
  EXPECT_FALSE(Restore(2).ok());
  const absl::StatusOr<StoreBackup> restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->number, 1u);
  EXPECT_EQ(Missing(), 10);
}

// The new backup would rest on a table that has rotted since an earlier one copied it.
TEST_F(BackupTest, BackupThatCannotBeReadBackIsNotMade) {
  Write(60);
  ASSERT_TRUE(Create().ok());
  for (const fs::path& table : BackupFiles(".sst")) FlipByte(table, fs::file_size(table) / 2);
  const absl::StatusOr<StoreBackup> made = Create();
  EXPECT_TRUE(absl::IsDataLoss(made.status())) << made.status();
  EXPECT_THAT(Listed(), testing::ElementsAre(1));
}

TEST_F(BackupTest, FullDiskLeavesTheEarlierBackupsAndNoHalfOne) {
  Write(40);
  ASSERT_TRUE(Create().ok());
  const uint64_t before = BytesInBackups();
  for (const int64_t room : {0, 20'000, 100'000}) {
    Write(40);
    room_ = room;
    const absl::StatusOr<StoreBackup> made = Create();
    EXPECT_TRUE(absl::IsResourceExhausted(made.status())) << made.status();
    EXPECT_THAT(std::string(made.status().message()), HasSubstr("the earlier ones are whole"));
    EXPECT_THAT(Listed(), testing::ElementsAre(1));
    EXPECT_EQ(BytesInBackups(), before) << "what was copied still takes up room";
    EXPECT_TRUE(store_->Health().ok()) << "a full backup disk is nothing to the store";
  }
  room_ = INT64_MAX;
  Write(1);
  ASSERT_TRUE(Create().ok());
  ASSERT_TRUE(Restore().ok());
  EXPECT_EQ(Missing(), 0);
}

TEST_F(BackupTest, RoomThatMustStayFreeStopsItBeforeItBegins) {
  BackupOptions options = Options();
  options.free_bytes_min = UINT64_MAX;
  const absl::Status status = store_->CreateBackup(options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(Listed(), testing::IsEmpty());
}

TEST_F(BackupTest, IsGivenUpWhenItIsNoLongerWanted) {
  // More than the engine copies between two looks.
  for (int i = 0; i < 12; ++i) {
    std::vector<char> bytes(size_t{1} << 20);
    for (char& byte : bytes) byte = static_cast<char>(random_.Next());
    WriteSet writes;
    writes.Put(Family::kFiles, absl::StrCat("file-", i), std::string(bytes.begin(), bytes.end()));
    ASSERT_TRUE(store_->Commit(std::move(writes)).ok());
  }
  std::atomic<int> asked{0};
  BackupOptions options = Options();
  options.go_on = [&] { return ++asked > 1 ? absl::CancelledError("enough") : absl::OkStatus(); };
  const absl::Status status = store_->CreateBackup(options).status();
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_GT(asked, 1) << "it was asked only before it began";
  EXPECT_THAT(Listed(), testing::IsEmpty());
  EXPECT_THAT(BackupFiles(".sst"), testing::IsEmpty());
  options.go_on = [] { return absl::CancelledError("enough"); };
  EXPECT_EQ(store_->CreateBackup(options).status(), absl::CancelledError("enough"));
}

TEST_F(BackupTest, OtherPeoplesFilesAreLeftAlone) {
  fs::create_directories(fs::path(folder_ / "backups") / "private");
  std::ofstream(fs::path(folder_ / "backups") / "private" / "letter.txt") << "dear";
  EXPECT_TRUE(absl::IsFailedPrecondition(Create().status()));
  EXPECT_TRUE(fs::exists(fs::path(folder_ / "backups") / "private" / "letter.txt"));
}

TEST_F(BackupTest, OneAtATimeInAFolder) {
  ASSERT_TRUE(Create().ok());
  const absl::StatusOr<FolderLock> other = FolderLock::Acquire(folder_ / "backups");
  ASSERT_TRUE(other.ok());
  const absl::Status status = Create().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::IsFailedPrecondition(Restore().status()));
}

TEST_F(BackupTest, NothingIsRestoredOverAnything) {
  ASSERT_TRUE(Create().ok());
  fs::create_directory(folder_ / "restored");
  const absl::Status status = Restore().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(fs::is_empty(folder_ / "restored"));
  const absl::Status over_itself = Restore(0, "store").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(over_itself)) << over_itself;
}

TEST_F(BackupTest, WhatAnInterruptedRestoreLeftIsReplaced) {
  Write(20);
  ASSERT_TRUE(Create().ok());
  const std::string unfinished = UnfinishedRestorePath(folder_ / "restored");
  fs::create_directory(unfinished);
  std::ofstream(unfinished + "/000999.sst") << "half a table";
  ASSERT_TRUE(Restore().ok());
  EXPECT_FALSE(fs::exists(unfinished));
  EXPECT_FALSE(fs::exists(fs::path(folder_ / "restored") / "000999.sst"));
  EXPECT_EQ(Missing(), 0);
}

TEST_F(BackupTest, BackupOfANewerProgramIsRefused) {
  BackupOptions options = Options();
  options.record.set_schema_version(kSchemaVersion + 1);
  ASSERT_TRUE(store_->CreateBackup(options).ok());
  const absl::Status status = Restore().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(kSchemaVersion + 1)));
  EXPECT_FALSE(fs::exists(folder_ / "restored"));
}

TEST_F(BackupTest, FolderWithoutBackupsIsSaidToHaveNone) {
  EXPECT_TRUE(absl::IsNotFound(ListBackups(folder_ / "backups").status()));
  EXPECT_TRUE(absl::IsNotFound(Restore().status()));
  EXPECT_TRUE(absl::IsNotFound(ListBackups(folder_ / "store").status()));
  ASSERT_TRUE(Create().ok());
  EXPECT_TRUE(absl::IsNotFound(Restore(7).status()));
}

}  // namespace
}  // namespace nightshift
