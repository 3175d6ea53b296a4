// What every Store promises, as tests. Include it in one test program and instantiate it for each
// implementation (INSTANTIATE_TEST_SUITE_P over StoreFixtureMaker).
#ifndef NIGHTSHIFT_TESTS_STORAGE_STORE_CONFORMANCE_H_
#define NIGHTSHIFT_TESTS_STORAGE_STORE_CONFORMANCE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/store.h"

namespace nightshift {

// Owns a store and whatever is under it.
class StoreFixture {
 public:
  virtual ~StoreFixture() = default;
  virtual Store& store() = 0;
};

struct StoreFixtureMaker {
  std::string name;
  std::function<std::unique_ptr<StoreFixture>()> make;
};

inline std::ostream& operator<<(std::ostream& out, const StoreFixtureMaker& maker) {
  return out << maker.name;
}

class StoreConformanceTest : public testing::TestWithParam<StoreFixtureMaker> {
 protected:
  using Rows = std::vector<std::pair<std::string, std::string>>;

  Store& store() { return fixture_->store(); }

  void Put(Family family, std::string key, std::string value) {
    WriteSet writes;
    writes.Put(family, std::move(key), std::move(value));
    ASSERT_TRUE(store().Commit(std::move(writes)).ok());
  }

  std::string Get(Family family, absl::string_view key) {
    const absl::StatusOr<std::string> value = store().Get(family, key);
    return value.ok() ? *value
                      : absl::StrCat("<", absl::StatusCodeToString(value.status().code()), ">");
  }

  static Rows Read(StoreIterator& rows) {
    Rows read;
    for (; rows.Valid(); rows.Next()) {
      read.emplace_back(std::string(rows.key()), std::string(rows.value()));
    }
    EXPECT_TRUE(rows.status().ok()) << rows.status();
    return read;
  }

  Rows ScanAll(Family family, absl::string_view begin = "", absl::string_view end = "") {
    return Read(*store().Scan(family, begin, end));
  }

  void PutLetters() {
    WriteSet writes;
    for (const char* key : {"d", "a", "c", "b", "e"}) {
      writes.Put(Family::kRequests, key, absl::StrCat("value of ", key));
    }
    ASSERT_TRUE(store().Commit(std::move(writes)).ok());
  }

 private:
  std::unique_ptr<StoreFixture> fixture_ = GetParam().make();
};

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST_P(StoreConformanceTest, ReadsWhatWasCommitted) {
  Put(Family::kJobs, "key", "value");
  EXPECT_EQ(Get(Family::kJobs, "key"), "value");
  EXPECT_TRUE(store().Health().ok());
}

TEST_P(StoreConformanceTest, AbsentKeyIsNotFound) {
  EXPECT_EQ(Get(Family::kJobs, "key"), "<NOT_FOUND>");
  Put(Family::kJobs, "key2", "value");
  EXPECT_EQ(Get(Family::kJobs, "key"), "<NOT_FOUND>");
}

TEST_P(StoreConformanceTest, FamiliesAreSpacesOfTheirOwn) {
  WriteSet writes;
  for (int i = 0; i < kFamilyCount; ++i) writes.Put(static_cast<Family>(i), "k", absl::StrCat(i));
  ASSERT_TRUE(store().Commit(std::move(writes)).ok());
  WriteSet one;
  one.Delete(Family::kFiles, "k");
  ASSERT_TRUE(store().Commit(std::move(one)).ok());
  for (int i = 0; i < kFamilyCount; ++i) {
    const Family family = static_cast<Family>(i);
    EXPECT_EQ(Get(family, "k"), family == Family::kFiles ? "<NOT_FOUND>" : absl::StrCat(i));
  }
}

TEST_P(StoreConformanceTest, KeysAndValuesAreAnyBytes) {
  const std::string key("\0\xff\0k", 4);
  const std::string value("\0\n\xff", 3);
  Put(Family::kOutcomes, key, value);
  Put(Family::kOutcomes, "empty", "");
  EXPECT_EQ(Get(Family::kOutcomes, key), value);
  EXPECT_EQ(Get(Family::kOutcomes, "empty"), "");
  EXPECT_THAT(ScanAll(Family::kOutcomes), ElementsAre(Pair(key, value), Pair("empty", "")));
}

TEST_P(StoreConformanceTest, WritesApplyInTheOrderTheyWereAdded) {
  WriteSet writes;
  writes.Put(Family::kJobs, "a", "1");
  writes.Put(Family::kJobs, "a", "2");
  writes.Put(Family::kJobs, "b", "1");
  writes.Delete(Family::kJobs, "b");
  writes.Delete(Family::kJobs, "c");
  writes.Put(Family::kJobs, "c", "1");
  writes.Put(Family::kJobs, "d", "before");
  writes.DeleteRange(Family::kJobs, "d", "f");
  writes.Put(Family::kJobs, "e", "after");
  ASSERT_TRUE(store().Commit(std::move(writes)).ok());
  EXPECT_THAT(ScanAll(Family::kJobs),
              ElementsAre(Pair("a", "2"), Pair("c", "1"), Pair("e", "after")));
}

TEST_P(StoreConformanceTest, EmptyCommitIsFine) { EXPECT_TRUE(store().Commit(WriteSet()).ok()); }

TEST_P(StoreConformanceTest, ScanGoesInByteOrderFromBeginUpToEnd) {
  PutLetters();
  EXPECT_THAT(ScanAll(Family::kRequests, "b", "d"),
              ElementsAre(Pair("b", "value of b"), Pair("c", "value of c")));
  EXPECT_THAT(ScanAll(Family::kRequests, "bb", "cc"), ElementsAre(Pair("c", "value of c")));
  EXPECT_THAT(ScanAll(Family::kRequests, "d"),
              ElementsAre(Pair("d", "value of d"), Pair("e", "value of e")));
  EXPECT_EQ(ScanAll(Family::kRequests).size(), 5u);
}

TEST_P(StoreConformanceTest, ByteOrderIsUnsigned) {
  Put(Family::kRequests, "\xff", "high");
  Put(Family::kRequests, "\x01", "low");
  EXPECT_THAT(ScanAll(Family::kRequests), ElementsAre(Pair("\x01", "low"), Pair("\xff", "high")));
}

TEST_P(StoreConformanceTest, RangeWithoutRoomIsEmpty) {
  PutLetters();
  EXPECT_THAT(ScanAll(Family::kRequests, "c", "c"), IsEmpty());
  EXPECT_THAT(ScanAll(Family::kRequests, "d", "b"), IsEmpty());
  const std::unique_ptr<StoreIterator> rows = store().Scan(Family::kRequests, "d", "b");
  rows->Seek("c");
  EXPECT_FALSE(rows->Valid());
}

TEST_P(StoreConformanceTest, SeekStaysInsideTheRange) {
  PutLetters();
  const std::unique_ptr<StoreIterator> rows = store().Scan(Family::kRequests, "b", "e");
  rows->Seek("d");
  ASSERT_TRUE(rows->Valid());
  EXPECT_EQ(rows->key(), "d");
  rows->Seek("a");
  ASSERT_TRUE(rows->Valid());
  EXPECT_EQ(rows->key(), "b");
  rows->Seek("e");
  EXPECT_FALSE(rows->Valid());
  rows->Seek("c");
  EXPECT_THAT(Read(*rows), ElementsAre(Pair("c", "value of c"), Pair("d", "value of d")));
}

TEST_P(StoreConformanceTest, ScanOptionsDoNotChangeWhatIsRead) {
  PutLetters();
  ScanOptions options;
  options.readahead_bytes = size_t{2} << 20;
  options.fill_cache = true;
  EXPECT_EQ(Read(*store().Scan(Family::kRequests, "", "", options)), ScanAll(Family::kRequests));
}

// An export must not see half of a commit, nor rows of commits that came after it began.
TEST_P(StoreConformanceTest, ScanShowsTheStateOfItsBeginning) {
  PutLetters();
  const std::unique_ptr<StoreIterator> rows = store().Scan(Family::kRequests, "", "");
  WriteSet writes;
  writes.Put(Family::kRequests, "aa", "new");
  writes.Put(Family::kRequests, "b", "changed");
  writes.DeleteRange(Family::kRequests, "c", "z");
  ASSERT_TRUE(store().Commit(std::move(writes)).ok());
  const Rows seen = Read(*rows);
  ASSERT_EQ(seen.size(), 5u);
  EXPECT_THAT(seen[1], Pair("b", "value of b"));
  EXPECT_THAT(ScanAll(Family::kRequests),
              ElementsAre(Pair("a", "value of a"), Pair("aa", "new"), Pair("b", "changed")));
}

TEST_P(StoreConformanceTest, DeleteRangeLeavesItsEndAndOtherFamilies) {
  PutLetters();
  Put(Family::kResponses, "c", "other");
  WriteSet writes;
  writes.DeleteRange(Family::kRequests, "b", "d");
  ASSERT_TRUE(store().Commit(std::move(writes)).ok());
  EXPECT_THAT(
      ScanAll(Family::kRequests),
      ElementsAre(Pair("a", "value of a"), Pair("d", "value of d"), Pair("e", "value of e")));
  EXPECT_EQ(Get(Family::kRequests, "c"), "<NOT_FOUND>");
  EXPECT_EQ(Get(Family::kResponses, "c"), "other");
}

TEST_P(StoreConformanceTest, DeleteRangeWithoutRoomDeletesNothing) {
  PutLetters();
  WriteSet writes;
  writes.DeleteRange(Family::kRequests, "c", "c");
  writes.DeleteRange(Family::kRequests, "d", "b");
  ASSERT_TRUE(store().Commit(std::move(writes)).ok());
  EXPECT_EQ(ScanAll(Family::kRequests).size(), 5u);
}

TEST_P(StoreConformanceTest, ExpectAbsentHoldsOnlyWithoutTheKey) {
  WriteSet first;
  first.ExpectAbsent(Family::kOutcomes, "k");
  first.Put(Family::kOutcomes, "k", "first");
  EXPECT_TRUE(store().Commit(std::move(first)).ok());
  WriteSet second;
  second.ExpectAbsent(Family::kOutcomes, "k");
  second.Put(Family::kOutcomes, "k", "second");
  EXPECT_TRUE(absl::IsAborted(store().Commit(std::move(second))));
  EXPECT_EQ(Get(Family::kOutcomes, "k"), "first");
}

TEST_P(StoreConformanceTest, ExpectValueHoldsOnlyWithExactlyIt) {
  const auto commit = [&](std::string expected, std::string value) {
    WriteSet writes;
    writes.ExpectValue(Family::kJobs, "k", std::move(expected));
    writes.Put(Family::kJobs, "k", std::move(value));
    return store().Commit(std::move(writes));
  };
  EXPECT_TRUE(absl::IsAborted(commit("", "1")));  // absent is not the same as empty
  Put(Family::kJobs, "k", "1");
  EXPECT_TRUE(absl::IsAborted(commit("10", "2")));
  EXPECT_TRUE(absl::IsAborted(commit("", "2")));
  EXPECT_TRUE(commit("1", "2").ok());
  EXPECT_EQ(Get(Family::kJobs, "k"), "2");
}

TEST_P(StoreConformanceTest, OneFailedConditionStopsAllWrites) {
  Put(Family::kJobs, "job", "running");
  WriteSet writes;
  writes.ExpectValue(Family::kJobs, "job", "running");
  writes.ExpectAbsent(Family::kJobs, "job");
  writes.Put(Family::kOutcomes, "a", "1");
  writes.Delete(Family::kJobs, "job");
  EXPECT_TRUE(absl::IsAborted(store().Commit(std::move(writes))));
  EXPECT_EQ(Get(Family::kOutcomes, "a"), "<NOT_FOUND>");
  EXPECT_EQ(Get(Family::kJobs, "job"), "running");
  EXPECT_TRUE(store().Health().ok()) << "a condition that does not hold is no fault";
}

// Conditions speak about the store before the set, not about the set's own writes.
TEST_P(StoreConformanceTest, ConditionsAreCheckedBeforeTheWrites) {
  WriteSet writes;
  writes.Put(Family::kJobs, "k", "1");
  writes.ExpectAbsent(Family::kJobs, "k");
  EXPECT_TRUE(store().Commit(std::move(writes)).ok());
  WriteSet only_conditions;
  only_conditions.ExpectValue(Family::kJobs, "k", "1");
  EXPECT_TRUE(store().Commit(std::move(only_conditions)).ok());
}

// The rule that makes the first outcome of a request win, whoever brings it.
TEST_P(StoreConformanceTest, OfConcurrentConditionalCommitsExactlyOneWins) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 25;
  std::vector<int> wins(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const std::string key = absl::StrCat("k", round);
        WriteSet writes;
        writes.ExpectAbsent(Family::kOutcomes, key);
        writes.Put(Family::kOutcomes, key, absl::StrCat(t));
        const absl::Status status = store().Commit(std::move(writes));
        if (status.ok()) ++wins[static_cast<size_t>(t)];
        EXPECT_TRUE(status.ok() || absl::IsAborted(status)) << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> held(kThreads, 0);
  for (const auto& row : ScanAll(Family::kOutcomes)) ++held[std::stoul(row.second)];
  EXPECT_EQ(held, wins);
  EXPECT_EQ(ScanAll(Family::kOutcomes).size(), static_cast<size_t>(kRounds));
}

TEST_P(StoreConformanceTest, ScansWhileOthersCommitSeeWholeCommits) {
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) {
      WriteSet writes;
      writes.Put(Family::kProgress, "left", absl::StrCat(i));
      writes.Put(Family::kProgress, "right", absl::StrCat(i));
      ASSERT_TRUE(store().Commit(std::move(writes)).ok());
    }
  });
  Rows rows;
  do {
    rows = ScanAll(Family::kProgress);
    if (rows.empty()) continue;
    ASSERT_EQ(rows.size(), 2u);
    ASSERT_EQ(rows[0].second, rows[1].second);
  } while (rows.empty() || rows[0].second != "99");
  writer.join();
}

TEST_P(StoreConformanceTest, LargeValuesComeBackWhole) {
  std::string large(size_t{8} << 20, 'x');
  large[12345] = '\0';
  Put(Family::kResponses, "large", large);
  EXPECT_TRUE(Get(Family::kResponses, "large") == large);
}

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_STORAGE_STORE_CONFORMANCE_H_
