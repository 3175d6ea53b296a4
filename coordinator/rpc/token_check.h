// Whether a call carries the token that the operator set. One per server, shared by the services.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_RPC_TOKEN_CHECK_H_
#define NIGHTSHIFT_COORDINATOR_RPC_TOKEN_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace grpc {
class CallbackServerContext;
}

namespace nightshift {

class TokenCheck {
 public:
  // Empty: every call is let in. The clock must outlive it.
  TokenCheck(std::string token, Clock& clock);

  // Unauthenticated, with what to do about it, unless the call's `authorization` metadata is
  // "Bearer TOKEN". Refusals are logged, at most one line every ten seconds: a forgotten script
  // that tries again for ever must not fill the disk.
  absl::Status Check(const grpc::CallbackServerContext& context) const;

 private:
  absl::Status Compare(const grpc::CallbackServerContext& context) const;

  const std::string token_;
  Clock& clock_;
  mutable Mutex mutex_;
  mutable MonotonicTime next_line_ ABSL_GUARDED_BY(mutex_);
  mutable int64_t unlogged_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_RPC_TOKEN_CHECK_H_
