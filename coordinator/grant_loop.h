// Turns what the dispatcher decides into leases on the wire: plan, make the lease frontier durable,
// read the requests, send.
//
// One thread, asleep until something has changed that could make a grant possible, or a retry is
// due. However many changes come while it works, it looks once more.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_GRANT_LOOP_H_
#define NIGHTSHIFT_COORDINATOR_GRANT_LOOP_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/types/span.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/commit/committer.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/lease_reader.h"
#include "coordinator/rpc/worker_streams.h"
#include "storage/store.h"

namespace nightshift {

// A lease message is closed when it has passed one of these; a larger request goes alone.
inline constexpr int kLeaseRequestsMax = 1024;
inline constexpr size_t kLeaseBytesMax = size_t{1} << 20;
// What could not be sent is granted anew at once, and to the same worker as long as nothing else
// has changed; so the loop rests first. For this long when a stream is full or a frontier could not
// be written,
inline constexpr absl::Duration kGrantRetryAfter = absl::Milliseconds(50);
// and for this long when a stream is gone, which the dispatcher is about to hear.
inline constexpr absl::Duration kGoneRetryAfter = absl::Milliseconds(5);

class GrantLoop {
 public:
  // The references must outlive it.
  GrantLoop(Store& store, Dispatcher& dispatcher, Committer& committer, WorkerStreams& streams,
            Clock& clock);
  ~GrantLoop();  // stops

  // Something has changed. Cheap: one atomic exchange while the loop is awake.
  void Wake();
  // No further grants; waits for those being sent.
  void Stop();

 private:
  void Run();
  // Returns when to plan again even if nothing happens.
  MonotonicTime PlanAndSend();
  // Sets frontiers that moved; the jobs for which that failed are in `blocked`.
  void WriteFrontiers(absl::Span<const JobNumber> jobs, std::vector<JobNumber>* blocked);
  // Returns how long to rest before planning again: zero when everything was sent.
  absl::Duration SendGrant(const Grant& grant, uint64_t planned_at);
  void Rest(absl::Duration time);
  void PauseUnreadable(const LeaseReader::Unreadable& unreadable);

  Dispatcher& dispatcher_;
  Committer& committer_;
  WorkerStreams& streams_;
  Clock& clock_;
  LeaseReader reader_;  // the thread's

  std::atomic<bool> woken_{false};
  Mutex mutex_;
  CondVar changed_;
  bool look_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_GRANT_LOOP_H_
