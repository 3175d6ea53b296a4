// A limit on how much a backend takes per window of time: as a person configured it, or as the
// headers of an answer told it.
#ifndef NIGHTSHIFT_WORKER_CORE_RATE_LIMIT_H_
#define NIGHTSHIFT_WORKER_CORE_RATE_LIMIT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace nightshift {

enum class RateUnit { kRequests, kTokens };

struct RateLimit {
  RateUnit unit = RateUnit::kRequests;
  absl::Duration window = absl::ZeroDuration();  // a second, minute, hour or day; zero: not told
  double limit = -1;                             // per window; negative: not told
  double remaining = -1;                         // of it, now; negative: not told
  // Until the whole limit is there again; zero: not told.
  absl::Duration reset = absl::ZeroDuration();
};

// "tokens per minute".
std::string RateLimitName(RateUnit unit, absl::Duration window);

// "requests" or "tokens"; "second", "minute", "hour" or "day". False for any other word.
bool ParseRateUnit(absl::string_view word, RateUnit* unit);
bool ParseRateWindow(absl::string_view word, absl::Duration* window);

// "tokens/minute=1000000". InvalidArgument says how it is written.
absl::StatusOr<RateLimit> ParseRateLimit(absl::string_view text);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_RATE_LIMIT_H_
