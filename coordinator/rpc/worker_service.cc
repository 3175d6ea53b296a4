#include "coordinator/rpc/worker_service.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "coordinator/rpc/refused_call.h"
#include "coordinator/rpc/status_mapping.h"
#include "nightshift/v1/worker.grpc.pb.h"

namespace nightshift {
namespace {

using BidiReactor = grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>;

// One worker's stream. gRPC calls the On… reactions, one at a time for each kind; other threads
// call the WorkerStream half. It holds itself until OnDone, which comes last and alone.
//
// The end: a read that fails (it always comes: one is outstanding from the first message to the
// end) or an orderly wish sets `finish_`; Finish follows, once, when no write is under way.
class Stream final : public BidiReactor, public WorkerStream {
 public:
  Stream(const WorkerServiceParts& parts, grpc::CallbackServerContext* context)
      : parts_(parts), context_(context) {}

  void Begin(std::shared_ptr<Stream> self) {
    self_ = std::move(self);
    // Tells the worker that it has been let in: it sends its Hello, and what it holds, only then.
    StartSendInitialMetadata();
    StartRead(&inbound_);
  }

  // --- WorkerStream ----------------------------------------------------------------------------
  Offer Send(v1::CoordinatorMessage&& message, size_t bytes, bool unless_full) override {
    bool write = false;
    {
      MutexLock lock(&mutex_);
      if (closed_ || finish_.has_value()) return Offer::kClosed;
      if (unless_full && queued_bytes_ > kOutboundBytesMax) {
        was_full_ = true;
        return Offer::kFull;
      }
      if (queued_bytes_ > kOutboundBytesCancel) {
        CancelLocked("too much waits to be read at its other end");
        return Offer::kClosed;
      }
      queue_.push_back({std::move(message), bytes});
      queued_bytes_ += bytes;
      write = TakeNextLocked();
    }
    if (write) StartWrite(&writing_.message);
    return Offer::kQueued;
  }

  Offer Room() const override {
    MutexLock lock(&mutex_);
    if (closed_ || finish_.has_value()) return Offer::kClosed;
    if (queued_bytes_ <= kOutboundBytesMax) return Offer::kQueued;
    was_full_ = true;
    return Offer::kFull;
  }

  void Cancel(absl::string_view why) override {
    MutexLock lock(&mutex_);
    CancelLocked(why);
  }

  void FinishWhenWritten(absl::Status status) override {
    MutexLock lock(&mutex_);
    WantFinishLocked(std::move(status));
  }

  absl::Duration WritingFor(MonotonicTime now) const override {
    MutexLock lock(&mutex_);
    return is_writing_ && !closed_ ? now - write_started_ : absl::ZeroDuration();
  }

  // --- reactions -------------------------------------------------------------------------------
  void OnReadDone(bool ok) override {
    if (!ok) {
      if (greeted_) parts_.streams->Close(worker_, this);
      MutexLock lock(&mutex_);
      // The worker has closed its half in order, or the stream is broken: then writes fail too, or
      // OnCancel says so.
      WantFinishLocked(absl::OkStatus());
      return;
    }
    if (!greeted_) {
      if (!TakeHello()) return;
    } else if (!TakeMessage()) {
      return;
    }
    inbound_.Clear();
    StartRead(&inbound_);
  }

  void OnWriteDone(bool ok) override {
    bool write = false;
    bool room = false;
    {
      MutexLock lock(&mutex_);
      is_writing_ = false;
      queued_bytes_ -= writing_.bytes;
      writing_ = Queued();
      if (!ok) CloseLocked();
      if (was_full_ && queued_bytes_ <= kOutboundBytesMax / 2) {
        was_full_ = false;
        room = true;
      }
      write = TakeNextLocked();
      if (!write) MaybeFinishLocked();
    }
    if (write) StartWrite(&writing_.message);
    if (room) parts_.on_room();
  }

  void OnCancel() override {
    MutexLock lock(&mutex_);
    CloseLocked();
    WantFinishLocked(absl::CancelledError("the stream was cancelled"));
  }

  void OnDone() override {
    std::shared_ptr<Stream> last;
    MutexLock lock(&mutex_);
    closed_ = true;
    context_ = nullptr;
    last = std::move(self_);
  }

 private:
  struct Queued {
    v1::CoordinatorMessage message;
    size_t bytes = 0;
  };

  // False: no more reads.
  bool TakeHello() {
    absl::Status refused;
    if (inbound_.kind_case() != v1::WorkerMessage::kHello) {
      refused = absl::InvalidArgumentError("the first message of a stream must be a Hello");
    } else if (inbound_.hello().session().empty()) {
      refused = absl::InvalidArgumentError("the Hello names no session");
    } else {
      const absl::StatusOr<WorkerNumber> worker = parts_.streams->Open(inbound_.hello(), self_);
      if (worker.ok()) {
        worker_ = *worker;
        greeted_ = true;
        return true;
      }
      refused = worker.status();
    }
    LogWarning("a worker was refused: ", refused.message());
    if (!absl::IsUnavailable(refused)) {
      v1::CoordinatorMessage message;
      message.mutable_refuse()->set_why(std::string(refused.message()));
      Send(std::move(message), refused.message().size(), /*unless_full=*/false);
    }
    FinishWhenWritten(refused);
    return false;
  }

  bool TakeMessage() {
    switch (inbound_.kind_case()) {
      case v1::WorkerMessage::kReport:
        parts_.streams->Report(worker_, this, inbound_.report());
        return true;
      case v1::WorkerMessage::kResults:
        // Also from a stream that has been replaced: an answer is an answer.
        parts_.committer->AddResults(worker_, std::move(*inbound_.mutable_results()));
        return true;
      case v1::WorkerMessage::kReturned:
        parts_.streams->Returned(worker_, this, inbound_.returned());
        return true;
      case v1::WorkerMessage::kDrain:
        parts_.streams->Drain(worker_, this, inbound_.drain());
        return true;
      case v1::WorkerMessage::kHello:
        break;
      case v1::WorkerMessage::KIND_NOT_SET:
        return true;  // of a newer worker
    }
    parts_.streams->Close(worker_, this);
    FinishWhenWritten(absl::InvalidArgumentError("a stream has one Hello"));
    return false;
  }

  // True: the caller starts the write of `writing_`, outside the lock. Nobody finishes the stream
  // before that write is done.
  bool TakeNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (is_writing_ || closed_ || finished_ || queue_.empty()) return false;
    writing_ = std::move(queue_.front());
    queue_.pop_front();
    is_writing_ = true;
    write_started_ = parts_.clock->Now();
    return true;
  }

  void CloseLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    closed_ = true;
    for (const Queued& dropped : queue_) queued_bytes_ -= dropped.bytes;
    queue_.clear();
  }

  void CancelLocked(absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (closed_) return;
    LogDebug("a worker's stream is cancelled: ", why);
    CloseLocked();
    context_->TryCancel();  // OnCancel and the failing read do the rest
  }

  void WantFinishLocked(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!finish_.has_value()) finish_ = std::move(status);
    MaybeFinishLocked();
  }

  void MaybeFinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!finish_.has_value() || finished_ || is_writing_ || !queue_.empty()) return;
    finished_ = true;
    Finish(ToGrpcStatus(*finish_));
  }

  const WorkerServiceParts& parts_;

  // Reactions of reads only, which come one at a time.
  v1::WorkerMessage inbound_;
  bool greeted_ = false;
  WorkerNumber worker_ = 0;

  mutable Mutex mutex_;
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);  // null after OnDone
  std::shared_ptr<Stream> self_;  // set before the first reaction, released by the last
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of `queue_` and `writing_`
  mutable bool was_full_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  MonotonicTime write_started_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more can be sent
  std::optional<absl::Status> finish_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // Whoever set `is_writing_` owns it until the write has started, gRPC until OnWriteDone.
  Queued writing_;
};

class WorkerService final : public v1::WorkerService::CallbackService {
 public:
  explicit WorkerService(WorkerServiceParts parts) : parts_(std::move(parts)) {}

  BidiReactor* Connect(grpc::CallbackServerContext* context) override {
    const absl::StatusOr<Caller> caller = parts_.token->Admit(*context, Role::kWorker);
    if (!caller.ok()) return new RefusedCall<BidiReactor>(caller.status());
    auto stream = std::make_shared<Stream>(parts_, context);
    Stream* const raw = stream.get();
    raw->Begin(std::move(stream));
    return raw;
  }

 private:
  const WorkerServiceParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewWorkerService(WorkerServiceParts parts) {
  return std::make_unique<WorkerService>(std::move(parts));
}

}  // namespace nightshift
