#include "coordinator/http/api_reply.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "coordinator/access/access.h"

namespace nightshift {
namespace {

constexpr int kBadRequest = 400;
constexpr int kStatusNotFound = 404;
constexpr int kConflict = 409;
constexpr int kPayloadTooLarge = 413;
constexpr int kTooManyRequests = 429;
constexpr int kInternal = 500;
constexpr int kUnavailable = 503;
constexpr int kInsufficientStorage = 507;

// A coordinator that restarts is back within seconds.
constexpr int kUnavailableRetryAfterSeconds = 2;

void AppendTextOrNull(std::string& out, absl::string_view text) {
  if (text.empty()) {
    absl::StrAppend(&out, "null");
  } else {
    AppendJsonString(out, text);
  }
}

}  // namespace

absl::string_view ErrorTypeOf(int http_status) {
  if (http_status == 401) return "authentication_error";
  if (http_status == 403) return "permission_error";
  if (http_status == 429) return "rate_limit_error";
  return http_status >= kInternal ? "server_error" : "invalid_request_error";
}

HttpReply ErrorReply(const ApiError& error) {
  HttpReply reply;
  reply.status = error.status;
  reply.body = "{\"error\":{\"message\":";
  AppendJsonString(reply.body, error.message);
  absl::StrAppend(&reply.body, ",\"type\":\"", ErrorTypeOf(error.status), "\",\"param\":");
  AppendTextOrNull(reply.body, error.param);
  absl::StrAppend(&reply.body, ",\"code\":");
  AppendTextOrNull(reply.body, error.code);
  absl::StrAppend(&reply.body, "}}\n");
  if (!error.may_retry) reply.headers.emplace_back("x-should-retry", "false");
  if (error.retry_after_s > 0) {
    reply.headers.emplace_back("retry-after",
                               absl::StrCat(std::min(error.retry_after_s, kRetryAfterSecondsMax)));
  }
  return reply;
}

namespace {

// The truth, however long: clients that wait less try again in vain, so that a long wait is theirs
// to plan.
HttpReply TenantLimitReply(const absl::Status& status, absl::Duration after) {
  ApiError error;
  error.status = kTooManyRequests;
  error.message = std::string(status.message());
  error.code = "tenant_limit_exceeded";
  error.may_retry = after <= absl::Seconds(kRetryAfterSecondsMax);
  HttpReply reply = ErrorReply(error);
  if (after == absl::InfiniteDuration()) return reply;
  const int64_t ms = std::max<int64_t>(1, absl::ToInt64Milliseconds(after));
  constexpr int64_t kMillisPerSecond = 1000;
  reply.headers.emplace_back("retry-after", absl::StrCat((ms - 1) / kMillisPerSecond + 1));
  reply.headers.emplace_back("retry-after-ms", absl::StrCat(ms));
  return reply;
}

}  // namespace

HttpReply ErrorReply(const absl::Status& status) {
  if (const std::optional<absl::Duration> after = TenantRetryAfter(status); after.has_value()) {
    return TenantLimitReply(status, *after);
  }
  ApiError error;
  error.message = std::string(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      error.status = kBadRequest;
      break;
    case absl::StatusCode::kNotFound:
      error.status = kStatusNotFound;
      break;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kFailedPrecondition:
      error.status = kConflict;
      error.may_retry = false;
      break;
    case absl::StatusCode::kOutOfRange:
      error.status = kPayloadTooLarge;
      break;
    case absl::StatusCode::kResourceExhausted:
      // Room does not come back within a client's three tries.
      error.status = kInsufficientStorage;
      error.code = "insufficient_storage";
      error.may_retry = false;
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
      error.status = kUnavailable;
      error.retry_after_s = kUnavailableRetryAfterSeconds;
      break;
    default:
      error.status = kInternal;
  }
  return ErrorReply(error);
}

HttpReply BadParameter(absl::string_view param, absl::string_view code, std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::string(param);
  error.code = std::string(code);
  return ErrorReply(error);
}

HttpReply TooManyConnections() {
  ApiError error;
  error.status = kUnavailable;
  error.message = "Too many connections; try again.";
  error.code = "too_many_connections";
  error.retry_after_s = 1;
  return ErrorReply(error);
}

HttpReply JsonReply(std::string json) {
  HttpReply reply;
  reply.body = std::move(json);
  return reply;
}

}  // namespace nightshift
