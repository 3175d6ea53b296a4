// One look at what can go out: plan, make the lease frontier durable, read the requests, send; what
// could not be sent goes back to the front. The grant loop does this on its thread whenever
// something has changed, the simulation in simulated time.
//
// Not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_LEASE_SENDER_H_
#define NIGHTSHIFT_COORDINATOR_LEASE_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "coordinator/commit/command_sink.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/lease_reader.h"
#include "coordinator/rpc/worker_streams.h"
#include "storage/store.h"

namespace nightshift {

// A lease message is closed when it has passed one of these; a larger request goes alone.
inline constexpr int kLeaseRequestsMax = 1024;
inline constexpr size_t kLeaseBytesMax = size_t{1} << 20;
// What could not be sent is granted anew at once, and to the same worker as long as nothing else
// has changed; so there is a rest first. For this long when a stream is full or a frontier could
// not be written,
inline constexpr absl::Duration kGrantRetryAfter = absl::Milliseconds(50);
// and for this long when a stream is gone, which the dispatcher is about to hear.
inline constexpr absl::Duration kGoneRetryAfter = absl::Milliseconds(5);

class LeaseSender {
 public:
  struct Next {
    // When to look again even if nothing happens.
    MonotonicTime due = MonotonicTime::Infinite();
    // How long not to look, whatever happens; then look at once.
    absl::Duration rest = absl::ZeroDuration();
  };

  // The references must outlive it. `on_lease` is told how many requests each lease has that was
  // handed to a stream; null tells nobody.
  LeaseSender(Store& store, Dispatcher& dispatcher, CommandSink& committer, WorkerStreams& streams,
              Clock& clock, std::function<void(int)> on_lease = nullptr);

  Next PlanAndSend();

 private:
  // Sets frontiers that moved; the jobs for which that failed are in `blocked`.
  void WriteFrontiers(absl::Span<const JobNumber> jobs, std::vector<JobNumber>* blocked);
  // Returns how long to rest before planning again: zero when everything was sent.
  absl::Duration SendGrant(const Grant& grant, uint64_t planned_at);
  // Leaves in the lease what a route sends to this worker.
  void KeepOwn(WorkerNumber worker, v1::Lease* lease);
  void PauseUnreadable(const LeaseReader::Unreadable& unreadable);

  Dispatcher& dispatcher_;
  CommandSink& committer_;
  WorkerStreams& streams_;
  Clock& clock_;
  const std::function<void(int)> on_lease_;
  LeaseReader reader_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_LEASE_SENDER_H_
