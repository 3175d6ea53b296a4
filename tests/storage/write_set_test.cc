#include "storage/write_set.h"

#include <gtest/gtest.h>

#include <set>

namespace nightshift {
namespace {

TEST(WriteSetTest, ByteSizeCountsKeysAndValuesButNotConditions) {
  WriteSet writes;
  EXPECT_TRUE(writes.empty());
  writes.Put(Family::kJobs, "abc", "12345");
  EXPECT_EQ(writes.byte_size(), 8u);
  writes.Delete(Family::kJobs, "ab");
  EXPECT_EQ(writes.byte_size(), 10u);
  writes.DeleteRange(Family::kJobs, "a", "bcd");
  EXPECT_EQ(writes.byte_size(), 14u);
  writes.ExpectValue(Family::kJobs, "key", "value");
  writes.ExpectAbsent(Family::kJobs, "key");
  EXPECT_EQ(writes.byte_size(), 14u);
  EXPECT_EQ(writes.writes().size(), 3u);
  EXPECT_EQ(writes.conditions().size(), 2u);
}

TEST(WriteSetTest, ConditionsAloneAreNotEmpty) {
  WriteSet writes;
  writes.ExpectAbsent(Family::kJobs, "key");
  EXPECT_FALSE(writes.empty());
}

// The names are on disk: a changed one loses a family, an equal pair mixes two.
TEST(WriteSetTest, FamilyNamesAreFixedAndDistinct) {
  std::set<std::string> names;
  for (int i = 0; i < kFamilyCount; ++i) {
    names.insert(std::string(FamilyName(static_cast<Family>(i))));
  }
  EXPECT_EQ(names, (std::set<std::string>{"meta", "jobs", "requests", "order", "outcomes",
                                          "responses", "progress", "attempts", "files", "events"}));
}

}  // namespace
}  // namespace nightshift
