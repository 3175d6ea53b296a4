// absl::Status as gRPC sends it. Used by the services; the client has the way back.
#ifndef NIGHTSHIFT_COORDINATOR_RPC_STATUS_MAPPING_H_
#define NIGHTSHIFT_COORDINATOR_RPC_STATUS_MAPPING_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace nightshift {

// The codes are the same numbers. A text of more than 2,000 bytes is cut, since it travels in a
// header and a header that is too large loses the whole status.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_RPC_STATUS_MAPPING_H_
