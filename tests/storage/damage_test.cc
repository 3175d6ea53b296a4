// Flipped bits and cut-off files anywhere in a store: never silently wrong. Either every row reads
// as it was acknowledged, or opening or reading refuses. (RocksDB may also crash: its iterators can
// free twice what belongs to a table that does not open. That is loud enough; each attempt is a
// process of its own.)
//
// NIGHTSHIFT_DAMAGES (default 40) is how many, NIGHTSHIFT_SEED what replays a run.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "storage/memory_store.h"
#include "storage/rocksdb_internal.h"
#include "tests/storage/lossy_disk.h"
#include "tests/storage/random_writer.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

namespace fs = std::filesystem;

constexpr int kCommits = 60;
constexpr uint64_t kJob = 1;
constexpr uint64_t kSeed = 17;

using Files = std::map<std::string, std::string>;

// All that a store is read from.
Files ReadFiles(const std::string& folder) {
  Files files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "LOG") || name == "LOCK" || name == "nightshift.lock") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[name] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

void WriteFiles(const std::string& folder, const Files& files) {
  for (const auto& [name, bytes] : files) {
    std::ofstream(fs::path(folder) / name, std::ios::binary) << bytes;
  }
}

absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path, LossyDisk& disk) {
  RocksDbStoreOptions options;
  options.path = path;
  options.write_buffer_bytes = size_t{256} << 10;
  RocksDbDisk under;
  under.env = disk.env();  // without syncs, for speed
  return OpenRocksDbStoreOn(options, under);
}

// What `work` says, in a process of its own; RocksDB must have no threads in this one.
std::string InChild(const std::function<std::string()>& work) {
  int ends[2];
  NIGHTSHIFT_CHECK(pipe(ends) == 0, "pipe");
  const pid_t child = fork();
  NIGHTSHIFT_CHECK(child >= 0, "fork");
  if (child == 0) {
    const std::string said = work();
    const ssize_t written = write(ends[1], said.data(), said.size());
    _exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char buffer[256];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    said.append(buffer, static_cast<size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  NIGHTSHIFT_CHECK(waitpid(child, &status, 0) == child, "waitpid");
  if (WIFSIGNALED(status)) return absl::StrCat("crashed with signal ", WTERMSIG(status));
  NIGHTSHIFT_CHECK(WEXITSTATUS(status) == 0, "a child ended early");
  return said;
}

struct Damage {
  std::string file;
  bool cut = false;  // else a bit is flipped
  size_t at = 0;     // the new size, or the byte
  std::string ToString(const Files& files) const {
    return absl::StrCat(file, " of ", files.at(file).size(), " bytes ",
                        cut ? "cut off at " : "flipped in byte ", at);
  }
};

class DamageTest : public testing::Test {
 protected:
  DamageTest() {
    const TempFolder folder;
    const auto always = [] { return true; };
    InChild([&]() -> std::string {
      LossyDisk disk(folder.path(), LossyDiskOptions());
      const std::unique_ptr<Store> store = Open(folder.path(), disk).value();
      RandomWriter writer(kJob, kSeed);
      NIGHTSHIFT_CHECK(writer.Run(*store, kCommits, always).ok(), "writing");
      return "";
    });
    files_ = ReadFiles(folder.path());
    // The same again, to know what was written.
    const std::unique_ptr<Store> memory = NewMemoryStore();
    writer_.RememberAll();
    NIGHTSHIFT_CHECK(writer_.Run(*memory, kCommits, always).ok(), "writing");
    for (const auto& [name, bytes] : files_) {
      // Names are numbered: the last is the newest.
      if (absl::EndsWith(name, ".log") && !bytes.empty()) newest_log_ = name;
    }
  }

  Damage RandomDamage(Random& random) const {
    Damage damage;
    do {
      damage.file =
          std::next(files_.begin(), static_cast<ptrdiff_t>(random.Below(files_.size())))->first;
    } while (files_.at(damage.file).empty());
    damage.cut = random.Chance(0.3);
    damage.at = random.Below(files_.at(damage.file).size());
    return damage;
  }

  // How it went: "intact", "refused …", or starts with "WRONG".
  std::string Try(const Damage& damage, Random& random) const {
    Files files = files_;
    std::string& bytes = files[damage.file];
    if (damage.cut) {
      bytes.resize(damage.at);
    } else {
      bytes[damage.at] = static_cast<char>(bytes[damage.at] ^ (1 << random.Below(8)));
    }
    const TempFolder folder;
    WriteFiles(folder.path(), files);
    return InChild([&] { return Look(damage, folder.path()); });
  }

  std::string Look(const Damage& damage, const std::string& folder) const {
    LossyDisk disk(folder, LossyDiskOptions());
    const absl::StatusOr<std::unique_ptr<Store>> store = Open(folder, disk);
    if (!store.ok()) {
      if (!absl::IsDataLoss(store.status())) {
        return absl::StrCat("WRONG: refused without telling of damage: ",
                            store.status().ToString());
      }
      return "refused to open";
    }
    const absl::StatusOr<int> missing = writer_.CommitsMissing(**store);
    if (absl::IsOutOfRange(missing.status())) {
      return absl::StrCat("WRONG: ", missing.status().message());
    }
    if (!missing.ok()) return "refused to read";
    if (*missing == 0) return "intact";
    // A log whose end is gone looks exactly as if the machine had stopped before that was written.
    if (damage.cut && damage.file == newest_log_) return "as if stopped earlier";
    return absl::StrCat("WRONG: the last ", *missing, " commits are missing");
  }

  RandomWriter writer_{kJob, kSeed};
  Files files_;
  std::string newest_log_;
};

TEST_F(DamageTest, IsNeverSilentlyWrong) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  std::map<std::string, int> outcomes;
  for (uint64_t left = FromEnvironment("NIGHTSHIFT_DAMAGES", 40); left > 0; --left) {
    const Damage damage = RandomDamage(random);
    const std::string outcome = Try(damage, random);
    ++outcomes[outcome];
    EXPECT_FALSE(absl::StartsWith(outcome, "WRONG"))
        << "seed " << seed << ": " << damage.ToString(files_) << ": " << outcome;
  }
  std::cout << "seed " << seed << "\n";
  for (const auto& [outcome, times] : outcomes) std::cout << times << " " << outcome << "\n";
}

// RocksDB alone opens the older state that is left, and removes the newer tables.
TEST_F(DamageTest, ManifestThatLostItsEndIsRefused) {
  Damage damage;
  damage.cut = true;
  for (const auto& [name, bytes] : files_) {
    if (absl::StartsWith(name, "MANIFEST-")) damage.file = name;
  }
  Random random(1);
  for (const size_t tenth : {1, 4, 7, 9}) {
    damage.at = files_.at(damage.file).size() * tenth / 10;
    EXPECT_EQ(Try(damage, random), "refused to open") << damage.ToString(files_);
  }
}

}  // namespace
}  // namespace nightshift
