// Submit: a client streams a job in.
//
// gRPC's threads only carry messages; storing them, which syncs the disk, is done on the pool. One
// message is stored while the next one is read, and no further one is read before that: the
// client's writes wait, and memory holds two messages however fast it sends.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "base/mutex.h"
#include "coordinator/jobs/submission.h"
#include "coordinator/rpc/job_calls.h"
#include "coordinator/rpc/status_mapping.h"

namespace nightshift {
namespace {

class SubmitCall final : public grpc::ServerReadReactor<v1::SubmitMessage> {
 public:
  SubmitCall(JobCallContext& context, Caller caller, v1::SubmitReply* reply)
      : context_(context), caller_(std::move(caller)), reply_(reply) {
    StartRead(&inbound_);
  }

  void OnReadDone(bool ok) override {
    bool post = false;
    {
      MutexLock lock(&mutex_);
      if (finished_) return;
      if (ok) {
        taken_ = std::move(inbound_);
      } else {
        ended_ = true;
      }
      // While a step runs it finds this by itself.
      post = !std::exchange(busy_, true);
    }
    if (post) context_.streams.Post([this] { Step(); });
  }

  void OnCancel() override {}  // the read fails too
  void OnDone() override { delete this; }

 private:
  // One message, on the pool; at most one step is queued or running.
  void Step() {
    std::optional<v1::SubmitMessage> message;
    {
      MutexLock lock(&mutex_);
      std::swap(message, taken_);
      if (message.has_value() && !ended_) StartRead(&inbound_);
    }
    if (!message.has_value()) {
      // Nobody hears this but a client that closed its half in order.
      return End(absl::InvalidArgumentError(
          "the stream ended before the job was sealed; nothing of it was kept"));
    }
    if (context_.stopping) return End(ShuttingDown());
    if (const absl::Status status = Take(std::move(*message)); !status.ok() || sealed_) {
      return End(status);
    }
    {
      MutexLock lock(&mutex_);
      if (!taken_.has_value() && !ended_) {
        busy_ = false;
        return;
      }
    }
    // Behind the others, so that more submissions than threads share them.
    context_.streams.Post([this] { Step(); });
  }

  absl::Status Take(v1::SubmitMessage message) {
    const JobServiceParts& parts = context_.parts;
    switch (message.kind_case()) {
      case v1::SubmitMessage::kBegin: {
        if (submission_ != nullptr) return absl::InvalidArgumentError("a job has one beginning");
        auto made =
            Submission::Begin(*parts.store, *parts.committer, *parts.dispatcher, *parts.clock,
                              message.begin(), parts.temporary_dir, {.tenant = caller_.tenant});
        if (!made.ok()) return made.status();
        submission_ = *std::move(made);
        return absl::OkStatus();
      }
      case v1::SubmitMessage::kRequests:
        if (submission_ == nullptr) break;
        return submission_->Add(std::move(*message.mutable_requests()));
      case v1::SubmitMessage::kSeal: {
        if (submission_ == nullptr) break;
        v1::SubmitSeal seal = message.seal();
        if (absl::StrContains(seal.idempotency_token(), kTenantMark)) {
          return absl::InvalidArgumentError("an idempotency token has no control characters");
        }
        seal.set_idempotency_token(TenantToken(caller_, seal.idempotency_token()));
        absl::StatusOr<v1::SubmitReply> reply = submission_->Seal(seal);
        if (!reply.ok()) return reply.status();
        *reply_ = *std::move(reply);
        sealed_ = true;
        return absl::OkStatus();
      }
      case v1::SubmitMessage::KIND_NOT_SET:
        return absl::InvalidArgumentError(
            "a message of a kind that this coordinator does not know");
    }
    return absl::InvalidArgumentError("the first message must say how the job begins");
  }

  void End(const absl::Status& status) {
    // Before the client hears of it: what it left behind is gone by then.
    submission_.reset();
    {
      MutexLock lock(&mutex_);
      finished_ = true;
    }
    Finish(ToGrpcStatus(status));  // `this` may be gone from here on
  }

  JobCallContext& context_;
  const Caller caller_;
  v1::SubmitReply* const reply_;  // gRPC's, until Finish

  // The step's.
  std::unique_ptr<Submission> submission_;
  bool sealed_ = false;

  v1::SubmitMessage inbound_;  // gRPC's while a read is under way

  Mutex mutex_;
  std::optional<v1::SubmitMessage> taken_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerReadReactor<v1::SubmitMessage>* NewSubmitCall(JobCallContext& context, Caller caller,
                                                          v1::SubmitReply* reply) {
  return new SubmitCall(context, std::move(caller), reply);
}

}  // namespace nightshift
