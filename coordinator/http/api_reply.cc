#include "coordinator/http/api_reply.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace nightshift {
namespace {

constexpr int kBadRequest = 400;
constexpr int kNotFound = 404;
constexpr int kConflict = 409;
constexpr int kPayloadTooLarge = 413;
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

HttpReply ErrorReply(const absl::Status& status) {
  ApiError error;
  error.message = std::string(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      error.status = kBadRequest;
      break;
    case absl::StatusCode::kNotFound:
      error.status = kNotFound;
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

HttpReply JsonReply(std::string json) {
  HttpReply reply;
  reply.body = std::move(json);
  return reply;
}

}  // namespace nightshift
