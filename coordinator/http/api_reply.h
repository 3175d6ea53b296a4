// Replies in the forms that clients of the OpenAI API take apart: JSON objects, and the envelope
// around every error.
//
// Pure functions; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_API_REPLY_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_API_REPLY_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/http/http_message.h"

namespace nightshift {

// What went wrong, in the envelope's words. `param` and `code` are null when empty.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};
  std::string code = {};
  // Clients try 408, 409, 429 and 5xx again by themselves; false tells them that it is no use.
  bool may_retry = true;
  // Seconds; 0 = not said. At most kRetryAfterSecondsMax, since some clients give up at once when
  // asked to wait longer and others do not wait at all.
  int retry_after_s = 0;
};

inline constexpr int kRetryAfterSecondsMax = 60;

HttpReply ErrorReply(const ApiError& error);

// The reply for what a lower layer returned; its code decides the HTTP status.
HttpReply ErrorReply(const absl::Status& status);

// 400 for one bad parameter: "invalid_value", "missing_required_parameter", …
HttpReply BadParameter(absl::string_view param, absl::string_view code, std::string message);

// 503 to whoever comes when all connections are taken.
HttpReply TooManyConnections();

// `json` is a whole document.
HttpReply JsonReply(std::string json);

// "invalid_request_error", "authentication_error", …: the envelope's type of an HTTP status.
absl::string_view ErrorTypeOf(int http_status);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_API_REPLY_H_
