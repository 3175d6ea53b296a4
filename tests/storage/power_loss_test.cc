// Power cuts at random moments under the store: what was acknowledged is there afterwards, what was
// not is there whole or not at all, and the store opens.
//
// NIGHTSHIFT_POWER_CUTS (default 16) is how often, NIGHTSHIFT_SEED what replays a run.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "storage/rocksdb_internal.h"
#include "tests/storage/lossy_disk.h"
#include "tests/storage/random_writer.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

constexpr uint64_t kWriters = 2;
constexpr uint64_t kJobsApart = 1'000'000;
constexpr int kCommitsPerLifeMax = 120;
// About what a life that is not cut takes, opening included.
constexpr uint64_t kOperationsPerLife = 700;

struct Findings {
  int cuts = 0;
  int64_t commits = 0;  // acknowledged
  std::string wrong;  // what the last cut did: something is lost, half, or the store does not open
};

// One folder through `cuts` power cuts, some of them while it is being opened again, until one of
// them does any harm.
class PowerCuts {
 public:
  PowerCuts(uint64_t seed, const LossyDiskOptions& disk) : random_(seed), disk_options_(disk) {
    for (uint64_t i = 0; i < kWriters; ++i) {
      writers_.push_back(std::make_unique<RandomWriter>(1 + i * kJobsApart, random_.Next()));
    }
  }

  Findings Run(int cuts) {
    while (findings_.cuts < cuts && findings_.wrong.empty()) {
      Live();
      ++findings_.cuts;
      findings_.wrong = Check();
    }
    Count();
    return findings_;
  }

 private:
  absl::StatusOr<std::unique_ptr<Store>> Open(LossyDisk& disk) const {
    RocksDbStoreOptions options;
    options.path = folder_.path();
    options.write_buffer_bytes = size_t{256} << 10;  // flushes all the time
    RocksDbDisk under;
    under.env = disk.env();
    return OpenRocksDbStoreOn(options, under);
  }

  void Count() {
    for (const auto& writer : writers_) findings_.commits += writer->commits();
  }

  void Live() {
    LossyDiskOptions options = disk_options_;
    options.seed = random_.Next();
    options.cut_at = static_cast<int64_t>(1 + random_.Below(kOperationsPerLife));
    LossyDisk disk(folder_.path(), options);
    {
      const absl::StatusOr<std::unique_ptr<Store>> store = Open(disk);
      NIGHTSHIFT_CHECK(store.ok() || disk.off(), store.status().ToString());
      if (store.ok() && !disk.off()) Write(**store, disk);
      disk.Cut();  // unless it was: before the store can end in order
    }
    disk.Restore();
  }

  void Write(Store& store, const LossyDisk& disk) {
    std::vector<std::thread> threads;
    for (const auto& writer : writers_) {
      threads.emplace_back([&] {
        // What is answered with the power gone is heard by nobody.
        const absl::Status status =
            writer->Run(store, kCommitsPerLifeMax, [&disk] { return !disk.off(); });
        NIGHTSHIFT_CHECK(status.ok(), status.ToString());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::string Check() {
    LossyDisk disk(folder_.path(), LossyDiskOptions());
    const absl::StatusOr<std::unique_ptr<Store>> store = Open(disk);
    if (!store.ok()) return store.status().ToString();
    for (const auto& writer : writers_) {
      if (std::string wrong = writer->Check(**store); !wrong.empty()) return wrong;
    }
    return "";
  }

  Random random_;
  const LossyDiskOptions disk_options_;
  const TempFolder folder_;
  std::vector<std::unique_ptr<RandomWriter>> writers_;
  Findings findings_;
};

TEST(PowerLossTest, NothingAcknowledgedIsLostAndNothingIsHalfThere) {
  const uint64_t seed = TestSeed();
  const auto cuts = static_cast<int>(FromEnvironment("NIGHTSHIFT_POWER_CUTS", 16));
  const Findings findings = PowerCuts(seed, LossyDiskOptions()).Run(cuts);
  std::cout << "seed " << seed << ": " << findings.cuts << " cuts, " << findings.commits
            << " commits acknowledged\n";
  EXPECT_EQ(findings.wrong, "") << "seed " << seed;
  EXPECT_GT(findings.commits, cuts) << "hardly anything was at stake";
}

// The test above can find something: on disks that lie it does.
TEST(PowerLossTest, DiskThatLiesAboutSyncsIsFoundOut) {
  LossyDiskOptions disk;
  disk.syncs_lie = true;
  const uint64_t seed = TestSeed();
  EXPECT_NE(PowerCuts(seed, disk).Run(40).wrong, "") << "seed " << seed;
}

TEST(PowerLossTest, DiskThatLiesAboutFoldersIsFoundOut) {
  LossyDiskOptions disk;
  disk.folder_syncs_lie = true;
  const uint64_t seed = TestSeed();
  EXPECT_NE(PowerCuts(seed, disk).Run(40).wrong, "") << "seed " << seed;
}

}  // namespace
}  // namespace nightshift
