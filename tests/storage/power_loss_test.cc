// Power cuts at random moments under the store: what was acknowledged is there afterwards, what was
// not is there whole or not at all, and the store opens.
//
// NIGHTSHIFT_POWER_CUTS (default 16) is how often, NIGHTSHIFT_SEED what replays a run.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "storage/keys.h"
#include "storage/rocksdb_internal.h"
#include "tests/storage/lossy_disk.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

constexpr int kWriters = 2;
constexpr uint64_t kIndexes = 100;
constexpr int kCommitsPerLifeMax = 120;
// About what a life that is not cut takes, opening included.
constexpr uint64_t kOperationsPerLife = 700;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  uint64_t value = 0;
  const char* const text = getenv(name);
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

uint64_t Seed() { return FromEnvironment("NIGHTSHIFT_SEED", Random::FromSystem().Next() >> 32); }

// The value of write number `id`; its length follows from it too.
std::string ValueOf(uint64_t id) {
  std::string value = absl::StrCat(id, ":");
  Random random(id);
  for (uint64_t length = random.Below(3000); value.size() < length;) {
    value.append(absl::StrCat(random.Next()));
  }
  return value;
}

// Commits to the rows of a job of its own, and remembers what it was told.
class Writer {
 public:
  Writer(uint64_t job, uint64_t seed) : job_(job), random_(seed) {}

  // Ends with the power, or after `commits_max`.
  void Run(Store& store, const LossyDisk& disk, int commits_max) {
    for (int i = 0; i < commits_max; ++i) {
      State after = acknowledged_;
      WriteSet writes = Make(after);
      pending_ = after;
      const absl::Status status = store.Commit(std::move(writes));
      // What was answered with the power gone was heard by nobody.
      if (disk.off()) return;
      NIGHTSHIFT_CHECK(status.ok(), status.ToString());
      acknowledged_ = std::move(after);
      pending_.reset();
      ++commits_;
    }
  }

  // What is wrong after a cut, or nothing; from then on what is there is what was acknowledged.
  std::string Check(const Store& store) {
    const absl::StatusOr<State> found = Read(store);
    if (!found.ok()) return found.status().ToString();
    const bool agrees = *found == acknowledged_ || (pending_.has_value() && *found == *pending_);
    pending_.reset();
    if (!agrees) {
      return absl::StrCat("writer ", job_, ": ", found->size(), " rows, ", acknowledged_.size(),
                          " were acknowledged, and they are not the same");
    }
    acknowledged_ = *found;
    return "";
  }

  int64_t commits() const { return commits_; }

 private:
  using Row = std::pair<Family, std::string>;
  using State = std::map<Row, uint64_t>;  // to the number of the write

  static constexpr Family kFamilies[] = {Family::kRequests, Family::kOutcomes, Family::kResponses,
                                         Family::kProgress, Family::kAttempts, Family::kEvents};

  void Put(Family family, std::string key, State& state, WriteSet& writes) {
    const uint64_t id = ++last_id_;
    writes.Put(family, key, ValueOf(id));
    state[{family, std::move(key)}] = id;
  }

  void DeleteRange(Family family, std::string begin, std::string end, State& state,
                   WriteSet& writes) {
    if (begin >= end) return;
    state.erase(state.lower_bound({family, begin}), state.lower_bound({family, end}));
    writes.DeleteRange(family, std::move(begin), std::move(end));
  }

  // One commit like the coordinator's: some rows, and the job's own row under a condition.
  WriteSet Make(State& state) {
    WriteSet writes;
    if (random_.Chance(0.02)) {  // the job goes, with all its rows
      for (const Family family : kFamilies) {
        DeleteRange(family, JobKey(job_), JobKey(job_ + 1), state, writes);
      }
    }
    for (uint64_t left = 1 + random_.Below(20); left > 0; --left) {
      const Family family = kFamilies[random_.Below(std::size(kFamilies))];
      std::string key = RequestRowKey(job_, random_.Below(kIndexes));
      if (random_.Chance(0.8)) {
        Put(family, std::move(key), state, writes);
      } else if (random_.Chance(0.7)) {
        state.erase({family, key});
        writes.Delete(family, std::move(key));
      } else {
        DeleteRange(family, std::move(key), RequestRowKey(job_, random_.Below(kIndexes)), state,
                    writes);
      }
    }
    std::string key = JobKey(job_);
    const auto old = state.find({Family::kJobs, key});
    if (old == state.end()) {
      writes.ExpectAbsent(Family::kJobs, key);
    } else {
      writes.ExpectValue(Family::kJobs, key, ValueOf(old->second));
    }
    Put(Family::kJobs, std::move(key), state, writes);
    return writes;
  }

  absl::StatusOr<State> Read(const Store& store) const {
    State state;
    for (int i = 0; i < kFamilyCount; ++i) {
      const auto family = static_cast<Family>(i);
      const auto rows = store.Scan(family, JobKey(job_), JobKey(job_ + 1));
      for (; rows->Valid(); rows->Next()) {
        uint64_t id = 0;
        const absl::string_view value = rows->value();
        if (!absl::SimpleAtoi(value.substr(0, value.find(':')), &id) || value != ValueOf(id)) {
          return absl::DataLossError("a value that nobody wrote");
        }
        state[{family, std::string(rows->key())}] = id;
      }
      if (!rows->status().ok()) return rows->status();
    }
    return state;
  }

  const uint64_t job_;
  Random random_;
  uint64_t last_id_ = 0;
  int64_t commits_ = 0;
  State acknowledged_;
  std::optional<State> pending_;  // the commit that was under way
};

struct Findings {
  int cuts = 0;
  int64_t commits = 0;  // acknowledged
  int wrong = 0;        // cuts after which something was lost, half, or would not open
  std::string first;    // of them
};

absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path, const LossyDisk& disk) {
  RocksDbStoreOptions options;
  options.path = path;
  options.write_buffer_bytes = size_t{256} << 10;  // flushes all the time
  RocksDbDisk under;
  under.env = const_cast<LossyDisk&>(disk).env();
  under.free_bytes = [](const std::string&) -> absl::StatusOr<uint64_t> { return UINT64_MAX; };
  return OpenRocksDbStoreOn(options, under);
}

// One folder through `cuts` power cuts, some of them while it is being opened again.
class PowerCuts {
 public:
  PowerCuts(uint64_t seed, LossyDiskOptions disk) : random_(seed), disk_options_(disk) {
    StartAfresh();
  }

  Findings Run(int cuts) {
    while (findings_.cuts < cuts) {
      Live();
      ++findings_.cuts;
      if (const std::string wrong = Check(); !wrong.empty()) {
        if (findings_.wrong++ == 0) findings_.first = wrong;
        StartAfresh();
      }
    }
    Count();
    return findings_;
  }

 private:
  void Count() {
    for (const auto& writer : writers_) findings_.commits += writer->commits();
  }

  void StartAfresh() {
    Count();
    writers_.clear();
    for (int i = 0; i < kWriters; ++i) {
      writers_.push_back(std::make_unique<Writer>(static_cast<uint64_t>(i + 1), random_.Next()));
    }
    folder_.emplace();
  }

  void Live() {
    LossyDiskOptions options = disk_options_;
    options.seed = random_.Next();
    options.cut_at = static_cast<int64_t>(1 + random_.Below(kOperationsPerLife));
    LossyDisk disk(folder_->path(), options);
    {
      absl::StatusOr<std::unique_ptr<Store>> store = Open(folder_->path(), disk);
      NIGHTSHIFT_CHECK(store.ok() || disk.off(), store.status().ToString());
      if (store.ok() && !disk.off()) {
        std::vector<std::thread> threads;
        for (const auto& writer : writers_) {
          threads.emplace_back([&] { writer->Run(**store, disk, kCommitsPerLifeMax); });
        }
        for (std::thread& thread : threads) thread.join();
      }
      disk.Cut();  // unless it was: before the store can end in order
    }
    disk.Restore();
  }

  std::string Check() {
    const LossyDisk disk(folder_->path(), LossyDiskOptions());
    const absl::StatusOr<std::unique_ptr<Store>> store = Open(folder_->path(), disk);
    if (!store.ok()) return store.status().ToString();
    for (const auto& writer : writers_) {
      if (std::string wrong = writer->Check(**store); !wrong.empty()) return wrong;
    }
    return "";
  }

  Random random_;
  const LossyDiskOptions disk_options_;
  std::optional<TempFolder> folder_;
  std::vector<std::unique_ptr<Writer>> writers_;
  Findings findings_;
};

TEST(PowerLossTest, NothingAcknowledgedIsLostAndNothingIsHalfThere) {
  const uint64_t seed = Seed();
  const auto cuts = static_cast<int>(FromEnvironment("NIGHTSHIFT_POWER_CUTS", 16));
  const Findings findings = PowerCuts(seed, LossyDiskOptions()).Run(cuts);
  std::cout << "seed " << seed << ": " << findings.cuts << " cuts, " << findings.commits
            << " commits acknowledged\n";
  EXPECT_EQ(findings.wrong, 0) << "seed " << seed << ": " << findings.first;
  EXPECT_GT(findings.commits, cuts) << "hardly anything was at stake";
}

// The test above can find something: on disks that lie it does.
TEST(PowerLossTest, DiskThatLiesAboutSyncsIsFoundOut) {
  LossyDiskOptions disk;
  disk.syncs_lie = true;
  const uint64_t seed = Seed();
  EXPECT_GT(PowerCuts(seed, disk).Run(4).wrong, 0) << "seed " << seed;
}

TEST(PowerLossTest, DiskThatLiesAboutFoldersIsFoundOut) {
  LossyDiskOptions disk;
  disk.folder_syncs_lie = true;
  const uint64_t seed = Seed();
  EXPECT_GT(PowerCuts(seed, disk).Run(4).wrong, 0) << "seed " << seed;
}

}  // namespace
}  // namespace nightshift
