// The streaming calls of the job service. Each object is one call: gRPC drives it, it works on the
// service's threads, and it releases itself with its last reaction (OnDone).
//
// Locks: each call has one, taken before the dispatcher's and the notifier's, never held while
// something blocks.
#ifndef NIGHTSHIFT_COORDINATOR_RPC_JOB_CALLS_H_
#define NIGHTSHIFT_COORDINATOR_RPC_JOB_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "coordinator/rpc/change_notifier.h"
#include "coordinator/rpc/job_service.h"
#include "coordinator/rpc/task_pool.h"
#include "nightshift/v1/jobs.pb.h"

namespace nightshift {

// What the calls share; outlives them.
struct JobCallContext {
  JobCallContext(JobServiceParts parts_, int stream_threads);

  const JobServiceParts parts;
  TaskPool streams;  // steps of Submit and ReadOutput: a message or a chunk each
  ChangeNotifier notifier;
  std::atomic<bool> stopping{false};
};

absl::Status ShuttingDown();

// Between a tenant and the token of one of its jobs; in no token itself.
inline constexpr char kTenantMark = '\x1f';

// The idempotency token as it is kept: tenants that choose the same one have different jobs.
std::string TenantToken(const Caller& caller, const std::string& token);

grpc::ServerReadReactor<v1::SubmitMessage>* NewSubmitCall(JobCallContext& context, Caller caller,
                                                          v1::SubmitReply* reply);
// Of these two the request names a job by its whole id, one that the caller may read.
grpc::ServerWriteReactor<v1::JobStatus>* NewWatchCall(JobCallContext& context,
                                                      const v1::WatchJobRequest& request);
grpc::ServerWriteReactor<v1::OutputChunk>* NewReadOutputCall(JobCallContext& context,
                                                             const v1::ReadOutputRequest& request);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_RPC_JOB_CALLS_H_
