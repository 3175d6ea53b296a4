// WatchJob: the status now, then after each change but at most once per interval, last the terminal
// one.
//
// Between two messages the call only waits in the notifier. Exactly one of these is true at any
// moment: a write is under way, a wait is registered, or Step runs.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "coordinator/core/job_state.h"
#include "coordinator/rpc/job_calls.h"
#include "coordinator/rpc/status_mapping.h"

namespace nightshift {
namespace {

constexpr absl::Duration kIntervalDefault = absl::Seconds(1);
// A client may ask for more often, but not to be flooded.
constexpr absl::Duration kIntervalMin = absl::Milliseconds(20);

class WatchCall final : public grpc::ServerWriteReactor<v1::JobStatus> {
 public:
  WatchCall(JobCallContext& context, const v1::WatchJobRequest& request)
      : context_(context),
        interval_(request.interval_ms() <= 0
                      ? kIntervalDefault
                      : std::max(kIntervalMin, absl::Milliseconds(request.interval_ms()))) {}

  void Begin(std::shared_ptr<WatchCall> self, const std::string& job) {
    self_ = std::move(self);
    const absl::StatusOr<JobNumber> number = context_.parts.dispatcher->FindJob(job);
    if (!number.ok()) return End(number.status());
    job_ = *number;
    Step();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::CancelledError("the client is gone"));
    if (JobStateInfo(status_.state()).terminal) return End(absl::OkStatus());
    bool wait = false;
    {
      MutexLock lock(&mutex_);
      if (!cancelled_) {
        const std::shared_ptr<WatchCall> self = self_;
        wait_ =
            context_.notifier.Wait(job_, seen_, sent_at_ + interval_, [self] { self->Woken(); });
        wait = wait_ != 0;
      }
    }
    if (!wait) End(ShuttingDown());
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
    End(absl::CancelledError("the client is gone"));
  }

  void OnDone() override { const std::shared_ptr<WatchCall> last = std::move(self_); }

 private:
  void Woken() {
    {
      MutexLock lock(&mutex_);
      // OnCancel was quicker and has taken over the wait's place.
      if (std::exchange(wait_, 0) == 0) return;
    }
    Step();
  }

  void Step() {
    if (context_.stopping) return End(ShuttingDown());
    const MonotonicTime now = context_.parts.clock->Now();
    // The count first: what changes between the two is told once more, not lost.
    seen_ = context_.parts.dispatcher->ChangeCount(job_);
    absl::StatusOr<v1::JobStatus> status = context_.parts.dispatcher->GetStatus(job_, now);
    if (!status.ok()) return End(status.status());
    status_ = *std::move(status);
    sent_at_ = now;
    StartWrite(&status_);
  }

  // Called by whoever holds the call's one place, so once.
  void End(const absl::Status& status) { Finish(ToGrpcStatus(status)); }

  JobCallContext& context_;
  const absl::Duration interval_;
  std::shared_ptr<WatchCall> self_;
  JobNumber job_ = 0;

  // Of the one who holds the call's place.
  uint64_t seen_ = 0;
  MonotonicTime sent_at_;
  v1::JobStatus status_;

  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  ChangeNotifier::WaitId wait_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

grpc::ServerWriteReactor<v1::JobStatus>* NewWatchCall(JobCallContext& context,
                                                      const v1::WatchJobRequest& request) {
  auto call = std::make_shared<WatchCall>(context, request);
  WatchCall* const raw = call.get();
  raw->Begin(std::move(call), request.job());
  return raw;
}

}  // namespace nightshift
