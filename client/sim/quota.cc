#include "client/sim/quota.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace nightshift {

Quota::Quota(const SimCerebrasOptions& options, MonotonicTime now) : refilled_at_(now) {
  const auto add = [&](bool tokens, const char* window, absl::Duration period, int64_t capacity) {
    if (capacity <= 0) return;
    const auto level = static_cast<double>(capacity);
    buckets_.push_back({tokens, window, period, level, level});
  };
  add(false, "minute", absl::Minutes(1), options.requests_per_minute);
  add(false, "day", absl::Hours(24), options.requests_per_day);
  add(true, "minute", absl::Minutes(1), options.tokens_per_minute);
  add(true, "day", absl::Hours(24), options.tokens_per_day);
}

void Quota::Refill(MonotonicTime now) {
  const double seconds = absl::ToDoubleSeconds(std::max(now, refilled_at_) - refilled_at_);
  refilled_at_ = std::max(now, refilled_at_);
  for (Bucket& bucket : buckets_) {
    bucket.level = std::min(bucket.capacity, bucket.level + seconds * bucket.refill_per_second());
  }
}

std::optional<Quota::Refusal> Quota::Take(int64_t tokens, MonotonicTime now) {
  Refill(now);
  const auto price = [tokens](const Bucket& b) {
    return b.tokens ? static_cast<double>(tokens) : 1.0;
  };
  // The longest wait of all buckets is the one that counts.
  std::optional<Refusal> refusal;
  for (const Bucket& bucket : buckets_) {
    const double missing = price(bucket) - bucket.level;
    if (missing <= 0) continue;
    const absl::Duration wait = price(bucket) > bucket.capacity
                                    ? absl::InfiniteDuration()
                                    : absl::Seconds(missing / bucket.refill_per_second());
    if (!refusal.has_value() || wait > refusal->wait) {
      refusal = Refusal{bucket.tokens, bucket.window, wait};
    }
  }
  if (refusal.has_value()) return refusal;
  for (Bucket& bucket : buckets_) bucket.level -= price(bucket);
  return std::nullopt;
}

void Quota::Refund(int64_t tokens, MonotonicTime now) {
  Refill(now);
  for (Bucket& bucket : buckets_) {
    if (bucket.tokens) {
      bucket.level = std::min(bucket.capacity, bucket.level + static_cast<double>(tokens));
    }
  }
}

std::vector<std::pair<std::string, std::string>> Quota::Headers(MonotonicTime now) {
  Refill(now);
  std::vector<std::pair<std::string, std::string>> headers;
  for (const Bucket& bucket : buckets_) {
    const std::string name = absl::StrCat(bucket.tokens ? "tokens-" : "requests-", bucket.window);
    headers.emplace_back(absl::StrCat("x-ratelimit-limit-", name),
                         absl::StrCat(static_cast<int64_t>(bucket.capacity)));
    headers.emplace_back(absl::StrCat("x-ratelimit-remaining-", name),
                         absl::StrCat(static_cast<int64_t>(bucket.level)));
    const double reset = (bucket.capacity - bucket.level) / bucket.refill_per_second();
    headers.emplace_back(absl::StrCat("x-ratelimit-reset-", name), absl::StrFormat("%.6f", reset));
  }
  return headers;
}

}  // namespace nightshift
