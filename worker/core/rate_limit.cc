#include "worker/core/rate_limit.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace nightshift {
namespace {

struct Window {
  const char* name;
  absl::Duration length;
};

const Window kWindows[] = {
    {"second", absl::Seconds(1)},
    {"minute", absl::Minutes(1)},
    {"hour", absl::Hours(1)},
    {"day", absl::Hours(24)},
};

}  // namespace

std::string RateLimitName(RateUnit unit, absl::Duration window) {
  const char* const what = unit == RateUnit::kTokens ? "tokens" : "requests";
  for (const Window& known : kWindows) {
    if (known.length == window) return absl::StrCat(what, " per ", known.name);
  }
  return what;
}

bool ParseRateUnit(absl::string_view word, RateUnit* unit) {
  if (word != "requests" && word != "tokens") return false;
  *unit = word == "tokens" ? RateUnit::kTokens : RateUnit::kRequests;
  return true;
}

bool ParseRateWindow(absl::string_view word, absl::Duration* window) {
  for (const Window& known : kWindows) {
    if (word != known.name) continue;
    *window = known.length;
    return true;
  }
  return false;
}

absl::StatusOr<RateLimit> ParseRateLimit(absl::string_view text) {
  RateLimit limit;
  const std::vector<absl::string_view> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
  const std::vector<absl::string_view> names = absl::StrSplit(sides[0], '/');
  double number = 0;
  if (sides.size() != 2 || names.size() != 2 || !ParseRateUnit(names[0], &limit.unit) ||
      !ParseRateWindow(names[1], &limit.window) || !absl::SimpleAtod(sides[1], &number) ||
      !(number >= 1 && number <= 1e15)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text,
                     "\" is no rate limit; write tokens/minute=1000000 (requests or tokens per "
                     "second, minute, hour or day; at least 1)"));
  }
  limit.limit = number;
  return limit;
}

}  // namespace nightshift
