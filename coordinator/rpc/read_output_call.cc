// ReadOutput: a results or errors file, read from the store while it is sent.
//
// One chunk is read, then written, then the next is read: a client that reads slowly holds up only
// its own call, and memory holds one chunk. With `follow`, a call that has sent all there is waits
// in the notifier until the job has changed. As in WatchJob, exactly one of these is true at any
// moment: a step is queued or runs, a write is under way, or a wait is registered.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "coordinator/jobs/output_reader.h"
#include "coordinator/rpc/job_calls.h"
#include "coordinator/rpc/status_mapping.h"

namespace nightshift {
namespace {

constexpr size_t kChunkBytes = size_t{256} << 10;
// How soon after the last lines a follower looks for more: lines gather meanwhile.
constexpr absl::Duration kFollowInterval = absl::Milliseconds(100);

class ReadOutputCall final : public grpc::ServerWriteReactor<v1::OutputChunk> {
 public:
  ReadOutputCall(JobCallContext& context, const v1::ReadOutputRequest& request)
      : context_(context), request_(request) {}

  void Begin(std::shared_ptr<ReadOutputCall> self) {
    self_ = std::move(self);
    PostStep();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return PostEnd(absl::CancelledError("the client is gone"));
    PostStep();
  }

  void OnCancel() override {
    ChangeNotifier::WaitId wait = 0;
    {
      MutexLock lock(&mutex_);
      cancelled_ = true;
      wait = std::exchange(wait_, 0);
    }
    if (wait == 0) return;  // a step or a write is under way and will see it
    context_.notifier.Cancel(wait);
    PostEnd(absl::CancelledError("the client is gone"));
  }

  void OnDone() override { const std::shared_ptr<ReadOutputCall> last = std::move(self_); }

 private:
  void PostStep() {
    context_.streams.Post([self = self_] { self->Step(); });
  }
  // On the pool too: letting go of the reader lets go of what it holds of the store.
  void PostEnd(const absl::Status& status) {
    context_.streams.Post([self = self_, status] { self->End(status); });
  }

  void Woken() {
    {
      MutexLock lock(&mutex_);
      if (std::exchange(wait_, 0) == 0) return;  // OnCancel was quicker
    }
    PostStep();
  }

  void Step() {
    if (Cancelled()) return End(absl::CancelledError("the client is gone"));
    if (context_.stopping) return End(ShuttingDown());
    const JobServiceParts& parts = context_.parts;
    if (reader_ == nullptr) {
      const absl::StatusOr<JobNumber> job = parts.dispatcher->FindJob(request_.job());
      if (!job.ok()) return End(job.status());
      job_ = *job;
      auto reader = OutputReader::Create(*parts.store, *parts.dispatcher, request_);
      if (!reader.ok()) return End(reader.status());
      reader_ = *std::move(reader);
    }
    // The count first: what finishes between the two wakes us at once.
    const uint64_t seen = parts.dispatcher->ChangeCount(job_);
    absl::StatusOr<v1::OutputChunk> chunk = reader_->Next(kChunkBytes);
    if (!chunk.ok()) return End(chunk.status());
    if (chunk->count() > 0 || !chunk->lines().empty()) {
      chunk_ = *std::move(chunk);
      StartWrite(&chunk_);
      return;
    }
    if (reader_->AtEnd() || !request_.follow()) return End(absl::OkStatus());
    if (!WaitForChange(seen)) End(ShuttingDown());
  }

  bool Cancelled() {
    MutexLock lock(&mutex_);
    return cancelled_;
  }

  // False when there will be no more changes.
  bool WaitForChange(uint64_t seen) {
    MutexLock lock(&mutex_);
    if (cancelled_) return false;
    wait_ = context_.notifier.Wait(job_, seen, context_.parts.clock->Now() + kFollowInterval,
                                   [self = self_] { self->Woken(); });
    return wait_ != 0;
  }

  // Called by whoever holds the call's one place, so once.
  void End(const absl::Status& status) {
    reader_.reset();
    Finish(ToGrpcStatus(status));
  }

  JobCallContext& context_;
  const v1::ReadOutputRequest request_;
  std::shared_ptr<ReadOutputCall> self_;

  // Of the one who holds the call's place.
  JobNumber job_ = 0;
  std::unique_ptr<OutputReader> reader_;
  v1::OutputChunk chunk_;

  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  ChangeNotifier::WaitId wait_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

grpc::ServerWriteReactor<v1::OutputChunk>* NewReadOutputCall(JobCallContext& context,
                                                             const v1::ReadOutputRequest& request) {
  auto call = std::make_shared<ReadOutputCall>(context, request);
  ReadOutputCall* const raw = call.get();
  raw->Begin(std::move(call));
  return raw;
}

}  // namespace nightshift
