#include "client/cli/failure.h"

#include "absl/strings/match.h"
#include "base/token_file.h"

namespace nightshift {

Failure UsageFailure(std::string message, std::string hint) {
  Failure failure;
  failure.exit = ExitCode::kUsage;
  failure.code = "bad_usage";
  failure.message = std::move(message);
  failure.hint = std::move(hint);
  return failure;
}

Failure FailureFrom(const absl::Status& status) {
  Failure failure;
  failure.message = std::string(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      failure.exit = ExitCode::kUsage;
      failure.code = "bad_usage";
      break;
    case absl::StatusCode::kNotFound:
      failure.exit = ExitCode::kUsage;
      failure.code = "not_found";
      break;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      failure.exit = ExitCode::kUsage;
      failure.code = "permission_denied";
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      failure.exit = ExitCode::kUnreachable;
      failure.code = "unreachable";
      break;
    case absl::StatusCode::kResourceExhausted:
      failure.exit = ExitCode::kInternal;
      failure.code = "disk_full";
      if (absl::StartsWith(status.message(), kTenantLimitPrefix)) {
        failure.exit = ExitCode::kUsage;
        failure.code = "tenant_limit";
      }
      break;
    default:
      failure.exit = ExitCode::kInternal;
      failure.code = "internal";
      break;
  }
  return failure;
}

}  // namespace nightshift
