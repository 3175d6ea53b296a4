// Files that a crash has torn or a bad disk has damaged: what is whole in them is delivered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "tests/worker/spool/spool_fixture.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;

class SpoolDamageTest : public SpoolTest {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);  // hundreds of damaged files
    Open();
    Use();
    for (uint64_t i = 1; i <= 3; ++i) Keep(i);
    Flush();
    spool_.reset();
    path_ = FilesWithBytes()[0];
    bytes_ = ReadFileBytes(path_);
    frame_ = bytes_.size() / 3;
    ASSERT_EQ(frame_ * 3, bytes_.size());
  }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  // What a spool finds whose only file has these bytes.
  Indexes Find(const std::string& bytes) {
    spool_.reset();
    for (const std::string& path : Files()) std::filesystem::remove(path);
    WriteFileBytes(path_, bytes);
    Open();
    return Use();
  }

  // Opening it fails until ShowFile, for root too: a link that leads to itself. (Removing it would
  // succeed.)
  void HideFile() {
    std::filesystem::rename(path_, folder_ / "hidden");
    std::filesystem::create_symlink(path_, path_);
  }
  void ShowFile() {
    ASSERT_TRUE(std::filesystem::is_symlink(path_)) << "the unreadable file was removed";
    std::filesystem::rename(folder_ / "hidden", path_);
  }

  std::string path_;
  std::string bytes_;
  std::vector<uint64_t> numbers_;
  size_t frame_ = 0;
};

TEST_F(SpoolDamageTest, TornAtAnyByteItKeepsTheWholeAnswers) {
  for (size_t cut = 0; cut <= bytes_.size(); ++cut) {
    Indexes whole;
    for (uint64_t i = 1; i <= cut / frame_; ++i) whole.push_back(i);
    ASSERT_EQ(Find(bytes_.substr(0, cut)), whole) << "cut at " << cut;
    // And the life goes on.
    Keep(7);
    Flush();
    Die();
    Open();
    whole.push_back(7);
    ASSERT_EQ(Use(), whole) << "cut at " << cut;
  }
}

TEST_F(SpoolDamageTest, AFlippedBitCostsOneAnswer) {
  for (size_t at = 0; at < bytes_.size(); ++at) {
    std::string damaged = bytes_;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    Indexes left = {1, 2, 3};
    left.erase(left.begin() + static_cast<int64_t>(at / frame_));
    ASSERT_EQ(Find(damaged), left) << "byte " << at;
  }
}

// A damaged note of what was forgotten brings answers back, which a coordinator drops: better than
// the other way round.
TEST_F(SpoolDamageTest, ADamagedNoteOfForgettingLosesNoAnswer) {
  ASSERT_EQ(Find(bytes_).size(), 3u);
  spool_->Forget(kept_[0].number);
  Flush();
  Die();
  std::string note = FilesWithBytes().back();
  ASSERT_NE(note, path_);
  std::string bytes = ReadFileBytes(note);
  bytes[bytes.size() - 1] ^= 1;
  WriteFileBytes(note, bytes);
  Open();
  EXPECT_THAT(Use(), ElementsAre(1, 2, 3));
}

TEST_F(SpoolDamageTest, EmptyForeignAndUnreadableFilesAreNoTrouble) {
  WriteFileBytes(folder_ / "answers-00000007.spool", "");
  WriteFileBytes(folder_ / "answers-00000008.spool", std::string(100'000, '\0'));
  WriteFileBytes(folder_ / "answers-00000009.spool", "not one of ours");
  WriteFileBytes(folder_ / "answers-x.spool", "nor this");
  WriteFileBytes(folder_ / "notes.txt", "nor this");
  std::filesystem::create_directory(folder_ / "answers-00000010.spool");
  Open();
  EXPECT_THAT(Use(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "notes.txt"));
  // Another version may know what to do with it.
  spool_->disk().AwaitRemoved();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "answers-00000009.spool"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "answers-00000008.spool"));
  Keep(4);
  Flush();
  Die();
  Open();
  EXPECT_THAT(Use(), ElementsAre(1, 2, 3, 4));
}

// A disk or a limit on open files that is in the way now may be in order at the next start. What is
// forgotten in between is forgotten by number, and must not be taken for one of the unread answers.
TEST_F(SpoolDamageTest, WhatCannotBeReadIsLeftForAProcessThatCan) {
  HideFile();
  Open();
  EXPECT_THAT(Use(), ElementsAre());
  for (uint64_t i = 4; i <= 7; ++i) numbers_.push_back(Keep(i));
  for (const uint64_t number : {numbers_[0], numbers_[1], numbers_[2]}) spool_->Forget(number);
  Flush();
  spool_.reset();
  ShowFile();
  Open();
  EXPECT_THAT(Use(), ElementsAre(1, 2, 3, 7));
}

TEST_F(SpoolDamageTest, WhatCannotBeReadWhenItsStoreIsMetIsLeftToo) {
  Open();
  HideFile();
  EXPECT_THAT(Use(), ElementsAre());
  spool_.reset();
  ShowFile();
  Open();
  EXPECT_THAT(Use(), ElementsAre(1, 2, 3));
}

TEST_F(SpoolDamageTest, TheSameFileTwiceIsReadOnce) {
  WriteFileBytes(folder_ / "answers-00000099.spool", bytes_ + bytes_);
  std::filesystem::remove(path_);
  Open();
  EXPECT_THAT(Use(), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace nightshift
