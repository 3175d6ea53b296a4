// What has to be looked at every so often, whoever asks or not: leases that have lapsed, deadlines
// that have passed. Each such thing is a small task made by a function of its own (lease_reaper.h,
// expirer.h); one thread runs them all.
#ifndef NIGHTSHIFT_COORDINATOR_MAINTENANCE_MAINTENANCE_H_
#define NIGHTSHIFT_COORDINATOR_MAINTENANCE_MAINTENANCE_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace nightshift {

struct MaintenanceTask {
  std::string name;
  // From the end of one run to the start of the next, so that a slow run delays, never overlaps.
  absl::Duration interval;
  std::function<void()> run;
};

// When each task is due. Not thread-safe.
class MaintenanceSchedule {
 public:
  // Every task is due at once.
  MaintenanceSchedule(std::vector<MaintenanceTask> tasks, Clock& clock);
  // Runs what is due and returns when to come back.
  MonotonicTime RunDue();

 private:
  struct Entry {
    MaintenanceTask task;
    MonotonicTime due;
  };
  std::vector<Entry> entries_;
  Clock& clock_;
};

// The thread. Thread-safe.
class Maintenance {
 public:
  Maintenance(std::vector<MaintenanceTask> tasks, Clock& clock);
  ~Maintenance();  // stops
  // Waits for the task that runs now; no other starts.
  void Stop();

 private:
  void Run();

  Clock& clock_;
  MaintenanceSchedule schedule_;  // the thread's
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_MAINTENANCE_MAINTENANCE_H_
