#include "client/output/terminal.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace nightshift {
namespace {

// Starts from an environment without any of the variables that matter here.
class TerminalTest : public ::testing::Test {
 protected:
  TerminalTest() {
    for (const char* name : {"NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM", "COLUMNS",
                             "LC_ALL", "LC_CTYPE", "LANG"}) {
      unsetenv(name);
    }
    winsize size{};
    size.ws_col = 40;
    size.ws_row = 10;
    EXPECT_EQ(openpty(&master_, &terminal_, nullptr, nullptr, &size), 0);
    EXPECT_EQ(pipe(pipe_), 0);
  }
  ~TerminalTest() override {
    for (const int fd : {master_, terminal_, pipe_[0], pipe_[1]}) close(fd);
  }

  int master_ = -1;
  int terminal_ = -1;
  int pipe_[2] = {-1, -1};
};

TEST_F(TerminalTest, WidthFollowsTheTerminalThenTheVariable) {
  EXPECT_TRUE(IsTerminal(terminal_));
  EXPECT_FALSE(IsTerminal(pipe_[1]));
  setenv("COLUMNS", "123", 1);
  EXPECT_EQ(TerminalWidth(terminal_), 40);
  winsize size{};
  size.ws_col = 57;
  ioctl(master_, TIOCSWINSZ, &size);
  EXPECT_EQ(TerminalWidth(terminal_), 57);
  EXPECT_EQ(TerminalWidth(pipe_[1]), 123);
  setenv("COLUMNS", "wide", 1);
  EXPECT_EQ(TerminalWidth(pipe_[1]), kWidthUnknown);
  setenv("COLUMNS", "0", 1);
  EXPECT_EQ(TerminalWidth(pipe_[1]), kWidthUnknown);
}

TEST_F(TerminalTest, ColorByFlagThenVariablesThenStream) {
  EXPECT_TRUE(WantsColor(ColorMode::kAuto, terminal_));
  EXPECT_FALSE(WantsColor(ColorMode::kAuto, pipe_[1]));
  EXPECT_TRUE(WantsColor(ColorMode::kAlways, pipe_[1]));
  EXPECT_FALSE(WantsColor(ColorMode::kNever, terminal_));
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(WantsColor(ColorMode::kAuto, terminal_));
  setenv("FORCE_COLOR", "1", 1);
  EXPECT_TRUE(WantsColor(ColorMode::kAuto, pipe_[1]));
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(WantsColor(ColorMode::kAuto, terminal_));
  EXPECT_TRUE(WantsColor(ColorMode::kAlways, terminal_));
  setenv("NO_COLOR", "", 1);
  unsetenv("FORCE_COLOR");
  setenv("TERM", "xterm", 1);
  EXPECT_TRUE(WantsColor(ColorMode::kAuto, terminal_)) << "an empty NO_COLOR does not count";
}

TEST_F(TerminalTest, ColorModeWords) {
  EXPECT_EQ(*ParseColorMode("auto"), ColorMode::kAuto);
  EXPECT_EQ(*ParseColorMode("always"), ColorMode::kAlways);
  EXPECT_EQ(*ParseColorMode("never"), ColorMode::kNever);
  EXPECT_FALSE(ParseColorMode("yes").ok());
  EXPECT_EQ(Bold("x", false), "x");
  EXPECT_EQ(Bold("x", true), "\x1B[1mx\x1B[0m");
  EXPECT_EQ(Red("x", true), "\x1B[31mx\x1B[0m");
}

TEST_F(TerminalTest, MarksFollowTheLocale) {
  EXPECT_FALSE(LocaleIsUtf8());
  setenv("LANG", "de_DE.UTF-8", 1);
  EXPECT_TRUE(LocaleIsUtf8());
  setenv("LC_ALL", "C", 1);
  EXPECT_FALSE(LocaleIsUtf8());
  setenv("LC_ALL", "C.utf8", 1);
  EXPECT_TRUE(LocaleIsUtf8());
  EXPECT_EQ(GoodMark(true), "✓");
  EXPECT_EQ(GoodMark(false), "ok");
  EXPECT_EQ(BadMark(false), "x");
}

}  // namespace
}  // namespace nightshift
