// What can be known about where output goes: a terminal or not, how wide, coloured or not, which
// characters. Judged per stream, since either may be piped.
#ifndef NIGHTSHIFT_CLIENT_OUTPUT_TERMINAL_H_
#define NIGHTSHIFT_CLIENT_OUTPUT_TERMINAL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

inline constexpr int kWidthUnknown = 80;

bool IsTerminal(int fd);

// Columns, asked anew each time so that a resize is seen: of the terminal, else COLUMNS, else 80.
int TerminalWidth(int fd);

enum class ColorMode { kAuto, kAlways, kNever };
absl::StatusOr<ColorMode> ParseColorMode(absl::string_view word);  // the value of --color

// --color first; then a non-empty NO_COLOR says no, then a non-empty CLICOLOR_FORCE or FORCE_COLOR
// (not "0") says yes, then TERM=dumb says no; else a terminal has colour and nothing else has.
bool WantsColor(ColorMode mode, int fd);

// Whether the locale (LC_ALL, LC_CTYPE, LANG, the first that is set) is UTF-8. Then marks are "✓"
// and "✗", else "ok" and "x".
bool LocaleIsUtf8();
absl::string_view GoodMark(bool utf8);
absl::string_view BadMark(bool utf8);

std::string Bold(absl::string_view text, bool color);
std::string Red(absl::string_view text, bool color);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_OUTPUT_TERMINAL_H_
