// The job service as a client uses it: plain calls that block and return a status.
//
// JobClient is thread-safe. The streams it makes belong to one thread each, except for Cancel().
// A stream must not outlive its client.
//
// Codes are the coordinator's own (jobs.proto), and besides: Unavailable when it cannot be reached
// or goes away, Unauthenticated when it asks for another token, Cancelled after Cancel().
#ifndef NIGHTSHIFT_CLIENT_RPC_JOB_CLIENT_H_
#define NIGHTSHIFT_CLIENT_RPC_JOB_CLIENT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nightshift/v1/jobs.pb.h"

namespace grpc {
class Channel;
}

namespace nightshift {

// A job on its way in. First Write after Begin, last Seal; to give up, just destroy it.
class SubmitStream {
 public:
  virtual ~SubmitStream() = default;
  // Blocks while the coordinator is behind. After an error the job is lost and every further call
  // returns the same.
  virtual absl::Status Write(v1::SubmitRequests requests) = 0;
  // Blocks until the job is durable, found or refused.
  virtual absl::StatusOr<v1::SubmitReply> Seal(const v1::SubmitSeal& seal) = 0;
  virtual void Cancel() = 0;  // from any thread
};

// Messages that come until there are no more.
template <typename Message>
class MessageStream {
 public:
  virtual ~MessageStream() = default;
  // Blocks for the next one. nullopt at the orderly end.
  virtual absl::StatusOr<std::optional<Message>> Next() = 0;
  virtual void Cancel() = 0;  // from any thread
};
using WatchStream = MessageStream<v1::JobStatus>;
using OutputStream = MessageStream<v1::OutputChunk>;

class JobClient {
 public:
  // `token` empty: none is sent.
  JobClient(std::shared_ptr<grpc::Channel> channel, std::string token);
  ~JobClient();

  std::unique_ptr<SubmitStream> Submit(const v1::SubmitBegin& begin);
  absl::StatusOr<v1::JobStatus> FindJob(const std::string& idempotency_token);
  absl::StatusOr<v1::JobStatus> GetJob(const std::string& job);
  // One page, newest first; `after` is the id that the page before ended with, empty at first.
  absl::StatusOr<v1::ListJobsReply> ListJobs(const std::string& after, int limit);
  // All pages.
  absl::StatusOr<std::vector<v1::JobStatus>> ListAllJobs();
  // Ends after the job's terminal status.
  std::unique_ptr<WatchStream> Watch(const v1::WatchJobRequest& request);
  absl::StatusOr<v1::JobStatus> Control(const v1::ControlJobRequest& request);
  absl::StatusOr<v1::JobStatus> Control(const std::string& job,
                                        v1::ControlJobRequest::Action action);
  std::unique_ptr<OutputStream> ReadOutput(const v1::ReadOutputRequest& request);
  absl::StatusOr<std::vector<v1::WorkerStatus>> ListWorkers();
  // `job` empty: all.
  absl::StatusOr<v1::AuditReply> Audit(const std::string& job);
  absl::StatusOr<v1::CreateBackupReply> CreateBackup(const v1::CreateBackupRequest& request);
  absl::StatusOr<v1::ListBackupsReply> ListBackups(const v1::ListBackupsRequest& request);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_RPC_JOB_CLIENT_H_
