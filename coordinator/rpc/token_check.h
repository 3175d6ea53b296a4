// Who makes a call, and whether it may: the token in its metadata, what its role is for, its
// tenant's rate, and for workers their certificate. One per server, shared by the services.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_RPC_TOKEN_CHECK_H_
#define NIGHTSHIFT_COORDINATOR_RPC_TOKEN_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/access/access.h"

namespace grpc {
class CallbackServerContext;
}

namespace nightshift {

class TokenCheck {
 public:
  // Both must outlive it. `worker_certificates`: a worker must have shown a certificate that the
  // server verified.
  TokenCheck(const Access& access, bool worker_certificates, Clock& clock);

  // The caller, when its `authorization` metadata is "Bearer TOKEN" with one that may do what
  // `needed` is for. Unauthenticated or PermissionDenied with what to do about it;
  // ResourceExhausted when its tenant makes too many calls. Refusals are logged, at most one line
  // every ten seconds: a forgotten script that tries again for ever must not fill the disk.
  absl::StatusOr<Caller> Admit(const grpc::CallbackServerContext& context, Role needed) const;

  const Access& access() const { return access_; }

 private:
  absl::StatusOr<Caller> Decide(const grpc::CallbackServerContext& context, Role needed) const;

  const Access& access_;
  const bool worker_certificates_;
  Clock& clock_;
  mutable Mutex mutex_;
  mutable MonotonicTime next_line_ ABSL_GUARDED_BY(mutex_);
  mutable int64_t unlogged_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_RPC_TOKEN_CHECK_H_
