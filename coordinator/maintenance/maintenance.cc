#include "coordinator/maintenance/maintenance.h"

#include <algorithm>
#include <utility>

#include "base/thread_name.h"

namespace nightshift {

MaintenanceSchedule::MaintenanceSchedule(std::vector<MaintenanceTask> tasks, Clock& clock)
    : clock_(clock) {
  const MonotonicTime now = clock_.Now();
  for (MaintenanceTask& task : tasks) entries_.push_back({std::move(task), now});
}

MonotonicTime MaintenanceSchedule::RunDue() {
  MonotonicTime next = MonotonicTime::Infinite();
  for (Entry& entry : entries_) {
    if (entry.due <= clock_.Now()) {
      entry.task.run();
      entry.due = clock_.Now() + entry.task.interval;
    }
    next = std::min(next, entry.due);
  }
  return next;
}

Maintenance::Maintenance(std::vector<MaintenanceTask> tasks, Clock& clock)
    : clock_(clock), schedule_(std::move(tasks), clock), thread_([this] { Run(); }) {}

Maintenance::~Maintenance() { Stop(); }

void Maintenance::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Maintenance::Run() {
  NameThisThread("ns-maintenance");
  for (;;) {
    const MonotonicTime next = schedule_.RunDue();
    MutexLock lock(&mutex_);
    for (;;) {
      if (stopping_) return;
      const MonotonicTime now = clock_.Now();
      if (next <= now) break;
      changed_.WaitFor(&mutex_, next.infinite() ? absl::InfiniteDuration() : next - now);
    }
  }
}

}  // namespace nightshift
