#include "worker/level_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1790000000);

class LevelFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Put(const std::string& text) {
    std::filesystem::create_directories(folder_);
    std::ofstream(path_) << text;
  }

  const std::string folder_ =
      absl::StrCat(testing::TempDir(), "/level_file_test_",
                   testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string path_ = folder_ + "/levels.json";
};

TEST_F(LevelFileTest, ALevelIsBegunALittleBelow) {
  EXPECT_TRUE(ReadFirstLevels(path_, kNow).empty());
  ASSERT_TRUE(WriteLevels(path_, {{"vllm http://a", 200}, {"vllm http://b", 1}}, kNow).ok());
  ASSERT_TRUE(WriteLevels(path_, {{"vllm http://c", 1000}}, kNow).ok());
  const std::map<std::string, int> levels = ReadFirstLevels(path_, kNow + absl::Hours(24));
  EXPECT_EQ(levels,
            (std::map<std::string, int>{
                {"vllm http://a", 150}, {"vllm http://b", 1}, {"vllm http://c", kRememberedMax}}));
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename(), "levels.json") << "a temporary file is left";
  }
}

TEST_F(LevelFileTest, AnOldLevelIsForgotten) {
  ASSERT_TRUE(WriteLevels(path_, {{"a", 200}}, kNow).ok());
  EXPECT_EQ(ReadFirstLevels(path_, kNow + kRememberedFor).size(), 1u);
  EXPECT_TRUE(ReadFirstLevels(path_, kNow + kRememberedFor + absl::Seconds(1)).empty());
}

TEST_F(LevelFileTest, WhatMakesNoSenseIsLeftOut) {
  for (const char* text :
       {"", "{", "[]", R"({"version":2,"backends":{"a":{"level":8,"at":1790000000}}})",
        R"({"version":1,"backends":[]})",
        R"({"version":1,"backends":{"a":{"level":"8","at":1790000000},"b":5,)"
        R"("c":{"level":0,"at":1790000000},"d":{"level":9}}})"}) {
    Put(text);
    EXPECT_TRUE(ReadFirstLevels(path_, kNow).empty()) << text;
  }
  ASSERT_TRUE(WriteLevels(path_, {{"a", 4}}, kNow).ok()) << "and does not keep from writing anew";
  EXPECT_EQ(ReadFirstLevels(path_, kNow).at("a"), 3);
}

TEST_F(LevelFileTest, TheOldestGoFirst) {
  ASSERT_TRUE(WriteLevels(path_, {{"oldest", 4}}, kNow - absl::Hours(1)).ok());
  std::map<std::string, int> many;
  for (int i = 0; i < kRememberedBackendsMax; ++i) many[absl::StrCat("b", i)] = 8;
  ASSERT_TRUE(WriteLevels(path_, many, kNow).ok());
  const std::map<std::string, int> levels = ReadFirstLevels(path_, kNow);
  EXPECT_EQ(levels.size(), static_cast<size_t>(kRememberedBackendsMax));
  EXPECT_EQ(levels.count("oldest"), 0u);
}

}  // namespace
}  // namespace nightshift
