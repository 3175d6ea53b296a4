// One stream of the link, from its opening to gRPC's last word about it. It tells what happens by
// posting to the loop; the link decides what that means.
#ifndef NIGHTSHIFT_WORKER_LINK_LINK_STREAM_H_
#define NIGHTSHIFT_WORKER_LINK_LINK_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "nightshift/v1/worker.grpc.pb.h"

namespace nightshift {

// Counts the streams that gRPC may still call; the link waits for zero before it goes.
class LiveStreams {
 public:
  void Add();
  void Remove();
  void WaitForNone();

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Thread-safe.
class LinkStream final : public grpc::ClientBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage> {
 public:
  // Called on gRPC's threads, and not after `on_end`; they post and return.
  struct Events {
    std::function<void(std::shared_ptr<LinkStream>)> on_accepted;
    std::function<void(std::shared_ptr<LinkStream>, std::shared_ptr<v1::CoordinatorMessage>)>
        on_message;
    std::function<void(std::shared_ptr<LinkStream>)> on_writable;
    std::function<void(std::shared_ptr<LinkStream>, absl::Status)> on_end;
  };

  static std::shared_ptr<LinkStream> Open(v1::WorkerService::Stub& stub, const std::string& token,
                                          std::shared_ptr<LiveStreams> live, Events events);

  // Queues a message; dropped when the stream is ending.
  void Send(v1::WorkerMessage message);
  // Messages queued or being written.
  int Backlog() const;
  // One message that on_message brought has been dealt with.
  void MessageTaken();
  // Closes this half once what is queued is written; the coordinator then ends the stream.
  void CloseWhenWritten();
  void Cancel();

  // --- gRPC's reactions ------------------------------------------------------------------------
  void OnReadInitialMetadataDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnWritesDoneDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  LinkStream(std::shared_ptr<LiveStreams> live, Events events);

 private:
  enum class Next { kNothing, kWrite, kWritesDone };
  // What to start now; the caller does so outside the lock.
  Next TakeNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(Next next);
  // True when it is time to let go of the hold: the caller calls RemoveHold outside the lock.
  bool EndHoldLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<LiveStreams> live_;
  const Events events_;
  grpc::ClientContext context_;
  std::shared_ptr<LinkStream> self_;  // from Open to OnDone

  mutable Mutex mutex_;
  std::deque<v1::WorkerMessage> queue_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool close_ ABSL_GUARDED_BY(mutex_) = false;        // CloseWhenWritten was called
  bool writes_done_ ABSL_GUARDED_BY(mutex_) = false;  // … and done
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // reads are over: nothing can be started
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool hold_ ABSL_GUARDED_BY(mutex_) = true;
  int untaken_ ABSL_GUARDED_BY(mutex_) = 0;
  v1::WorkerMessage outbound_;      // gRPC's while `writing_`
  v1::CoordinatorMessage inbound_;  // gRPC's while `reading_`
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_LINK_LINK_STREAM_H_
