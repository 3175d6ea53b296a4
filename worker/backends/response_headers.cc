#include "worker/backends/response_headers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace nightshift {
namespace {

constexpr size_t kRequestIdBytesMax = 128;
// A reset beyond this many seconds is no span but a Unix time.
constexpr double kUnixFrom = 1e9;

std::string Printable(absl::string_view value, size_t bytes_max) {
  std::string kept;
  for (const char c : value.substr(0, bytes_max)) {
    if (c >= ' ' && c < 0x7f) kept.push_back(c);
  }
  return kept;
}

// Seconds as a number, with or without a fraction; negative when it is none.
double SecondsFrom(absl::string_view value) {
  double seconds = -1;
  if (!absl::SimpleAtod(value, &seconds) || !std::isfinite(seconds)) return -1;
  return seconds;
}

int64_t CountFrom(absl::string_view value) {
  int64_t count = -1;
  return absl::SimpleAtoi(value, &count) && count >= 0 ? count : -1;
}

// "33011.38" (seconds) or "1m3.2s" and "6ms"; zero when it is neither.
absl::Duration ResetFrom(absl::string_view value) {
  const double seconds = SecondsFrom(value);
  if (seconds >= 0) return absl::Seconds(seconds);
  absl::Duration duration;
  if (absl::ParseDuration(value, &duration) && duration > absl::ZeroDuration()) return duration;
  return absl::ZeroDuration();
}

}  // namespace

void ResponseHeaders::Clear() {
  any_ = is_event_stream_ = has_content_type_ = encoded_ = false;
  content_length_ = -1;
  request_id_.clear();
  location_.clear();
  server_.clear();
  server_times_ = ServerTimes();
  prompt_tokens_ = completion_tokens_ = -1;
  retry_after_.clear();
  retry_after_ms_.clear();
  rate_limit_count_ = 0;
}

void ResponseHeaders::TakeLine(absl::string_view line) {
  if (absl::StartsWith(line, "HTTP/")) {
    Clear();
    any_ = true;
    return;
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || colon == 0) return;
  const absl::string_view name = line.substr(0, colon);
  // Nearly all headers of nearly all answers are of no interest: the first letter and the length
  // tell, before anything is compared.
  switch (absl::ascii_tolower(name.front())) {
    case 'c':
    case 'l':
    case 'r':
    case 's':
    case 'x':
      break;
    default:
      return;
  }
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (absl::EqualsIgnoreCase(name, "content-length")) {
    if (!absl::SimpleAtoi(value, &content_length_) || content_length_ < 0) content_length_ = -1;
  } else if (absl::EqualsIgnoreCase(name, "content-encoding")) {
    encoded_ = !absl::EqualsIgnoreCase(value, "identity");
  } else if (absl::EqualsIgnoreCase(name, "content-type")) {
    has_content_type_ = true;
    is_event_stream_ = absl::StartsWithIgnoreCase(value, "text/event-stream");
  } else if (absl::EqualsIgnoreCase(name, "x-request-id")) {
    request_id_ = Printable(value, kRequestIdBytesMax);
  } else if (absl::EqualsIgnoreCase(name, "request-id")) {
    if (request_id_.empty()) request_id_ = Printable(value, kRequestIdBytesMax);
  } else if (absl::EqualsIgnoreCase(name, "retry-after")) {
    retry_after_.assign(value.data(), value.size());
  } else if (absl::EqualsIgnoreCase(name, "retry-after-ms")) {
    retry_after_ms_.assign(value.data(), value.size());
  } else if (absl::EqualsIgnoreCase(name, "location")) {
    location_ = Printable(value, 256);
  } else if (absl::EqualsIgnoreCase(name, "server")) {
    server_ = Printable(value, 64);
  } else if (absl::EqualsIgnoreCase(name, "x-queue-time")) {
    server_times_.queue_ms = SecondsFrom(value);
  } else if (absl::EqualsIgnoreCase(name, "x-inference-time")) {
    server_times_.completion_ms = SecondsFrom(value);
  } else if (absl::EqualsIgnoreCase(name, "x-prompt-tokens")) {
    prompt_tokens_ = CountFrom(value);
  } else if (absl::EqualsIgnoreCase(name, "x-generated-tokens")) {
    completion_tokens_ = CountFrom(value);
  } else if (absl::StartsWithIgnoreCase(name, "x-ratelimit-")) {
    TakeRateLimit(name.substr(12), value);
  }
}

void ResponseHeaders::TakeRateLimit(absl::string_view name, absl::string_view value) {
  const std::string lower = absl::AsciiStrToLower(name);
  const size_t dash = lower.find('-');
  if (dash == std::string::npos) return;
  const absl::string_view figure = absl::string_view(lower).substr(0, dash);
  const absl::string_view rest = absl::string_view(lower).substr(dash + 1);
  if (figure != "limit" && figure != "remaining" && figure != "reset") return;

  NamedLimit* named = nullptr;
  for (int i = 0; i < rate_limit_count_; ++i) {
    if (rate_limits_[i].name == rest) named = &rate_limits_[i];
  }
  if (named == nullptr) {
    NamedLimit fresh;
    const size_t end = rest.find('-');
    if (!ParseRateUnit(rest.substr(0, end), &fresh.limit.unit)) return;
    if (end != absl::string_view::npos &&
        !ParseRateWindow(rest.substr(end + 1), &fresh.limit.window)) {
      return;
    }
    if (rate_limit_count_ == kRateLimitsMax) return;
    named = &rate_limits_[rate_limit_count_++];
    *named = std::move(fresh);
    named->name.assign(rest.data(), rest.size());
  }
  const double number = SecondsFrom(value);
  if (figure == "limit") {
    named->limit.limit = number;
  } else if (figure == "remaining") {
    named->limit.remaining = number;
  } else if (number > kUnixFrom) {
    named->reset_unix = number;
  } else {
    named->limit.reset = ResetFrom(value);
  }
}

std::vector<RateLimit> ResponseHeaders::RateLimits(absl::Time now) const {
  std::vector<RateLimit> limits;
  limits.reserve(static_cast<size_t>(rate_limit_count_));
  for (int i = 0; i < rate_limit_count_; ++i) {
    RateLimit limit = rate_limits_[i].limit;
    if (rate_limits_[i].reset_unix >= 0) {
      const absl::Duration wait =
          absl::UnixEpoch() + absl::Seconds(rate_limits_[i].reset_unix) - now;
      limit.reset = std::clamp(wait, absl::ZeroDuration(), kRetryAfterMax);
    }
    limits.push_back(limit);
  }
  return limits;
}

absl::Duration ResponseHeaders::RetryAfter(absl::Time now, bool refused_for_quota) const {
  absl::Duration wait = absl::ZeroDuration();
  const double millis = retry_after_ms_.empty() ? -1 : SecondsFrom(retry_after_ms_);
  const double seconds = retry_after_.empty() ? -1 : SecondsFrom(retry_after_);
  absl::Time date;
  if (millis >= 0) {
    wait = absl::Milliseconds(millis);
  } else if (seconds >= 0) {
    wait = absl::Seconds(seconds);
  } else if (!retry_after_.empty() &&
             absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", retry_after_, &date, nullptr)) {
    wait = date - now;
  } else if (refused_for_quota) {
    for (const RateLimit& limit : RateLimits(now)) {
      if (limit.remaining == 0 && limit.limit < 0) wait = std::max(wait, limit.reset);
    }
  }
  return std::clamp(wait, absl::ZeroDuration(), kRetryAfterMax);
}

}  // namespace nightshift
