// Reads, writes and syncs that fail now and then: nothing is acknowledged after a failed sync, and
// what was acknowledged is intact when the store is opened again on a sound disk.
//
// NIGHTSHIFT_DISK_ERRORS (default 20) is how many lives, NIGHTSHIFT_SEED what replays a run.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/random.h"
#include "storage/rocksdb_internal.h"
#include "tests/storage/faulty_disk.h"
#include "tests/storage/random_writer.h"
#include "tests/storage/sleepless_env.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

constexpr int kCommitsPerLife = 300;

RocksDbStoreOptions Options(const std::string& path) {
  RocksDbStoreOptions options;
  options.path = path;
  options.write_buffer_bytes = size_t{256} << 10;
  return options;
}

TEST(DiskErrorTest, AcknowledgedRowsAreIntactAndNothingIsAcknowledgedAfterAnError) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  const auto lives = static_cast<int>(FromEnvironment("NIGHTSHIFT_DISK_ERRORS", 20));
  const TempFolder folder;
  RandomWriter writer(1, random.Next());
  int ended_early = 0;
  for (int life = 0; life < lives; ++life) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", life " << life);
    DiskFaults faults(random.Next());
    faults.skip_syncs = true;
    SleeplessEnv env(std::make_shared<FaultyFileSystem>(&faults));
    RocksDbDisk disk;
    disk.env = &env;
    {
      const std::unique_ptr<Store> store = OpenRocksDbStoreOn(Options(folder.path()), disk).value();
      ASSERT_EQ(writer.Check(*store), "");
      faults.one_in = 1000;
      const absl::Status status = writer.Run(*store, kCommitsPerLife, [] { return true; });
      if (!status.ok()) {
        ++ended_early;
        EXPECT_FALSE(store->Health().ok()) << status;
        faults.one_in = 0;
        WriteSet writes;
        writes.Put(Family::kFiles, "later", "x");
        EXPECT_FALSE(store->Commit(std::move(writes)).ok()) << "acknowledged after " << status;
      }
    }
  }
  const std::unique_ptr<Store> store = OpenRocksDbStore(Options(folder.path())).value();
  EXPECT_EQ(writer.Check(*store), "") << "seed " << seed;
  EXPECT_TRUE(absl::IsNotFound(store->Get(Family::kFiles, "later").status()));
  std::cout << "seed " << seed << ": " << lives << " lives, " << ended_early
            << " ended by an error, " << writer.commits() << " commits acknowledged\n";
  EXPECT_GT(ended_early, 0) << "no error was met";
}

}  // namespace
}  // namespace nightshift
