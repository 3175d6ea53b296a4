#include "coordinator/core/rate_meter.h"

#include <algorithm>
#include <cmath>

namespace nightshift {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

}  // namespace

void RateMeter::Start(MonotonicTime now) {
  if (started_) return;
  started_ = true;
  start_ = now;
}

void RateMeter::Add(int64_t requests, int64_t tokens, MonotonicTime now) {
  Start(now);
  const int64_t second = now.nanos / kNanosPerSecond;
  Slot& slot = slots_[static_cast<size_t>(second % kSeconds)];
  if (slot.second != second) slot = Slot{second, 0, 0};
  slot.requests += requests;
  slot.tokens += tokens;
  answers_ += requests;
}

RateMeter::Rates RateMeter::Recent(MonotonicTime now) const {
  Rates rates;
  if (!started_) return rates;
  const int64_t second = now.nanos / kNanosPerSecond;
  for (const Slot& slot : slots_) {
    if (slot.second < 0 || slot.second <= second - kSeconds || slot.second > second) continue;
    rates.requests += static_cast<double>(slot.requests);
    rates.tokens += static_cast<double>(slot.tokens);
  }
  // The oldest slot is only partly inside the minute; a second at least, so that the first answers
  // do not look like thousands per second.
  const double seconds = std::clamp(absl::ToDoubleSeconds(now - start_), 1.0, double{kSeconds});
  rates.requests /= seconds;
  rates.tokens /= seconds;
  return rates;
}

RateMeter::Eta RateMeter::Remaining(int64_t requests, MonotonicTime now) const {
  Eta eta;
  if (!started_ || answers_ == 0) return eta;
  if (answers_ < kEtaAnswersMin && now - start_ < kEtaAfter) return eta;
  const double recent = Recent(now).requests;
  const double overall =
      static_cast<double>(answers_) / std::max(1.0, absl::ToDoubleSeconds(now - start_));
  const double slow = std::min(recent, overall);
  if (slow <= 0) return eta;
  const double error = std::clamp(1.0 / std::sqrt(static_cast<double>(answers_)), 0.05, 0.5);
  const auto rest = static_cast<double>(requests);
  eta.low_seconds = rest / (std::max(recent, overall) * (1 + error));
  eta.high_seconds = rest / (slow * (1 - error));
  return eta;
}

}  // namespace nightshift
