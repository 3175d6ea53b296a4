// Turns what the dispatcher decides into leases on the wire (lease_sender.h), as soon as there is
// something to send.
//
// One thread, asleep until something has changed that could make a grant possible, or a retry is
// due. However many changes come while it works, it looks once more.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_GRANT_LOOP_H_
#define NIGHTSHIFT_COORDINATOR_GRANT_LOOP_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/commit/command_sink.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/lease_sender.h"
#include "coordinator/rpc/worker_streams.h"
#include "storage/store.h"

namespace nightshift {

class GrantLoop {
 public:
  // The references must outlive it. `on_lease` as LeaseSender's.
  GrantLoop(Store& store, Dispatcher& dispatcher, CommandSink& committer, WorkerStreams& streams,
            Clock& clock, std::function<void(int)> on_lease = nullptr);
  ~GrantLoop();  // stops

  // Something has changed. Cheap: one atomic exchange while the loop is awake.
  void Wake();
  // No further grants; waits for those being sent.
  void Stop();

 private:
  void Run();
  void Rest(absl::Duration time);

  Clock& clock_;
  LeaseSender sender_;  // the thread's

  std::atomic<bool> woken_{false};
  Mutex mutex_;
  CondVar changed_;
  bool look_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_GRANT_LOOP_H_
