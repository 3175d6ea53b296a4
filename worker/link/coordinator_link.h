// The worker's stream to its coordinator: opened, lost and opened again for as long as the worker
// lives. The runner above it knows only "up", "down" and messages.
//
// All methods run on the loop's thread, and so do the events: gRPC's threads only post. Messages
// that come while the loop is busy wait up to a bound, then the stream is not read on.
//
//   waiting --(time)--> opening --(let in)--> up
//      ^                   |                   |
//      +----(refused, unreachable, lost)-------+      Close(): ends orderly, for good
#ifndef NIGHTSHIFT_WORKER_LINK_COORDINATOR_LINK_H_
#define NIGHTSHIFT_WORKER_LINK_COORDINATOR_LINK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "nightshift/v1/worker.pb.h"
#include "worker/core/runner.h"

namespace grpc {
class Channel;
}

namespace nightshift {

// After a stream was lost or could not be opened: uniform between the two, so that the workers of a
// coordinator that restarts do not all come at once.
inline constexpr absl::Duration kReconnectMin = absl::Milliseconds(100);
inline constexpr absl::Duration kReconnectMax = absl::Seconds(2);
// After a refusal that a person must do something about.
inline constexpr absl::Duration kRefusedRetryAfter = absl::Seconds(5);
// A coordinator that accepts the stream and then says nothing is given up after this.
inline constexpr absl::Duration kWelcomeMax = absl::Seconds(20);
// Messages received and not yet taken by the loop; with this many the stream is not read on.
inline constexpr int kInboundMessagesMax = 8;

struct LinkOptions {
  std::shared_ptr<grpc::Channel> channel;
  std::string token;  // empty: none
  uint64_t random_seed = 0;
  // Thread-safe; runs a task on the loop's thread. Must stay callable until the link is destroyed.
  std::function<void(std::function<void()>)> post;
};

// What the link tells, on the loop's thread.
struct LinkEvents {
  std::function<void(MonotonicTime)> on_up;
  std::function<void(MonotonicTime)> on_down;
  std::function<void(v1::CoordinatorMessage&&, MonotonicTime)> on_message;
  std::function<void(MonotonicTime)> on_writable;
};

class CoordinatorLink : public LinkPort {
 public:
  CoordinatorLink(LinkOptions options, Clock& clock);
  // Cancels the stream and waits for gRPC to let go of it. The loop need not run any more.
  ~CoordinatorLink() override;

  // Once, before the first OnTimer.
  void SetEvents(LinkEvents events);

  // Opens a stream when one is due; returns when to be called again.
  MonotonicTime OnTimer(MonotonicTime now);

  void Send(v1::WorkerMessage message) override;
  int Backlog() const override;
  void Reopen() override;

  // No new streams. The present one is closed in order once what is queued has been written;
  // `on_closed` is called when the coordinator has had everything, or the stream is lost. Call
  // once.
  void Close(std::function<void()> on_closed);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_LINK_COORDINATOR_LINK_H_
