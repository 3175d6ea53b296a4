// Power cuts at random moments of a backup and of a restore: a backup that was confirmed is whole
// and has what was acknowledged before it, the store has lost nothing, and where a store was to be
// restored there is all of it or none.
//
// NIGHTSHIFT_POWER_CUTS (default 8) is how often, NIGHTSHIFT_SEED what replays a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "storage/backup.h"
#include "storage/rocksdb_internal.h"
#include "storage/schema.h"
#include "tests/storage/lossy_disk.h"
#include "tests/storage/random_writer.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

namespace fs = std::filesystem;

constexpr int kCommitsFirst = 40;
// About what two backups of such a store take, so that as a rule one is confirmed before the cut.
constexpr uint64_t kOperationsOfBackups = 400;

absl::StatusOr<std::unique_ptr<DiskStore>> OpenAt(const std::string& path, LossyDisk& disk) {
  RocksDbStoreOptions options;
  options.path = path;
  options.write_buffer_bytes = size_t{256} << 10;
  RocksDbDisk under;
  under.env = disk.env();
  return OpenRocksDbStoreOn(options, under);
}

// One folder with a store and its backups, through one power cut.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed), writer_(1, random_.Next()) {
    writer_.RememberAll();
    LossyDisk disk(folder_.path(), LossyDiskOptions());
    const auto store = OpenAt(folder_ / "store", disk);
    NIGHTSHIFT_CHECK(store.ok(), store.status().ToString());
    NIGHTSHIFT_CHECK(PrepareSchema(**store).ok(), "cannot prepare the store");
    Write(**store, kCommitsFirst, disk);
    if (random_.Chance(0.5)) Backup(**store, disk);
  }

  // Commits go on beside it.
  void CutDuringBackup(const LossyDiskOptions& options) {
    LossyDisk disk(folder_.path(), options);
    {
      const auto store = OpenAt(folder_ / "store", disk);
      NIGHTSHIFT_CHECK(store.ok(), store.status().ToString());
      disk.CutIn(static_cast<int64_t>(1 + random_.Below(kOperationsOfBackups)));
      std::atomic<bool> done{false};
      std::thread writing([&] {
        const absl::Status status = writer_.Run(**store, 200, [&] { return !done && !disk.off(); });
        NIGHTSHIFT_CHECK(status.ok(), status.ToString());
      });
      while (!disk.off()) Backup(**store, disk);
      done = true;
      writing.join();
    }
    disk.Restore();
  }

  // What is wrong, or nothing.
  std::string CheckStoreAndBackups() {
    // First: a backup may have the commit that nobody heard of, and the store not.
    if (std::string wrong = CheckBackups(); !wrong.empty()) return wrong;
    LossyDisk disk(folder_.path(), LossyDiskOptions());
    const auto store = OpenAt(folder_ / "store", disk);
    if (!store.ok()) return store.status().ToString();
    return writer_.Check(**store);
  }

  std::string CutDuringRestore(const LossyDiskOptions& options) {
    const std::string to = folder_ / "restored";
    bool confirmed = false;
    const uint64_t operations = OperationsOfRestore();
    {
      LossyDisk disk(folder_.path(), options);
      RocksDbDisk under;
      under.env = disk.env();
      disk.CutIn(static_cast<int64_t>(1 + random_.Below(operations + operations / 8)));
      const auto restored = RestoreBackupOn(folder_ / "backups", 0, to, under);
      if (!restored.ok() && !disk.off()) return restored.status().ToString();
      confirmed = !disk.off();
      disk.Restore();
    }
    if (confirmed && !fs::exists(to)) return "a restore that was confirmed is not there";
    if (!fs::exists(to)) {
      ++restores_undone_;
      // Again, over what is left.
      const auto again = RestoreBackup(folder_ / "backups", 0, to);
      if (!again.ok()) return again.status().ToString();
    }
    RocksDbStoreOptions store_options;
    store_options.path = to;
    const auto copy = OpenRocksDbStore(store_options);
    if (!copy.ok()) return copy.status().ToString();
    return writer_.CommitsMissing(**copy).status().ok() ? "" : "the restored store is another";
  }

  bool has_backups() const { return !confirmed_.empty(); }
  size_t backups() const { return confirmed_.size(); }
  int restores_undone() const { return restores_undone_; }

 private:
  // What a restore takes that is not cut.
  uint64_t OperationsOfRestore() {
    LossyDisk disk(folder_.path(), LossyDiskOptions());
    RocksDbDisk under;
    under.env = disk.env();
    const auto restored = RestoreBackupOn(folder_ / "backups", 0, folder_ / "measured", under);
    NIGHTSHIFT_CHECK(restored.ok(), restored.status().ToString());
    return static_cast<uint64_t>(disk.operations());
  }

  std::string CheckBackups() const {
    const absl::StatusOr<BackupList> list = ListBackups(folder_ / "backups");
    if (!list.ok()) return confirmed_.empty() ? "" : list.status().ToString();
    int found = 0;
    for (const StoreBackup& backup : list->whole) {
      const std::string to = folder_ / absl::StrCat("restored-", backup.number);
      const auto restored = RestoreBackup(folder_ / "backups", backup.number, to);
      if (!restored.ok()) {
        return absl::StrCat("backup ", backup.number, " is listed: ", restored.status().ToString());
      }
      RocksDbStoreOptions options;
      options.path = to;
      const auto copy = OpenRocksDbStore(options);
      if (!copy.ok()) return copy.status().ToString();
      const absl::StatusOr<int> missing = writer_.CommitsMissing(**copy);
      if (!missing.ok()) return missing.status().ToString();
      const auto known = confirmed_.find(backup.number);
      if (known == confirmed_.end()) continue;
      ++found;
      if (writer_.commits() - *missing < known->second) {
        return absl::StrCat("backup ", backup.number, " has ", writer_.commits() - *missing,
                            " commits, ", known->second, " were acknowledged before it");
      }
    }
    return found == static_cast<int>(confirmed_.size()) ? "" : "a confirmed backup is not listed";
  }

  void Write(Store& store, int commits, const LossyDisk& disk) {
    const absl::Status status = writer_.Run(store, commits, [&disk] { return !disk.off(); });
    NIGHTSHIFT_CHECK(status.ok(), status.ToString());
  }

  void Backup(DiskStore& store, const LossyDisk& disk) {
    BackupOptions options;
    options.folder = folder_ / "backups";
    options.keep = 0;
    const int64_t acknowledged = writer_.commits();
    const absl::StatusOr<StoreBackup> backup = store.CreateBackup(options);
    NIGHTSHIFT_CHECK(backup.ok() || disk.off(), backup.status().ToString());
    if (!disk.off()) confirmed_[backup->number] = acknowledged;
  }

  Random random_;
  const TempFolder folder_;
  RandomWriter writer_;
  // Backups that were confirmed, with how many commits had been acknowledged before.
  std::map<uint32_t, int64_t> confirmed_;
  int restores_undone_ = 0;
};

int Cuts() { return static_cast<int>(FromEnvironment("NIGHTSHIFT_POWER_CUTS", 8)); }

TEST(BackupPowerTest, ConfirmedBackupsAreWholeAndTheStoreLosesNothing) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  size_t backups = 0;
  for (int cut = 0; cut < Cuts(); ++cut) {
    World world(random.Next());
    LossyDiskOptions options;
    options.seed = random.Next();
    world.CutDuringBackup(options);
    ASSERT_EQ(world.CheckStoreAndBackups(), "") << "seed " << seed << ", cut " << cut;
    backups += world.backups();
  }
  std::cout << "seed " << seed << ": " << Cuts() << " cuts, " << backups << " backups confirmed\n";
}

TEST(BackupPowerTest, RestoredStoreIsThereWholeOrNotAtAll) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  int cuts = 0;
  int undone = 0;
  while (cuts < Cuts()) {
    World world(random.Next());
    if (!world.has_backups()) continue;
    LossyDiskOptions options;
    options.seed = random.Next();
    ASSERT_EQ(world.CutDuringRestore(options), "") << "seed " << seed << ", cut " << cuts;
    undone += world.restores_undone();
    ++cuts;
  }
  std::cout << "seed " << seed << ": " << cuts << " cuts, " << undone << " restores undone\n";
  EXPECT_GT(undone, 0) << "no cut came before the end";
}

// The tests above can find something: on a disk that lies they do.
TEST(BackupPowerTest, DiskThatLiesIsFoundOut) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  bool found = false;
  for (int i = 0; i < 40 && !found; ++i) {
    World world(random.Next());
    LossyDiskOptions options;
    options.seed = random.Next();
    options.syncs_lie = true;
    world.CutDuringBackup(options);
    found = !world.CheckStoreAndBackups().empty();
  }
  EXPECT_TRUE(found) << "seed " << seed;
}

}  // namespace
}  // namespace nightshift
