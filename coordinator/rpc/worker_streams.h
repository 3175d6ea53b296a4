// Which worker is on which stream. Everything that the dispatcher hears about streams, and
// everything that goes down one, passes through here; the gRPC reactor only reads and writes.
//
// A worker that reconnects opens a new stream while the old one may not know yet that it is dead.
// What the dispatcher hears must still be in an order that makes sense: a message or the end of an
// old stream that comes late must not be taken for the new one's. So those calls are made under one
// mutex, and only for the stream that is the worker's present one.
//
// Thread-safe. Locks: order_mutex_ before mutex_, both before those of a Stream and of the
// dispatcher, which calls its wake-up with none of its own held; order_mutex_ before those that
// `on_hello` takes.
#ifndef NIGHTSHIFT_COORDINATOR_RPC_WORKER_STREAMS_H_
#define NIGHTSHIFT_COORDINATOR_RPC_WORKER_STREAMS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/core/ids.h"
#include "nightshift/v1/worker.pb.h"

namespace nightshift {

// With more than this waiting to be written, a stream takes no more leases: the worker reads too
// slowly, and what it has not got it cannot work on.
inline constexpr size_t kOutboundBytesMax = size_t{8} << 20;
// With more than this (acknowledgements alone), the stream is cancelled.
inline constexpr size_t kOutboundBytesCancel = size_t{64} << 20;
// A write that takes longer means that nobody reads at the other end, though its machine answers
// pings: the stream is cancelled, so that its work can go elsewhere.
inline constexpr absl::Duration kWriteStallMax = absl::Seconds(30);

// The sending half of one worker's stream. Thread-safe. Nothing here calls back into WorkerStreams
// from inside the call.
class WorkerStream {
 public:
  enum class Offer { kQueued, kFull, kClosed };

  virtual ~WorkerStream() = default;
  // Queues a message of about `bytes`. With `unless_full` it is refused (kFull, and `message` is
  // left as it was) while more than kOutboundBytesMax wait; without, the stream is cancelled past
  // kOutboundBytesCancel.
  virtual Offer Send(v1::CoordinatorMessage&& message, size_t bytes, bool unless_full) = 0;
  // What Send with `unless_full` would say.
  virtual Offer Room() const = 0;
  // Ends the stream now; what is queued is lost.
  virtual void Cancel(absl::string_view why) = 0;
  // Ends the stream with `status` once what is queued has been written.
  virtual void FinishWhenWritten(absl::Status status) = 0;
  // How long the present write has been under way; zero when there is none.
  virtual absl::Duration WritingFor(MonotonicTime now) const = 0;
};

class WorkerStreams {
 public:
  // `on_hello` is called with each worker that Open takes in, before anything can come up its new
  // stream and in the order of the Hellos; under order_mutex_, so it must not call back. The
  // references must outlive this.
  WorkerStreams(Dispatcher& dispatcher, Clock& clock, std::function<void(WorkerNumber)> on_hello);

  // --- from a stream ---------------------------------------------------------------------------
  // Takes the stream's Hello to the dispatcher and sends the Welcome. An older stream of the same
  // worker is cancelled. On error (the dispatcher's) the stream has not been taken in.
  absl::StatusOr<WorkerNumber> Open(const v1::Hello& hello, std::shared_ptr<WorkerStream> stream);
  // Hands on what came up `stream`, unless a newer stream has replaced it.
  void Report(WorkerNumber worker, WorkerStream* stream, const v1::Report& report);
  void Returned(WorkerNumber worker, const WorkerStream* stream, const v1::Returned& returned);
  void Drain(WorkerNumber worker, const WorkerStream* stream, const v1::Drain& drain);
  void Close(WorkerNumber worker, const WorkerStream* stream);

  // --- to a stream -----------------------------------------------------------------------------
  // Rises with every Open. A lease that was planned at one count must not go down a stream opened
  // after it: that worker has since said what it holds, and the dispatcher believes it.
  uint64_t opened() const;
  // Whether a lease would be taken: asked before its requests are read.
  WorkerStream::Offer LeaseRoom(WorkerNumber worker, uint64_t planned_at) const;
  WorkerStream::Offer SendLease(WorkerNumber worker, uint64_t planned_at,
                                v1::CoordinatorMessage&& message, size_t bytes);
  // Acknowledgements and revocations; dropped when the stream is gone (the worker asks again with
  // its next Hello).
  void Send(const Outgoing& outgoing);

  // --- all of them -----------------------------------------------------------------------------
  // Cancels the streams that nobody reads. Call every second.
  void CancelStalled(MonotonicTime now);
  // Ends all streams with `status` once what is queued has been written, and refuses new ones.
  void FinishAll(const absl::Status& status);

 private:
  struct Entry {
    std::shared_ptr<WorkerStream> stream;
    std::string session;
    uint64_t opened;
  };

  bool IsCurrent(WorkerNumber worker, const WorkerStream* stream) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(order_mutex_);
  // Null when there is none, or it is younger than `planned_at`.
  std::shared_ptr<WorkerStream> Find(WorkerNumber worker, uint64_t planned_at) const;
  std::vector<std::shared_ptr<WorkerStream>> All() const;
  // Takes the session's present stream out; its worker's number goes to `worker`.
  std::shared_ptr<WorkerStream> TakeOut(const std::string& session, WorkerNumber* worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(order_mutex_);

  Dispatcher& dispatcher_;
  Clock& clock_;
  const std::function<void(WorkerNumber)> on_hello_;

  // Orders what the dispatcher hears of streams.
  Mutex order_mutex_;

  mutable Mutex mutex_ ABSL_ACQUIRED_AFTER(order_mutex_);
  std::unordered_map<WorkerNumber, Entry> streams_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, WorkerNumber> sessions_ ABSL_GUARDED_BY(mutex_);
  uint64_t opened_ ABSL_GUARDED_BY(mutex_) = 0;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status finish_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_RPC_WORKER_STREAMS_H_
