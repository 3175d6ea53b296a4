// Wakes those who follow a job: status watchers and output readers that wait for more.
//
// The dispatcher says only "something changed", often thousands of times a second. One thread
// turns that into a look at the change counts of the jobs that somebody waits for, at most every
// 10 ms, and calls each waiter once. Nobody waiting costs one atomic read per change.
//
// Thread-safe. Must outlive everything that waits.
#ifndef NIGHTSHIFT_COORDINATOR_RPC_CHANGE_NOTIFIER_H_
#define NIGHTSHIFT_COORDINATOR_RPC_CHANGE_NOTIFIER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/core/ids.h"

namespace nightshift {

class ChangeNotifier {
 public:
  // `change_count` is Dispatcher::ChangeCount, which may be called from the notifier's thread.
  ChangeNotifier(std::function<uint64_t(JobNumber)> change_count, Clock& clock);
  ~ChangeNotifier();

  using WaitId = uint64_t;

  // Calls `on_change` once, on the notifier's thread, when the job's change count differs from
  // `seen` and `not_before` has come; also when the notifier shuts down. It must not block. Never
  // called from inside Wait. Returns 0, and calls nothing, once the notifier is shutting down.
  WaitId Wait(JobNumber job, uint64_t seen, MonotonicTime not_before,
              std::function<void()> on_change);

  // Forgets a wait. One that was just found due may still be called: the callee must be able to
  // tell that it is late.
  void Cancel(WaitId id);

  // Something may have changed. Cheap, from any thread, under any lock but a waiter's.
  void Wake();

  // Calls everyone who waits and ends the thread. Once is enough; more do nothing.
  void Shutdown();

 private:
  struct Waiter {
    JobNumber job;
    uint64_t seen;
    MonotonicTime not_before;
    std::function<void()> on_change;
  };

  void Run();
  // Takes out who is to be called now; `next` becomes the earliest time at which a waiter whose job
  // has changed may be called.
  std::vector<std::function<void()>> TakeDue(MonotonicTime now, MonotonicTime* next)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<uint64_t(JobNumber)> change_count_;
  Clock& clock_;

  std::atomic<int> waiting_{0};
  std::atomic<bool> woken_{false};

  Mutex mutex_;
  CondVar changed_;
  std::map<WaitId, Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  WaitId next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  bool look_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_RPC_CHANGE_NOTIFIER_H_
