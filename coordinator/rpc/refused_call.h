// A call that is answered with a status at once, whatever its kind.
#ifndef NIGHTSHIFT_COORDINATOR_RPC_REFUSED_CALL_H_
#define NIGHTSHIFT_COORDINATOR_RPC_REFUSED_CALL_H_

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/status/status.h"
#include "coordinator/rpc/status_mapping.h"

namespace nightshift {

// `Reactor` is one of gRPC's server reactors. Deletes itself.
template <typename Reactor>
class RefusedCall final : public Reactor {
 public:
  explicit RefusedCall(const absl::Status& status) { this->Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_RPC_REFUSED_CALL_H_
