#include "client/output/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

// Wider than any screen; a larger number is a mistake.
constexpr int kWidthMax = 10'000;

// Empty when it is not set.
absl::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? absl::string_view() : absl::string_view(value);
}

}  // namespace

bool IsTerminal(int fd) { return isatty(fd) != 0; }

int TerminalWidth(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  int columns = 0;
  if (absl::SimpleAtoi(Variable("COLUMNS"), &columns) && columns > 0 && columns <= kWidthMax) {
    return columns;
  }
  return kWidthUnknown;
}

absl::StatusOr<ColorMode> ParseColorMode(absl::string_view word) {
  if (word == "auto") return ColorMode::kAuto;
  if (word == "always") return ColorMode::kAlways;
  if (word == "never") return ColorMode::kNever;
  return absl::InvalidArgumentError(
      absl::StrCat("--color: \"", word, "\" is none of auto, always, never"));
}

bool WantsColor(ColorMode mode, int fd) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  if (!Variable("NO_COLOR").empty()) return false;
  for (const char* name : {"FORCE_COLOR", "CLICOLOR_FORCE"}) {
    const absl::string_view value = Variable(name);
    if (!value.empty() && value != "0") return true;
  }
  return Variable("TERM") != "dumb" && IsTerminal(fd);
}

bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const absl::string_view value = Variable(name);
    if (value.empty()) continue;
    const std::string lower = absl::AsciiStrToLower(value);
    return absl::StrContains(lower, "utf-8") || absl::StrContains(lower, "utf8");
  }
  return false;
}

absl::string_view GoodMark(bool utf8) { return utf8 ? "✓" : "ok"; }
absl::string_view BadMark(bool utf8) { return utf8 ? "✗" : "x"; }

std::string Bold(absl::string_view text, bool color) {
  return color ? absl::StrCat("\x1B[1m", text, "\x1B[0m") : std::string(text);
}

std::string Red(absl::string_view text, bool color) {
  return color ? absl::StrCat("\x1B[31m", text, "\x1B[0m") : std::string(text);
}

}  // namespace nightshift
