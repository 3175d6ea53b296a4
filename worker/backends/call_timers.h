// When to look at which call again. Not thread-safe; pure.
//
// A call's deadline moves with every byte that arrives, and a timer that moved along would cost a
// heap operation per read. Here a timer may only be early: a call's activity touches nothing, and
// when its timer comes up the owner looks at what is really due and arms it again. So a slot has
// one timer, used again by call after call, and thousands of short calls share a handful of heap
// operations.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_CALL_TIMERS_H_
#define NIGHTSHIFT_WORKER_BACKENDS_CALL_TIMERS_H_

#include <vector>

#include "base/clock.h"

namespace nightshift {

class CallTimers {
 public:
  // Slot `slot` is reported at `at` or earlier. Costs nothing when it is already due before.
  void Arm(int slot, MonotonicTime at);

  // The next slot whose timer is due, which is then no longer armed; -1 when none is.
  int PopDue(MonotonicTime now);

  // When PopDue has something to say; infinite when nothing is armed.
  MonotonicTime NextDue() const;

 private:
  struct Entry {
    MonotonicTime at;
    int slot;
  };
  static bool Later(const Entry& a, const Entry& b) { return a.at > b.at; }
  void DropTop();

  std::vector<Entry> heap_;           // earliest on top; an entry that its slot disowns is skipped
  std::vector<MonotonicTime> armed_;  // per slot; infinite = not armed
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_CALL_TIMERS_H_
