// A spool whose disk takes no more, and one that has reached its own bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "tests/worker/spool/spool_fixture.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The kernel refuses to let files of this process grow beyond a size, as it does on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

class SpoolFullTest : public SpoolTest {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    Open();
    Use();
  }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }
};

TEST_F(SpoolFullTest, AFullDiskBlocksAndNothingIsLostWhenThereIsRoomAgain) {
  Keep(1);
  Flush();
  {
    const FullDisk full(200);
    Keep(2, std::string(500, 'x'));
    const MonotonicTime again = Flush();
    EXPECT_TRUE(spool_->Blocked());
    EXPECT_THAT(spool_->WaitingFor(), HasSubstr("cannot write"));
    EXPECT_EQ(again, clock_.Now() + absl::Seconds(1));
    // Answers that come meanwhile wait in memory, and no try comes before its time.
    Keep(3);
    EXPECT_EQ(Flush(), again);
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(Flush(), clock_.Now() + absl::Seconds(1));
    EXPECT_TRUE(spool_->Blocked());
  }
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Flush(), MonotonicTime::Infinite());
  EXPECT_FALSE(spool_->Blocked());
  EXPECT_EQ(spool_->WaitingFor(), "");
  Die();
  Open();
  EXPECT_THAT(Use(), ElementsAre(1, 2, 3));
}

// The part of a frame that fitted is taken back: behind it, the file would look damaged.
TEST_F(SpoolFullTest, HalfAFrameIsTakenBack) {
  {
    const FullDisk full(300);
    Keep(1, std::string(1000, 'x'));
    Flush();
    EXPECT_TRUE(spool_->Blocked());
  }
  EXPECT_THAT(FilesWithBytes(), testing::IsEmpty());
}

TEST_F(SpoolFullTest, ADiskThatIsWellAgainIsNoticedWithoutAnAnswer) {
  uint64_t number;
  {
    const FullDisk full(10);
    number = Keep(1);
    Flush();
    ASSERT_TRUE(spool_->Blocked());
  }
  spool_->Forget(number);  // delivered from memory
  clock_.Advance(absl::Seconds(1));
  Flush();
  EXPECT_FALSE(spool_->Blocked());
  Die();
  Open();
  EXPECT_THAT(Use(), testing::IsEmpty());
}

TEST_F(SpoolFullTest, PastItsBoundItBlocksUntilAnswersAreForgotten) {
  spool_.reset();
  file_bytes_ = 1000;
  bytes_max_ = 5000;
  Open();
  Use();
  std::vector<uint64_t> numbers;
  while (!spool_->Blocked()) {
    numbers.push_back(Keep(numbers.size(), std::string(400, 'x')));
    Flush();
  }
  EXPECT_THAT(spool_->WaitingFor(), HasSubstr(absl::StrCat(numbers.size(), " answers")));
  EXPECT_GT(numbers.size(), 8u);
  // What is in hand is kept all the same.
  numbers.push_back(Keep(99));
  for (const uint64_t number : numbers) spool_->Forget(number);
  // The file that is written to goes as soon as there is a next one.
  while (spool_->Blocked()) {
    std::this_thread::yield();
    Flush();
  }
  EXPECT_EQ(spool_->kept(), 0);
}

}  // namespace
}  // namespace nightshift
