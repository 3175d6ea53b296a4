// The gRPC service that clients talk to: hands calls on to what decides (dispatcher, committer,
// submission, output reader, audit) and turns their statuses into gRPC's, one to one.
//
// Thread-safe. Must outlive the server it is registered with; what it refers to must outlive it.
#ifndef NIGHTSHIFT_COORDINATOR_RPC_JOB_SERVICE_H_
#define NIGHTSHIFT_COORDINATOR_RPC_JOB_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "coordinator/commit/committer.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/rpc/token_check.h"
#include "nightshift/v1/jobs.pb.h"
#include "storage/store.h"

namespace grpc {
class Service;
}

namespace nightshift {

struct JobServiceParts {
  Store* store;
  Dispatcher* dispatcher;
  Committer* committer;
  const TokenCheck* token;
  Clock* clock;
  std::string temporary_dir;  // of submissions
  // Run on a thread of their own; unset: there are no backups (Unimplemented). `go_on` tells
  // whether anybody still wants it.
  std::function<absl::StatusOr<v1::CreateBackupReply>(const v1::CreateBackupRequest& request,
                                                      std::function<absl::Status()> go_on)>
      create_backup = {};
  std::function<absl::StatusOr<v1::ListBackupsReply>(const v1::ListBackupsRequest& request)>
      list_backups = {};
};

class JobService {
 public:
  static std::unique_ptr<JobService> Create(JobServiceParts parts);
  virtual ~JobService() = default;

  virtual grpc::Service& service() = 0;
  // Something about a job may have changed: who follows it is told. Cheap, any thread.
  virtual void Wake() = 0;
  // New calls are refused with Unavailable; calls that follow something end with it, others at
  // their next step.
  virtual void BeginShutdown() = 0;
  // Waits for the last task; call when the server has ended.
  virtual void Shutdown() = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_RPC_JOB_SERVICE_H_
