#include "worker/spool/spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/worker/spool/spool_fixture.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(SpoolTest, WhatADeadProcessKeptIsThereInOrder) {
  Open();
  EXPECT_EQ(spool_->LastStore(), "");
  EXPECT_THAT(Use(), IsEmpty());
  for (uint64_t i = 10; i < 15; ++i) Keep(i, absl::StrCat("answer ", i));
  Flush();
  Die();
  Open();
  EXPECT_EQ(spool_->LastStore(), kStore);
  EXPECT_EQ(spool_->kept_for_others(), 5) << "nobody uses it yet";
  EXPECT_THAT(Use(), ElementsAre(10, 11, 12, 13, 14));
  EXPECT_EQ(kept_[4].result.SerializeAsString(), ResultOf(14, "answer 14").SerializeAsString());
  EXPECT_EQ(spool_->kept(), 5);
}

TEST_F(SpoolTest, WhatWasNotFlushedIsTheOnlyLoss) {
  Open();
  Use();
  Keep(1);
  Flush();
  Keep(2);
  const std::string bytes = ReadFileBytes(Files()[0]);
  EXPECT_EQ(Flush(), MonotonicTime::Infinite());
  EXPECT_GT(ReadFileBytes(Files()[0]).size(), bytes.size());
  WriteFileBytes(folder_ / "copy", bytes);
  spool_.reset();
  std::filesystem::rename(folder_ / "copy", Files()[0]);
  Open();
  EXPECT_THAT(Use(), ElementsAre(1));
}

TEST_F(SpoolTest, WhatIsForgottenDoesNotComeBack) {
  Open();
  Use();
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < 6; ++i) numbers.push_back(Keep(i));
  Flush();
  spool_->Forget(numbers[4]);
  spool_->Forget(numbers[1]);
  spool_->Forget(numbers[1]);
  spool_->Forget(12345);
  Flush();
  EXPECT_EQ(spool_->kept(), 4);
  Die();
  Open();
  EXPECT_THAT(Use(), ElementsAre(0, 2, 3, 5));
  // Numbers go on, so that the old ones keep their meaning.
  EXPECT_GT(Keep(9), numbers[5]);
  spool_->Forget(kept_[0].number);
  Flush();
  Die();
  Open();
  EXPECT_THAT(Use(), ElementsAre(2, 3, 5, 9));
}

TEST_F(SpoolTest, AnEndInOrderWritesWhatIsLeftAndLeavesNothingElse) {
  Open();
  Use();
  const uint64_t first = Keep(1);
  Keep(2);
  spool_->Forget(first);
  spool_.reset();
  EXPECT_THAT(Files(), SizeIs(1));
  Open();
  EXPECT_THAT(Use(), ElementsAre(2));
  spool_->Forget(kept_[0].number);
  spool_.reset();
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(SpoolTest, FilesGoWhenAllInThemIsForgottenOldestFirst) {
  file_bytes_ = 2000;
  Open();
  Use();
  std::vector<uint64_t> numbers;
  // A file takes two or three of these; the next one may still be in the making.
  while (FilesWithBytes().size() < 4) {
    numbers.push_back(Keep(numbers.size(), std::string(700, 'x')));
    Flush();
  }
  spool_->disk().AwaitRemoved();
  const std::vector<std::string> before = FilesWithBytes();
  // All but the very first: it holds the files behind it, which say what of it is forgotten.
  for (size_t i = 1; i < numbers.size(); ++i) spool_->Forget(numbers[i]);
  Flush();
  spool_->disk().AwaitRemoved();
  EXPECT_GE(FilesWithBytes().size(), before.size());
  spool_->Forget(numbers[0]);
  Flush();
  spool_->disk().AwaitRemoved();
  EXPECT_LE(FilesWithBytes().size(), 1u);
  EXPECT_FALSE(spool_->Blocked());
  Die();
  Open();
  EXPECT_THAT(Use(), IsEmpty());
}

// With a coordinator that answers, the folder stays small however much goes through.
TEST_F(SpoolTest, AMillionBytesThroughASmallSpoolLeaveAFew) {
  file_bytes_ = 10'000;
  bytes_max_ = 100'000;
  Open();
  Use();
  std::deque<uint64_t> kept;
  for (uint64_t i = 0; i < 2000; ++i) {
    kept.push_back(Keep(i, std::string(500, 'x')));
    if (kept.size() > 5) {
      spool_->Forget(kept.front());
      kept.pop_front();
    }
    Flush();
    // On a slow disk the next file is not there yet, and one file alone reaches the bound: then
    // nothing new is kept, as no call would start, and what there is is acknowledged.
    while (spool_->Blocked()) {
      if (!kept.empty()) {
        spool_->Forget(kept.front());
        kept.pop_front();
      }
      std::this_thread::yield();
      Flush();
    }
  }
  spool_->disk().AwaitRemoved();
  int64_t bytes = 0;
  for (const std::string& path : Files())
    bytes += static_cast<int64_t>(std::filesystem::file_size(path));
  EXPECT_LE(bytes, bytes_max_);
  Die();
  Open();
  EXPECT_THAT(Use(), SizeIs(kept.size()));
}

TEST_F(SpoolTest, OneFolderIsForOneProcess) {
  Open();
  const absl::Status second = Spool::Open(Options()).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr(folder_.path()));
  spool_.reset();
  EXPECT_TRUE(Spool::Open(Options()).ok());
}

TEST_F(SpoolTest, AFolderThatCannotBeIsNamed) {
  WriteFileBytes(folder_ / "file", "x");
  SpoolOptions options = Options();
  options.folder = folder_ / "file";
  EXPECT_THAT(std::string(Spool::Open(options).status().message()),
              HasSubstr("another --spool-dir"));
}

// Jobs are numbered from one in each store: an answer for one must never reach another.
TEST_F(SpoolTest, AnswersOfAnotherStoreWaitForIt) {
  Open();
  Use("a");
  Keep(1);
  Keep(2);
  FlushAll();
  EXPECT_THAT(Use("b"), IsEmpty());
  EXPECT_EQ(spool_->kept(), 0);
  EXPECT_EQ(spool_->kept_for_others(), 2);
  const uint64_t of_b = Keep(1, "for b");
  FlushAll();
  Die();
  Open();
  EXPECT_EQ(spool_->LastStore(), "b");
  EXPECT_THAT(Use("c"), IsEmpty());
  EXPECT_THAT(Use("a"), ElementsAre(1, 2));
  spool_->Forget(kept_[0].number);
  FlushAll();
  EXPECT_THAT(Use("b"), ElementsAre(1));
  EXPECT_EQ(kept_[0].result.body(), "for b");
  EXPECT_EQ(kept_[0].number, of_b);
  // Back once more: what was forgotten there stays so, through another death too.
  EXPECT_THAT(Use("a"), ElementsAre(2));
  Die();
  Open();
  EXPECT_THAT(Use("a"), ElementsAre(2));
}

TEST_F(SpoolTest, TheOldestAnswersOfOtherStoresGoWhenTheyAreTooMany) {
  other_bytes_max_ = 5000;
  for (const char* store : {"a", "b", "c"}) {
    Open();
    Use(store);
    for (uint64_t i = 0; i < 3; ++i) Keep(i, std::string(1000, 'x'));
    Flush();
    Die();
  }
  Open();
  EXPECT_EQ(spool_->kept_for_others(), 3);
  EXPECT_THAT(Use("a"), IsEmpty());
  EXPECT_THAT(Use("c"), SizeIs(3));
}

TEST_F(SpoolTest, IsSyncedWhenTheCoordinatorStaysAway) {
  Open();
  Use();
  Keep(1);
  Flush();
  while (spool_->disk().syncs() == 0) std::this_thread::yield();
  EXPECT_FALSE(spool_->Blocked());
}

// A process dies at every step of a random life; the next one finds exactly what was kept and not
// forgotten at the last flush.
TEST_F(SpoolTest, RandomLivesLoseNothingAndBringNothingBack) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    file_bytes_ = static_cast<int64_t>(200 + random.Below(3000));
    std::map<std::string, std::set<uint64_t>> durable, present;
    std::map<std::pair<std::string, uint64_t>, uint64_t> number_of;
    std::string store;
    uint64_t next = 0;
    const auto use = [&](const std::string& which) {
      store = which;
      const Indexes found = Use(which);
      ASSERT_TRUE(std::is_sorted(found.begin(), found.end()));
      ASSERT_EQ(std::set<uint64_t>(found.begin(), found.end()), present[which]);
      ASSERT_EQ(found.size(), present[which].size());
      for (const KeptResult& kept : kept_) {
        number_of[{which, kept.result.key().index()}] = kept.number;
      }
    };
    Open();
    use("a");
    for (int step = 0; step < 60 && !HasFatalFailure(); ++step) {
      switch (random.Below(8)) {
        case 0:
          present = durable;
          Die();
          // What was not flushed may be there, since an end in order is not what this is about.
          Open();
          use(random.Chance(0.5) ? "a" : "b");
          break;
        case 1:
          FlushAll();
          use(random.Chance(0.5) ? "a" : "b");
          durable = present;
          break;
        case 2:
        case 3:
          if (std::set<uint64_t>& mine = present[store]; !mine.empty()) {
            const uint64_t index = random.Chance(0.7) ? *mine.begin() : *mine.rbegin();
            spool_->Forget(number_of[{store, index}]);
            mine.erase(index);
          }
          break;
        default:
          number_of[{store, next}] = Keep(next, std::string(random.Below(400), 'x'));
          present[store].insert(next++);
      }
      if (random.Chance(0.7)) {
        FlushAll();
        durable = present;
      }
    }
    spool_.reset();
    for (const std::string& path : Files()) std::filesystem::remove(path);
  }
}

}  // namespace
}  // namespace nightshift
