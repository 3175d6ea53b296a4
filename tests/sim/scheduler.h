// Simulated time: a queue of what happens next, processes that can be killed or stopped as a whole,
// and threads that wait in simulated time.
//
// Everything runs in one real thread, one event after the other; equal inputs give equal orders.
#ifndef NIGHTSHIFT_TESTS_SIM_SCHEDULER_H_
#define NIGHTSHIFT_TESTS_SIM_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "tests/sim/fiber.h"

namespace nightshift::sim {

struct Thread;

// A program on some machine. What belongs to a dead one never happens; what belongs to a stopped
// one (SIGSTOP, a suspended machine) happens when it goes on, in the same order.
struct Process {
  bool alive = true;
  MonotonicTime stopped_until;
};
using ProcessPtr = std::shared_ptr<Process>;

class Scheduler {
 public:
  Scheduler() = default;

  FakeClock& clock() { return clock_; }
  MonotonicTime Now() const { return clock_.Now(); }

  // Runs `task` after `delay` on behalf of `process`; null stands for the world, which never dies.
  void After(absl::Duration delay, ProcessPtr process, std::function<void()> task);
  // The next event, if there is one before `end`; otherwise the clock goes to `end`. False when
  // there was none.
  bool RunNext(MonotonicTime end);

  // --- threads -----------------------------------------------------------------------------------
  // Starts a thread of `process`, now.
  void Spawn(ProcessPtr process, std::function<void()> body);
  // In a thread: waits. Returns at once, and ever after, when its process is dead.
  void Sleep(absl::Duration time);
  // Nothing of `process` happens any more. Its threads go on a last time, to leave their functions:
  // in a dead process every wait is over at once and the store is gone. Outside of threads only.
  void Kill(const ProcessPtr& process);
  int64_t events() const { return events_run_; }

  // Threads wait here for each other.
  class Condition {
   public:
    explicit Condition(Scheduler& scheduler) : scheduler_(scheduler) {}
    // In a thread; look at what was waited for again, and at whether the process still lives.
    // False when `timeout` has passed.
    bool Wait(absl::Duration timeout = absl::InfiniteDuration());
    void NotifyAll();

   private:
    Scheduler& scheduler_;
    std::vector<std::weak_ptr<Thread>> waiting_;
  };

 private:
  friend class Condition;
  struct Event {
    MonotonicTime at;
    uint64_t number = 0;  // among those of one moment, the order in which they were made
    ProcessPtr process;
    std::function<void()> task;
  };

  void Push(Event event);
  // Resumes the thread if it still is in its wait number `wait`.
  void Resume(const std::shared_ptr<Thread>& thread, uint64_t wait);
  void Run(const std::shared_ptr<Thread>& thread);

  FakeClock clock_;
  std::vector<Event> events_;  // a heap, the next one first
  uint64_t last_number_ = 0;
  int64_t events_run_ = 0;
  std::vector<std::shared_ptr<Thread>> threads_;  // those that have not ended
  std::shared_ptr<Thread> running_;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_SCHEDULER_H_
