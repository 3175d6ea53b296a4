#include "worker/backends/call_timers.h"

#include <algorithm>

namespace nightshift {

void CallTimers::Arm(int slot, MonotonicTime at) {
  if (static_cast<size_t>(slot) >= armed_.size())
    armed_.resize(slot + 1, MonotonicTime::Infinite());
  if (at >= armed_[slot]) return;
  armed_[slot] = at;
  heap_.push_back(Entry{at, slot});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

int CallTimers::PopDue(MonotonicTime now) {
  while (!heap_.empty() && heap_.front().at <= now) {
    const Entry top = heap_.front();
    DropTop();
    if (armed_[top.slot] != top.at) continue;  // replaced by an earlier one, which has come up
    armed_[top.slot] = MonotonicTime::Infinite();
    return top.slot;
  }
  return -1;
}

MonotonicTime CallTimers::NextDue() const {
  return heap_.empty() ? MonotonicTime::Infinite() : heap_.front().at;
}

void CallTimers::DropTop() {
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  heap_.pop_back();
}

}  // namespace nightshift
