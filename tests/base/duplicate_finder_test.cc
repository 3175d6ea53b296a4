#include "base/duplicate_finder.h"

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

using Pairs = std::set<std::pair<uint64_t, uint64_t>>;

// Runs the finder over random strings and compares with a map that keeps them all.
void CompareWithMap(size_t in_memory_max, uint64_t strings, uint64_t distinct, uint64_t stride) {
  DuplicateFinder finder(
      {.temporary_dir = ::testing::TempDir(), .entries_in_memory_max = in_memory_max});
  Random random(strings * 31 + distinct);
  std::map<std::string, uint64_t> first;
  Pairs wanted;
  uint64_t position = 17;
  for (uint64_t i = 0; i < strings; ++i, position += 1 + random.Below(stride)) {
    const std::string text = absl::StrCat("id-", random.Below(distinct));
    const auto [it, is_new] = first.emplace(text, position);
    if (!is_new) wanted.insert({it->second, position});
    ASSERT_TRUE(finder.Add(text, position).ok());
  }
  Pairs got;
  ASSERT_TRUE(finder.Finish([&](uint64_t a, uint64_t b) {
                      EXPECT_TRUE(got.insert({a, b}).second);
                    })
                  .ok());
  EXPECT_EQ(got, wanted);
}

TEST(DuplicateFinderTest, FindsEveryRepetitionWithItsFirstPosition) {
  CompareWithMap(1 << 20, 5000, 3000, 3);
}

TEST(DuplicateFinderTest, FindsThemAcrossRunsOnDisk) { CompareWithMap(64, 5000, 3000, 3); }

TEST(DuplicateFinderTest, RunsLongerThanOneReadAreMergedWhole) {
  CompareWithMap(5000, 30'000, 20'000, 2);
}

TEST(DuplicateFinderTest, PositionsMayLieFarApart) {
  CompareWithMap(1 << 20, 300, 100, uint64_t{1} << 33);
}

TEST(DuplicateFinderTest, NothingAddedIsNothingFound) {
  DuplicateFinder finder({.temporary_dir = "/nonexistent"});
  EXPECT_TRUE(finder.Finish([](uint64_t, uint64_t) { FAIL(); }).ok());
}

TEST(DuplicateFinderTest, TemporaryFolderIsTouchedOnlyWhenNeeded) {
  DuplicateFinder small({.temporary_dir = "/nonexistent", .entries_in_memory_max = 2});
  EXPECT_TRUE(small.Add("a", 1).ok());
  EXPECT_TRUE(small.Add("b", 2).ok());
  const absl::Status status = small.Add("c", 3);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/nonexistent"), absl::string_view::npos);
}

TEST(DuplicateFinderTest, LeavesNoFileBehind) {
  const std::filesystem::path dir =
      std::filesystem::path(::testing::TempDir()) / "duplicate_finder_leaves_none";
  std::filesystem::create_directory(dir);
  {
    DuplicateFinder finder({.temporary_dir = dir.string(), .entries_in_memory_max = 2});
    for (uint64_t i = 0; i < 9; ++i) ASSERT_TRUE(finder.Add(absl::StrCat(i), i).ok());
    EXPECT_TRUE(std::filesystem::is_empty(dir));
  }
  std::filesystem::remove(dir);
}

}  // namespace
}  // namespace nightshift
