#include "client/output/progress.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/output/text_width.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() {
    winsize size{};
    size.ws_col = 80;
    EXPECT_EQ(openpty(&master_, &terminal_, nullptr, nullptr, &size), 0);
    EXPECT_EQ(pipe2(pipe_, O_NONBLOCK), 0);
    fcntl(master_, F_SETFL, O_NONBLOCK);
    setenv("TERM", "xterm", 1);
    state_.total = 100;
    state_.state = "running";
  }
  ~ProgressTest() override {
    for (const int fd : {master_, terminal_, pipe_[0], pipe_[1]}) close(fd);
  }

  std::unique_ptr<Progress> OnTerminal(ProgressMode mode = ProgressMode::kAuto) {
    return Progress::Create({.mode = mode, .fd = terminal_, .zone = absl::UTCTimeZone()}, clock_);
  }
  std::unique_ptr<Progress> OnPipe(ProgressMode mode = ProgressMode::kAuto) {
    return Progress::Create({.mode = mode, .fd = pipe_[1], .zone = absl::UTCTimeZone()}, clock_);
  }

  static std::string Take(int fd) {
    std::string out;
    char buffer[4096];
    for (ssize_t got; (got = read(fd, buffer, sizeof(buffer))) > 0;) {
      out.append(buffer, static_cast<size_t>(got));
    }
    return out;
  }
  std::string FromTerminal() const { return Take(master_); }
  std::string FromPipe() const { return Take(pipe_[0]); }

  const ProgressState& Done(int64_t done) {
    state_.done = done;
    return state_;
  }

  FakeClock clock_;
  ProgressState state_;
  int master_ = -1;
  int terminal_ = -1;
  int pipe_[2] = {-1, -1};
};

TEST_F(ProgressTest, ATerminalGetsOneLinePaintedOver) {
  const auto progress = OnTerminal();
  progress->Update(Done(1));
  EXPECT_THAT(FromTerminal(), AllOf(StartsWith("\x1B[?25l\r\x1B[K1% 1/100"), Not(HasSubstr("\n"))));
  clock_.Advance(absl::Seconds(1));
  progress->Update(Done(2));
  EXPECT_THAT(FromTerminal(), StartsWith("\r\x1B[K2% 2/100"));
}

TEST_F(ProgressTest, AtMostTenFramesASecondAndNoneWithoutChange) {
  const auto progress = OnTerminal();
  progress->Update(Done(1));
  FromTerminal();
  clock_.Advance(absl::Milliseconds(99));
  progress->Update(Done(2));
  EXPECT_EQ(FromTerminal(), "");
  clock_.Advance(absl::Milliseconds(1));
  progress->Update(Done(2));
  EXPECT_THAT(FromTerminal(), HasSubstr("2/100"));
  clock_.Advance(absl::Seconds(5));
  progress->Update(Done(2));
  EXPECT_EQ(FromTerminal(), "");
}

TEST_F(ProgressTest, ANarrowedWindowIsSeenAtTheNextFrame) {
  const auto progress = OnTerminal();
  progress->Update(Done(1));
  FromTerminal();
  winsize size{};
  size.ws_col = 20;
  ioctl(master_, TIOCSWINSZ, &size);
  clock_.Advance(absl::Seconds(1));
  progress->Update(Done(1));
  const std::string frame = FromTerminal();
  ASSERT_THAT(frame, StartsWith("\r\x1B[K"));
  EXPECT_LE(DisplayWidth(frame.substr(4)), 19);
}

TEST_F(ProgressTest, FinishTakesTheLineAwayAndShowsTheCursor) {
  {
    const auto progress = OnTerminal();
    progress->Update(Done(1));
    FromTerminal();
    progress->Finish();
    EXPECT_EQ(FromTerminal(), "\r\x1B[K\x1B[?25h");
    clock_.Advance(absl::Seconds(1));
    progress->Update(Done(2));
  }
  EXPECT_EQ(FromTerminal(), "");
}

TEST_F(ProgressTest, DestructionFinishes) {
  OnTerminal()->Update(Done(1));
  EXPECT_THAT(FromTerminal(), EndsWith("\x1B[?25h"));
}

TEST_F(ProgressTest, ClearMakesRoomForAMessage) {
  const auto progress = OnTerminal();
  progress->Update(Done(1));
  FromTerminal();
  progress->Clear();
  EXPECT_EQ(FromTerminal(), "\r\x1B[K");
  progress->Clear();
  EXPECT_EQ(FromTerminal(), "");
  progress->Update(Done(1));
  EXPECT_THAT(FromTerminal(), HasSubstr("1/100"));
}

TEST_F(ProgressTest, PrintNowPutsALineAboveThePaintedOne) {
  const auto progress = OnTerminal();
  progress->PrintNow();
  EXPECT_EQ(FromTerminal(), "");
  progress->Update(Done(1));
  FromTerminal();
  progress->PrintNow();
  EXPECT_THAT(FromTerminal(),
              AllOf(StartsWith("\r\x1B[K20"), HasSubstr("failed=0"), HasSubstr("\n1% 1/100")));
}

TEST_F(ProgressTest, ElsewhereAPlainLinePerIntervalIfAnythingChanged) {
  const auto progress = OnPipe();
  progress->Update(Done(1));
  EXPECT_EQ(FromPipe(), "");
  clock_.Advance(absl::Seconds(10));
  progress->Update(Done(5));
  const std::string line = FromPipe();
  EXPECT_THAT(line, AllOf(HasSubstr(" 5% 5/100 failed=0"), EndsWith("\n")));
  EXPECT_EQ(line.find_first_of("\r\x1B"), std::string::npos);
  clock_.Advance(absl::Seconds(9));
  progress->Update(Done(6));
  EXPECT_EQ(FromPipe(), "");
  clock_.Advance(absl::Seconds(1));
  progress->Update(Done(6));
  EXPECT_THAT(FromPipe(), HasSubstr("6/100"));
  clock_.Advance(absl::Minutes(5));
  progress->Update(Done(6));
  EXPECT_EQ(FromPipe(), "");
  progress->Clear();
  progress->Finish();
  EXPECT_EQ(FromPipe(), "");
}

TEST_F(ProgressTest, ModesCanBeForced) {
  const auto json = OnTerminal(ProgressMode::kJson);
  clock_.Advance(absl::Seconds(10));
  json->Update(Done(1));
  EXPECT_THAT(FromTerminal(), StartsWith("{\"type\":\"status\""));
  const auto none = OnTerminal(ProgressMode::kNone);
  clock_.Advance(absl::Seconds(10));
  none->Update(Done(1));
  EXPECT_EQ(FromTerminal(), "");
  none->PrintNow();
  EXPECT_THAT(FromTerminal(), HasSubstr("1/100"));
  setenv("TERM", "dumb", 1);
  const auto dumb = OnTerminal();
  dumb->Update(Done(1));
  EXPECT_EQ(FromTerminal(), "");
  const auto tty = OnPipe(ProgressMode::kTty);
  tty->Update(Done(1));
  EXPECT_THAT(FromPipe(), HasSubstr("\r\x1B[K1%"));
}

TEST_F(ProgressTest, ModeWords) {
  EXPECT_EQ(*ParseProgressMode("auto"), ProgressMode::kAuto);
  EXPECT_EQ(*ParseProgressMode("tty"), ProgressMode::kTty);
  EXPECT_EQ(*ParseProgressMode("plain"), ProgressMode::kPlain);
  EXPECT_EQ(*ParseProgressMode("json"), ProgressMode::kJson);
  EXPECT_EQ(*ParseProgressMode("none"), ProgressMode::kNone);
  EXPECT_FALSE(ParseProgressMode("bar").ok());
}

TEST_F(ProgressTest, UpdatesAndSignalsMayComeFromTwoThreads) {
  const auto progress = OnPipe();
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) progress->PrintNow();
  });
  for (int i = 0; i < 50; ++i) {
    clock_.Advance(absl::Seconds(10));
    progress->Update(Done(i));
  }
  other.join();
  const std::string text = FromPipe();
  EXPECT_EQ(text.back(), '\n');
  EXPECT_THAT(text, Not(HasSubstr("\n\n")));
}

// The process ends without a destructor; the shell it leaves behind must have its cursor.
TEST_F(ProgressTest, ACrashShowsTheCursorAgain) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_DEATH(
      {
        const auto progress =
            Progress::Create({.mode = ProgressMode::kTty, .fd = STDERR_FILENO}, clock_);
        progress->Update(Done(1));
        std::abort();
      },
      "\\[\\?25h");
}

}  // namespace
}  // namespace nightshift
