#include "worker/spool/spool_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/storage/temp_folder.h"
#include "tests/worker/spool/spool_fixture.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;

class SpoolFoldersTest : public ::testing::Test {
 protected:
  std::unique_ptr<Spool> Open(const std::string& folder) {
    SpoolOptions options;
    options.folder = folder;
    auto opened = Spool::Open(std::move(options));
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  void LeaveAnswer(const std::string& folder) {
    const auto spool = Open(folder);
    spool->Use("store");
    spool->Keep(ResultOf(1));
  }

  const TempFolder data_;
  const std::string first_ = data_ / "spool";
  const std::string second_ = data_ / "spool-2";
  const std::string third_ = data_ / "spool-3";
};

TEST_F(SpoolFoldersTest, ThoseWithAnswersAreTriedFirst) {
  EXPECT_THAT(SpoolFoldersToTry(first_, 3), ElementsAre(first_, second_, third_));
  Open(second_);  // nothing is kept there
  LeaveAnswer(third_);
  EXPECT_THAT(SpoolFoldersToTry(first_, 3), ElementsAre(third_, first_, second_));
}

// One that a living worker has open is delivered by that one.
TEST_F(SpoolFoldersTest, OnlyThoseThatNobodyHasOpenAreLeft) {
  LeaveAnswer(first_);
  LeaveAnswer(second_);
  const std::vector<std::string> folders = SpoolFoldersToTry(first_, 3);
  EXPECT_THAT(SpoolFoldersLeft(folders), ElementsAre(first_, second_));
  const auto own = Open(first_);
  EXPECT_THAT(SpoolFoldersLeft(folders), ElementsAre(second_));
  Open(second_);  // a look leaves it as it is
  EXPECT_THAT(SpoolFoldersLeft(folders), ElementsAre(second_));
}

}  // namespace
}  // namespace nightshift
