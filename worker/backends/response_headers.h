// What a call reads from the headers of its answer, line by line as they arrive. Pure; one per
// call, used again for the next.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_RESPONSE_HEADERS_H_
#define NIGHTSHIFT_WORKER_BACKENDS_RESPONSE_HEADERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/backends/server_times.h"
#include "worker/core/rate_limit.h"

namespace nightshift {

class ResponseHeaders {
 public:
  void Clear();

  // One line, its line end included or not. A status line begins anew: an interim 1xx response
  // comes before the real one.
  void TakeLine(absl::string_view line);

  bool any() const { return any_; }
  // Of the body as it is after unpacking; -1 = not told.
  int64_t content_length() const { return encoded_ ? -1 : content_length_; }
  bool is_event_stream() const { return is_event_stream_; }
  bool has_content_type() const { return has_content_type_; }
  // Printable ASCII, at most 128 bytes; empty = not told.
  const std::string& request_id() const { return request_id_; }
  const std::string& location() const { return location_; }
  const std::string& server() const { return server_; }
  // TGI tells both in headers, also where the body has no account.
  const ServerTimes& server_times() const { return server_times_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }  // -1 = not told
  int64_t completion_tokens() const { return completion_tokens_; }

  // How long the backend wants to be left alone, at most kRetryAfterMax; zero = not told. Taken
  // from retry-after-ms, else retry-after (seconds or a date), else, when `refused_for_quota`, from
  // the reset times of the rate limits that have nothing left and do not say how large they are.
  absl::Duration RetryAfter(absl::Time now, bool refused_for_quota) const;

  // x-ratelimit-{limit,remaining,reset}-{requests,tokens}[-{second,minute,hour,day}]; usually none.
  std::vector<RateLimit> RateLimits(absl::Time now) const;

  // A day: daily quotas exist, and what is longer is a mistake of the server's.
  static constexpr absl::Duration kRetryAfterMax = absl::Hours(24);

 private:
  struct NamedLimit {
    std::string name;  // "tokens-minute", in lower case
    RateLimit limit;
    double reset_unix = -1;  // where the reset is a moment; negative: it is not
  };
  void TakeRateLimit(absl::string_view name, absl::string_view value);

  static constexpr int kRateLimitsMax = 8;

  bool any_ = false;
  bool is_event_stream_ = false;
  bool has_content_type_ = false;
  bool encoded_ = false;
  int64_t content_length_ = -1;
  std::string request_id_;
  std::string location_;
  std::string server_;
  ServerTimes server_times_;
  int64_t prompt_tokens_ = -1;
  int64_t completion_tokens_ = -1;
  std::string retry_after_;
  std::string retry_after_ms_;
  NamedLimit rate_limits_[kRateLimitsMax];
  int rate_limit_count_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_RESPONSE_HEADERS_H_
