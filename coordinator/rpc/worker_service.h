// The gRPC service that workers connect to: turns each stream's messages into calls, and decides
// nothing. Results go to the committer, everything else through WorkerStreams to the dispatcher.
//
// Thread-safe. Must outlive the server it is registered with; what it refers to must outlive it.
#ifndef NIGHTSHIFT_COORDINATOR_RPC_WORKER_SERVICE_H_
#define NIGHTSHIFT_COORDINATOR_RPC_WORKER_SERVICE_H_

#include <functional>
#include <memory>

#include "base/clock.h"
#include "coordinator/commit/committer.h"
#include "coordinator/rpc/token_check.h"
#include "coordinator/rpc/worker_streams.h"

namespace grpc {
class Service;
}

namespace nightshift {

struct WorkerServiceParts {
  WorkerStreams* streams;
  Committer* committer;
  const TokenCheck* token;
  Clock* clock;
  // A stream that refused a lease for being full has room again.
  std::function<void()> on_room;
};

std::unique_ptr<grpc::Service> NewWorkerService(WorkerServiceParts parts);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_RPC_WORKER_SERVICE_H_
