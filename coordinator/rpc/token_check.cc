#include "coordinator/rpc/token_check.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr absl::Duration kLineInterval = absl::Seconds(10);

}  // namespace

TokenCheck::TokenCheck(const Access& access, bool worker_certificates, Clock& clock)
    : access_(access),
      worker_certificates_(worker_certificates),
      clock_(clock),
      next_line_(clock.Now()) {}

absl::StatusOr<Caller> TokenCheck::Admit(const grpc::CallbackServerContext& context,
                                         Role needed) const {
  absl::StatusOr<Caller> caller = Decide(context, needed);
  if (caller.ok()) {
    const absl::Duration wait = access_.Throttle(*caller);
    if (wait == absl::ZeroDuration()) return caller;
    return TenantLimitError("too many calls.", wait);
  }
  MutexLock lock(&mutex_);
  const MonotonicTime now = clock_.Now();
  if (now < next_line_) {
    ++unlogged_;
    return caller;
  }
  next_line_ = now + kLineInterval;
  LogWarning(
      "a call from ", context.peer(), " was refused: ", caller.status().message(),
      unlogged_ > 0 ? absl::StrCat(" (and ", unlogged_, " more since the last such line)") : "");
  unlogged_ = 0;
  return caller;
}

absl::StatusOr<Caller> TokenCheck::Decide(const grpc::CallbackServerContext& context,
                                          Role needed) const {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  absl::string_view token;
  if (found != metadata.end()) {
    token = absl::string_view(found->second.data(), found->second.size());
    if (!absl::ConsumePrefix(&token, "Bearer ")) token = "";
  }
  ASSIGN_OR_RETURN(Caller caller, access_.Admit(token));
  if (!caller.May(needed)) {
    return absl::PermissionDeniedError(absl::StrCat("a token of the role ", RoleWord(caller.role),
                                                    " may not do this; one of the role ",
                                                    RoleWord(needed), " may"));
  }
  if (needed == Role::kWorker && worker_certificates_ &&
      !context.auth_context()->IsPeerAuthenticated()) {
    return absl::UnauthenticatedError(
        "this coordinator asks workers for a certificate: --tls-cert FILE and --tls-key FILE, "
        "signed "
        "by what it was given with --tls-client-ca");
  }
  return caller;
}

}  // namespace nightshift
