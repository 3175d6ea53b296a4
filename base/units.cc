#include "base/units.h"

#include <array>
#include <cctype>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace nightshift {
namespace {

// Ten years, which fit every clock and timer here; a longer wait is a slip of the hand.
constexpr absl::Duration kDurationMax = absl::Hours(24 * 3650);

// Takes a number with an optional fraction from the front of `text`; false when there is none.
bool TakeNumber(absl::string_view& text, double& number) {
  size_t end = 0;
  while (end < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.'))
    ++end;
  if (end == 0 || !absl::SimpleAtod(text.substr(0, end), &number)) return false;
  text.remove_prefix(end);
  return true;
}

absl::string_view TakeLetters(absl::string_view& text) {
  size_t end = 0;
  while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0) ++end;
  const absl::string_view letters = text.substr(0, end);
  text.remove_prefix(end);
  return letters;
}

}  // namespace

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  const auto refuse = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a duration; write 500ms, 30s, 5m, 8h or 2d"));
  };
  absl::string_view rest = text;
  absl::Duration total;
  if (rest.empty()) return refuse();
  while (!rest.empty()) {
    double number = 0;
    if (!TakeNumber(rest, number)) return refuse();
    const absl::string_view unit = TakeLetters(rest);
    if (unit == "ms")
      total += absl::Milliseconds(number);
    else if (unit == "s")
      total += absl::Seconds(number);
    else if (unit == "m")
      total += absl::Minutes(number);
    else if (unit == "h")
      total += absl::Hours(number);
    else if (unit == "d")
      total += absl::Hours(24 * number);
    else
      return refuse();
  }
  if (total > kDurationMax)
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is too long; at most 3650d"));
  return total;
}

absl::StatusOr<int64_t> ParseSize(absl::string_view text) {
  static constexpr std::array<std::pair<const char*, double>, 11> kUnits = {
      {{"", 1},
       {"B", 1},
       {"KiB", 1024.0},
       {"MiB", 1048576.0},
       {"GiB", 1073741824.0},
       {"TiB", 1099511627776.0},
       {"KB", 1e3},
       {"kB", 1e3},
       {"MB", 1e6},
       {"GB", 1e9},
       {"TB", 1e12}}};
  absl::string_view rest = text;
  double number = 0;
  if (TakeNumber(rest, number)) {
    const absl::string_view unit = TakeLetters(rest);
    for (const auto& [name, factor] : kUnits) {
      if (rest.empty() && unit == name && number * factor < 9e18) {
        return static_cast<int64_t>(std::llround(number * factor));
      }
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a size; write 512, 64KiB, 16MiB or 2GiB"));
}

std::string WithCommas(int64_t number) {
  std::string digits = absl::StrCat(number);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string ShortCount(double number) {
  if (number < 10'000) return absl::StrFormat("%.0f", number);
  if (number < 999'950) return absl::StrFormat("%.1fk", number / 1e3);
  if (number < 999'950'000) return absl::StrFormat("%.1fM", number / 1e6);
  return absl::StrFormat("%.1fG", number / 1e9);
}

std::string HumanDuration(absl::Duration d) {
  const double seconds = absl::ToDoubleSeconds(d);
  if (seconds < 0.0995) return absl::StrFormat("%.0f ms", seconds * 1e3);
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  if (whole < 86400) return absl::StrFormat("%dh%02dm", whole / 3600, whole % 3600 / 60);
  return absl::StrFormat("%dd%dh", whole / 86400, whole % 86400 / 3600);
}

std::string HumanSize(int64_t bytes) {
  static constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%d B", bytes)
                   : absl::StrFormat("%.1f %s", value, kNames[unit]);
}

}  // namespace nightshift
