#include "coordinator/rpc/token_check.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/constant_time.h"
#include "base/log.h"

namespace nightshift {
namespace {

constexpr absl::Duration kLineInterval = absl::Seconds(10);

}  // namespace

TokenCheck::TokenCheck(std::string token, Clock& clock)
    : token_(std::move(token)), clock_(clock), next_line_(clock.Now()) {}

absl::Status TokenCheck::Check(const grpc::CallbackServerContext& context) const {
  absl::Status status = Compare(context);
  if (status.ok()) return status;
  MutexLock lock(&mutex_);
  const MonotonicTime now = clock_.Now();
  if (now < next_line_) {
    ++unlogged_;
    return status;
  }
  next_line_ = now + kLineInterval;
  LogWarning(
      "a call from ", context.peer(), " was refused: ", status.message(),
      unlogged_ > 0 ? absl::StrCat(" (and ", unlogged_, " more since the last such line)") : "");
  unlogged_ = 0;
  return status;
}

absl::Status TokenCheck::Compare(const grpc::CallbackServerContext& context) const {
  if (token_.empty()) return absl::OkStatus();
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end()) {
    return absl::UnauthenticatedError(
        "this coordinator asks for a token and the call carries none; give the one it was started "
        "with: --token-file FILE");
  }
  absl::string_view value(found->second.data(), found->second.size());
  if (!absl::ConsumePrefix(&value, "Bearer ") || !EqualInConstantTime(value, token_)) {
    return absl::UnauthenticatedError(
        "the token is not the one this coordinator was started with; check the file given with "
        "--token-file on both sides");
  }
  return absl::OkStatus();
}

}  // namespace nightshift
