#include "client/rpc/job_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "nightshift/v1/jobs.grpc.pb.h"

namespace nightshift {
namespace {

// Of calls that are answered from memory. Control waits for a commit and `retry` for many, streams
// take as long as the job: those have none, and keepalive notices when the other end is dead.
constexpr absl::Duration kQuickCallMax = absl::Seconds(30);

constexpr int kPageSize = 1000;

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

void AddToken(const std::string& token, grpc::ClientContext* context) {
  if (!token.empty()) context->AddMetadata("authorization", absl::StrCat("Bearer ", token));
}

class SubmitStreamImpl final : public SubmitStream {
 public:
  SubmitStreamImpl(v1::JobService::Stub& stub, const std::string& token,
                   const v1::SubmitBegin& begin) {
    AddToken(token, &context_);
    writer_ = stub.Submit(&context_, &reply_);
    v1::SubmitMessage message;
    *message.mutable_begin() = begin;
    Send(message).IgnoreError();  // kept, and told by the next call
  }

  ~SubmitStreamImpl() override {
    if (ended_) return;
    context_.TryCancel();
    writer_->Finish();
  }

  absl::Status Write(v1::SubmitRequests requests) override {
    v1::SubmitMessage message;
    *message.mutable_requests() = std::move(requests);
    return Send(message);
  }

  absl::StatusOr<v1::SubmitReply> Seal(const v1::SubmitSeal& seal) override {
    v1::SubmitMessage message;
    *message.mutable_seal() = seal;
    RETURN_IF_ERROR(Send(message));
    writer_->WritesDone();
    RETURN_IF_ERROR(End());
    return std::move(reply_);
  }

  void Cancel() override { context_.TryCancel(); }

 private:
  absl::Status Send(const v1::SubmitMessage& message) {
    if (ended_)
      return end_status_.ok() ? absl::FailedPreconditionError("the job is sealed") : end_status_;
    if (writer_->Write(message)) return absl::OkStatus();
    // The coordinator has ended the stream; why, it says now.
    const absl::Status status = End();
    return status.ok() ? absl::InternalError("the coordinator ended the submission early") : status;
  }

  absl::Status End() {
    ended_ = true;
    end_status_ = FromGrpcStatus(writer_->Finish());
    return end_status_;
  }

  grpc::ClientContext context_;
  v1::SubmitReply reply_;
  std::unique_ptr<grpc::ClientWriter<v1::SubmitMessage>> writer_;
  bool ended_ = false;
  absl::Status end_status_;
};

template <typename Message>
class MessageStreamImpl final : public MessageStream<Message> {
 public:
  // `open` starts the call with the context that it is given.
  template <typename Open>
  MessageStreamImpl(const std::string& token, Open open) {
    AddToken(token, &context_);
    reader_ = open(&context_);
  }

  ~MessageStreamImpl() override {
    if (ended_) return;
    context_.TryCancel();
    reader_->Finish();
  }

  absl::StatusOr<std::optional<Message>> Next() override {
    Message message;
    if (!ended_) {
      if (reader_->Read(&message)) return std::optional<Message>(std::move(message));
      ended_ = true;
      end_status_ = FromGrpcStatus(reader_->Finish());
    }
    if (!end_status_.ok()) return end_status_;
    return std::optional<Message>();
  }

  void Cancel() override { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<Message>> reader_;
  bool ended_ = false;
  absl::Status end_status_;
};

}  // namespace

struct JobClient::Impl {
  // One unary call: `call` is the stub's method.
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Call(grpc::Status (v1::JobService::Stub::*call)(grpc::ClientContext*,
                                                                        const Request&, Reply*),
                             const Request& request, absl::Duration timeout) {
    grpc::ClientContext context;
    AddToken(token, &context);
    if (timeout != absl::InfiniteDuration()) {
      context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
    }
    Reply reply;
    RETURN_IF_ERROR(FromGrpcStatus(((*stub).*call)(&context, request, &reply)));
    return reply;
  }

  const std::unique_ptr<v1::JobService::Stub> stub;
  const std::string token;
};

JobClient::JobClient(std::shared_ptr<grpc::Channel> channel, std::string token)
    : impl_(new Impl{v1::JobService::NewStub(std::move(channel)), std::move(token)}) {}

JobClient::~JobClient() = default;

std::unique_ptr<SubmitStream> JobClient::Submit(const v1::SubmitBegin& begin) {
  return std::make_unique<SubmitStreamImpl>(*impl_->stub, impl_->token, begin);
}

absl::StatusOr<v1::JobStatus> JobClient::FindJob(const std::string& idempotency_token) {
  v1::FindJobRequest request;
  request.set_idempotency_token(idempotency_token);
  return impl_->Call(&v1::JobService::Stub::FindJob, request, kQuickCallMax);
}

absl::StatusOr<v1::JobStatus> JobClient::GetJob(const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  return impl_->Call(&v1::JobService::Stub::GetJob, request, kQuickCallMax);
}

absl::StatusOr<v1::ListJobsReply> JobClient::ListJobs(const std::string& after, int limit) {
  v1::ListJobsRequest request;
  request.set_after(after);
  request.set_limit(limit);
  return impl_->Call(&v1::JobService::Stub::ListJobs, request, kQuickCallMax);
}

absl::StatusOr<std::vector<v1::JobStatus>> JobClient::ListAllJobs() {
  std::vector<v1::JobStatus> jobs;
  for (;;) {
    ASSIGN_OR_RETURN(v1::ListJobsReply page,
                     ListJobs(jobs.empty() ? std::string() : jobs.back().id(), kPageSize));
    for (v1::JobStatus& job : *page.mutable_jobs()) jobs.push_back(std::move(job));
    if (!page.more() || page.jobs_size() == 0) return jobs;
  }
}

std::unique_ptr<WatchStream> JobClient::Watch(const v1::WatchJobRequest& request) {
  return std::make_unique<MessageStreamImpl<v1::JobStatus>>(
      impl_->token, [this, &request](grpc::ClientContext* context) {
        return impl_->stub->WatchJob(context, request);
      });
}

absl::StatusOr<v1::JobStatus> JobClient::Control(const v1::ControlJobRequest& request) {
  return impl_->Call(&v1::JobService::Stub::ControlJob, request, absl::InfiniteDuration());
}

absl::StatusOr<v1::JobStatus> JobClient::Control(const std::string& job,
                                                 v1::ControlJobRequest::Action action) {
  v1::ControlJobRequest request;
  request.set_job(job);
  request.set_action(action);
  return Control(request);
}

std::unique_ptr<OutputStream> JobClient::ReadOutput(const v1::ReadOutputRequest& request) {
  return std::make_unique<MessageStreamImpl<v1::OutputChunk>>(
      impl_->token, [this, &request](grpc::ClientContext* context) {
        return impl_->stub->ReadOutput(context, request);
      });
}

absl::StatusOr<std::vector<v1::WorkerStatus>> JobClient::ListWorkers() {
  ASSIGN_OR_RETURN(
      v1::ListWorkersReply reply,
      impl_->Call(&v1::JobService::Stub::ListWorkers, v1::ListWorkersRequest(), kQuickCallMax));
  return std::vector<v1::WorkerStatus>(std::make_move_iterator(reply.mutable_workers()->begin()),
                                       std::make_move_iterator(reply.mutable_workers()->end()));
}

absl::StatusOr<v1::AuditReply> JobClient::Audit(const std::string& job) {
  v1::AuditRequest request;
  request.set_job(job);
  return impl_->Call(&v1::JobService::Stub::Audit, request, absl::InfiniteDuration());
}

absl::StatusOr<v1::CreateBackupReply> JobClient::CreateBackup(
    const v1::CreateBackupRequest& request) {
  return impl_->Call(&v1::JobService::Stub::CreateBackup, request, absl::InfiniteDuration());
}

absl::StatusOr<v1::ListBackupsReply> JobClient::ListBackups(const v1::ListBackupsRequest& request) {
  return impl_->Call(&v1::JobService::Stub::ListBackups, request, kQuickCallMax);
}

}  // namespace nightshift
