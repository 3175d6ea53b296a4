#include "storage/rocksdb_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "storage/rocksdb_internal.h"
#include "storage/schema.h"
#include "tests/storage/faulty_disk.h"
#include "tests/storage/store_conformance.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

RocksDbStoreOptions OptionsAt(const std::string& path) {
  RocksDbStoreOptions options;
  options.path = path;
  return options;
}

std::unique_ptr<Store> OpenOrDie(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksDbStore(OptionsAt(path));
  NIGHTSHIFT_CHECK(store.ok(), store.status().message());
  return *std::move(store);
}

absl::Status Put(Store& store, Family family, std::string key, std::string value) {
  WriteSet writes;
  writes.Put(family, std::move(key), std::move(value));
  return store.Commit(std::move(writes));
}

std::string Get(const Store& store, Family family, const std::string& key) {
  return store.Get(family, key).value_or("<absent>");
}

// The files of `folder` whose names end so, in order.
std::vector<fs::path> FilesWith(const std::string& folder, const std::string& ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The log that holds what was written last.
fs::path NewestNonEmptyLog(const std::string& folder) {
  fs::path newest;
  for (const fs::path& file : FilesWith(folder, ".log")) {
    if (fs::file_size(file) > 0) newest = file;
  }
  return newest;
}

class RocksDbStoreFixture final : public StoreFixture {
 public:
  explicit RocksDbStoreFixture(size_t write_buffer_bytes) {
    RocksDbStoreOptions options = OptionsAt(temp_ / "store");
    options.write_buffer_bytes = write_buffer_bytes;
    store_ = OpenRocksDbStore(options).value();
  }
  Store& store() override { return *store_; }

 private:
  TempFolder temp_;
  std::unique_ptr<Store> store_;
};

// With tiny write buffers nearly every row comes from a table, not from memory.
INSTANTIATE_TEST_SUITE_P(
    RocksDb, StoreConformanceTest,
    testing::Values(
        StoreFixtureMaker{"rocksdb",
                          [] { return std::make_unique<RocksDbStoreFixture>(size_t{64} << 20); }},
        StoreFixtureMaker{"rocksdb_tiny_buffers",
                          [] { return std::make_unique<RocksDbStoreFixture>(size_t{64} << 10); }}));

TEST(RocksDbStoreTest, EverythingIsThereAfterReopening) {
  const TempFolder temp;
  {
    const std::unique_ptr<Store> store = OpenOrDie(temp / "deep/store");
    for (int i = 0; i < kFamilyCount; ++i) {
      ASSERT_TRUE(Put(*store, static_cast<Family>(i), "key", absl::StrCat("value ", i)).ok());
    }
  }
  const std::unique_ptr<Store> store = OpenOrDie(temp / "deep/store");
  for (int i = 0; i < kFamilyCount; ++i) {
    EXPECT_EQ(Get(*store, static_cast<Family>(i), "key"), absl::StrCat("value ", i));
  }
}

TEST(RocksDbStoreTest, CountersGoOnAfterReopening) {
  const TempFolder temp;
  for (uint64_t run = 1; run <= 3; ++run) {
    const std::unique_ptr<Store> store = OpenOrDie(temp.path());
    ASSERT_TRUE(PrepareSchema(*store).ok());
    EXPECT_EQ(StartEpoch(*store).value(), run);
    EXPECT_EQ(NextJobNumber(*store).value(), run);
  }
}

TEST(RocksDbStoreTest, SecondOpenIsRefusedAndTheFirstGoesOn) {
  const TempFolder temp;
  const std::unique_ptr<Store> store = OpenOrDie(temp.path());
  const absl::Status second = OpenRocksDbStore(OptionsAt(temp.path())).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()),
              AllOf(HasSubstr(absl::StrCat("pid ", getpid())), HasSubstr(temp.path())));
  EXPECT_TRUE(Put(*store, Family::kJobs, "a", "1").ok());
}

TEST(RocksDbStoreTest, FailedOpenGivesTheFolderUp) {
  const TempFolder temp;
  std::ofstream(temp / "CURRENT") << "garbage";
  EXPECT_FALSE(OpenRocksDbStore(OptionsAt(temp.path())).ok());
  fs::remove(temp / "CURRENT");
  EXPECT_TRUE(OpenRocksDbStore(OptionsAt(temp.path())).ok());
}

TEST(RocksDbStoreTest, ScanMayOutliveItsStore) {
  const TempFolder temp;
  std::unique_ptr<Store> store = OpenOrDie(temp.path());
  ASSERT_TRUE(Put(*store, Family::kJobs, "a", "1").ok());
  std::unique_ptr<StoreIterator> rows = store->Scan(Family::kJobs, "", "");
  store.reset();
  ASSERT_TRUE(rows->Valid());
  EXPECT_EQ(rows->value(), "1");
  rows.reset();
  EXPECT_EQ(Get(*OpenOrDie(temp.path()), Family::kJobs, "a"), "1");
}

// The process that dies is started afresh (a fork of one with RocksDB's threads could hang) and
// runs the test again up to its death; the environment tells it whose folder to use.
class RocksDbCrashTest : public testing::Test {
 protected:
  RocksDbCrashTest() {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    if (const char* const path = getenv(kFolderVariable)) {
      path_ = path;
    } else {
      temp_.emplace();
      path_ = temp_->path();
    }
  }

  // Runs a process that commits the rows 0 … kRows-1, one by one, and is killed.
  void CommitAndDie() {
    setenv(kFolderVariable, path_.c_str(), 1);
    EXPECT_EXIT(
        {
          const std::unique_ptr<Store> store = OpenOrDie(path_);
          for (int i = 0; i < kRows; ++i) {
            if (!Put(*store, Family::kOutcomes, absl::StrCat(i), std::string(100, 'v')).ok()) {
              _exit(1);
            }
          }
          kill(getpid(), SIGKILL);
        },
        testing::KilledBySignal(SIGKILL), "");
    unsetenv(kFolderVariable);
  }

  static int CountRows(const Store& store) {
    int count = 0;
    const std::unique_ptr<StoreIterator> rows = store.Scan(Family::kOutcomes, "", "");
    for (; rows->Valid(); rows->Next()) ++count;
    EXPECT_TRUE(rows->status().ok()) << rows->status();
    return count;
  }

  static constexpr int kRows = 20;
  static constexpr char kFolderVariable[] = "NIGHTSHIFT_CRASH_TEST_FOLDER";
  std::string path_;

 private:
  std::optional<TempFolder> temp_;
};

TEST_F(RocksDbCrashTest, AcknowledgedRowsSurviveAKill) {
  CommitAndDie();
  EXPECT_EQ(CountRows(*OpenOrDie(path_)), kRows);
}

TEST_F(RocksDbCrashTest, TornTailOfTheLogIsCutOff) {
  CommitAndDie();
  const fs::path log = NewestNonEmptyLog(path_);
  fs::resize_file(log, fs::file_size(log) - 7);
  EXPECT_EQ(CountRows(*OpenOrDie(path_)), kRows - 1);
}

// Rows after the damage were acknowledged: to open without them would lose them silently.
TEST_F(RocksDbCrashTest, DamageInsideTheLogRefusesToOpen) {
  CommitAndDie();
  const fs::path log = NewestNonEmptyLog(path_);
  std::string bytes;
  {
    std::ifstream file(log, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  const size_t value = bytes.find(std::string(100, 'v'));  // of the first row
  ASSERT_NE(value, std::string::npos);
  bytes[value + 50] = 'w';
  std::ofstream(log, std::ios::binary) << bytes;
  const absl::Status status = OpenRocksDbStore(OptionsAt(path_)).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path_), HasSubstr("backup")));
}

// RocksDB alone takes a record whose length points beyond the file for torn, and cuts it off with
// all that was acknowledged after it.
TEST_F(RocksDbCrashTest, NoDamagedLengthIsTakenForATornEnd) {
  CommitAndDie();
  const fs::path log = NewestNonEmptyLog(path_);
  std::string bytes;
  {
    std::ifstream file(log, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  // A record is a checksum (4 bytes), a length (2, the low one first), a type (1) and the rest.
  int records = 0;
  for (size_t at = 0; at < bytes.size(); ++records) {
    for (const size_t damaged : {at + 4, at + 5}) {
      std::string broken = bytes;
      broken[damaged] = static_cast<char>(broken[damaged] ^ 0x40);
      std::ofstream(log, std::ios::binary) << broken;
      EXPECT_TRUE(absl::IsDataLoss(OpenRocksDbStore(OptionsAt(path_)).status())) << damaged;
    }
    at += 7 + static_cast<unsigned char>(bytes[at + 4]) +
          256 * static_cast<unsigned char>(bytes[at + 5]);
  }
  EXPECT_EQ(records, kRows);
  std::ofstream(log, std::ios::binary) << bytes;
  EXPECT_EQ(CountRows(*OpenOrDie(path_)), kRows) << "a refusal must change nothing";
}

// RocksDB alone would start an empty store here and delete the old one's files.
TEST_F(RocksDbCrashTest, MissingEntryPointIsDamageNotANewStore) {
  CommitAndDie();
  const std::string current = path_ + "/CURRENT";
  fs::rename(current, path_ + "/hidden");
  EXPECT_TRUE(absl::IsDataLoss(OpenRocksDbStore(OptionsAt(path_)).status()));
  fs::rename(path_ + "/hidden", current);
  EXPECT_EQ(CountRows(*OpenOrDie(path_)), kRows);
}

// A newer program may have more families; its version row must still be readable, to refuse it.
TEST(RocksDbStoreTest, FamiliesOfANewerProgramDoNotHinderTheVersionCheck) {
  const TempFolder temp;
  { ASSERT_TRUE(PrepareSchema(*OpenOrDie(temp.path())).ok()); }
  {
    std::vector<std::string> names;
    ASSERT_TRUE(rocksdb::DB::ListColumnFamilies({}, temp.path(), &names).ok());
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const std::string& name : names) {
      descriptors.emplace_back(name, rocksdb::ColumnFamilyOptions());
    }
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open({}, temp.path(), descriptors, &handles, &raw).ok());
    const std::unique_ptr<rocksdb::DB> db(raw);
    rocksdb::ColumnFamilyHandle* added = nullptr;
    ASSERT_TRUE(db->CreateColumnFamily({}, "from the future", &added).ok());
    handles.push_back(added);
    for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  }
  EXPECT_TRUE(PrepareSchema(*OpenOrDie(temp.path())).ok());
}

class RocksDbFaultTest : public testing::Test {
 protected:
  RocksDbFaultTest() {
    RocksDbDisk disk;
    disk.env = env_.get();
    disk.free_bytes = [this](const std::string&) -> absl::StatusOr<uint64_t> {
      return free_bytes_.load();
    };
    RocksDbStoreOptions options = OptionsAt(temp_.path());
    options.write_buffer_bytes = size_t{1} << 20;
    store_ = OpenRocksDbStoreOn(options, disk).value();
  }

  const TempFolder temp_;
  DiskFaults faults_;
  std::atomic<uint64_t> free_bytes_{uint64_t{1} << 40};
  std::unique_ptr<rocksdb::Env> env_ =
      rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(&faults_));
  std::unique_ptr<Store> store_;
};

TEST_F(RocksDbFaultTest, NearlyFullDiskRefusesCommitsUntilThereIsSpace) {
  ASSERT_TRUE(Put(*store_, Family::kJobs, "a", "1").ok());
  EXPECT_TRUE(store_->CheckRoom(1000).ok());
  free_bytes_ = 1000;
  EXPECT_TRUE(absl::IsResourceExhausted(store_->CheckRoom(1000)));
  const absl::Status status = Put(*store_, Family::kJobs, "a", "2");
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(temp_.path()));
  EXPECT_EQ(Get(*store_, Family::kJobs, "a"), "1");
  EXPECT_TRUE(store_->Health().ok()) << "nothing was written, so nothing is wrong";
  free_bytes_ = uint64_t{1} << 40;
  EXPECT_TRUE(Put(*store_, Family::kJobs, "a", "2").ok());
}

// RocksDB ends the process when it cannot write what opening takes.
TEST_F(RocksDbFaultTest, AFullDiskIsToldBeforeOpeningAStore) {
  ASSERT_TRUE(Put(*store_, Family::kJobs, "a", std::string(size_t{512} << 10, 'x')).ok());
  store_.reset();
  RocksDbDisk disk;
  disk.free_bytes = [this](const std::string&) { return free_bytes_.load(); };
  free_bytes_ = (uint64_t{4} << 20) + (uint64_t{256} << 10);
  for (const std::string& path : {temp_.path(), temp_ / "new"}) {
    fs::create_directories(path);
    const absl::Status status = OpenRocksDbStoreOn(OptionsAt(path), disk).status();
    if (path == temp_.path()) {
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("is full: 4.2 MiB free"));
    } else {
      EXPECT_TRUE(status.ok()) << status << ": there are no logs that would become tables";
    }
  }
  free_bytes_ = 0;
  EXPECT_TRUE(
      absl::IsResourceExhausted(OpenRocksDbStoreOn(OptionsAt(temp_ / "empty"), disk).status()));
  EXPECT_EQ(Get(*OpenOrDie(temp_.path()), Family::kJobs, "a").size(), size_t{512} << 10);
}

TEST_F(RocksDbFaultTest, FailedSyncIsNotVisibleAndEndsTheStore) {
  ASSERT_TRUE(Put(*store_, Family::kJobs, "a", "1").ok());
  faults_.log_sync = true;
  const absl::Status status = Put(*store_, Family::kJobs, "a", "2");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(Get(*store_, Family::kJobs, "a"), "1");
  EXPECT_FALSE(store_->Health().ok());
  faults_.log_sync = false;
  EXPECT_TRUE(absl::IsUnavailable(Put(*store_, Family::kJobs, "b", "1")))
      << "a failed sync must never be made good by a later one";
  store_.reset();
  EXPECT_EQ(Get(*OpenOrDie(temp_.path()), Family::kJobs, "b"), "<absent>");
}

TEST_F(RocksDbFaultTest, DiskFullInsideAWriteEndsTheStore) {
  ASSERT_TRUE(Put(*store_, Family::kJobs, "a", "1").ok());
  faults_.log_append = true;
  const absl::Status status = Put(*store_, Family::kJobs, "a", "2");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  faults_.log_append = false;
  EXPECT_FALSE(store_->Health().ok());
  EXPECT_FALSE(Put(*store_, Family::kJobs, "b", "1").ok());
  store_.reset();
  EXPECT_EQ(Get(*OpenOrDie(temp_.path()), Family::kJobs, "a"), "1");
}

// A flush fails on a thread of RocksDB's own; somebody must hear of it.
TEST_F(RocksDbFaultTest, FailedFlushInTheBackgroundEndsTheStore) {
  faults_.table_append = true;
  absl::Status status;
  int acknowledged = 0;
  for (; acknowledged < 10000 && status.ok(); ++acknowledged) {
    status = Put(*store_, Family::kResponses, absl::StrCat(acknowledged), std::string(10000, 'x'));
  }
  --acknowledged;  // the last one failed
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(store_->Health().ok());
  store_.reset();
  const std::unique_ptr<Store> store = OpenOrDie(temp_.path());
  for (int i = 0; i < acknowledged; ++i) {
    ASSERT_NE(Get(*store, Family::kResponses, absl::StrCat(i)), "<absent>") << i;
  }
}

}  // namespace
}  // namespace nightshift
