// Takes back what silent or vanished workers held.
#ifndef NIGHTSHIFT_COORDINATOR_MAINTENANCE_LEASE_REAPER_H_
#define NIGHTSHIFT_COORDINATOR_MAINTENANCE_LEASE_REAPER_H_

#include "coordinator/core/dispatcher.h"
#include "coordinator/maintenance/maintenance.h"

namespace nightshift {

// When the coordinator itself did not run for a while (stopped with Ctrl-Z, a starved machine),
// nobody could be heard, and that is no one's fault: after a pause of more than kPauseNoticed
// between two runs, workers get kListenAfterStop to report, or to reconnect, before anything
// lapses.
inline constexpr absl::Duration kPauseNoticed = absl::Seconds(5);
inline constexpr absl::Duration kListenAfterStop = absl::Seconds(10);

// Every second. The references must outlive the task.
MaintenanceTask NewLeaseReaper(Dispatcher& dispatcher, Clock& clock);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_MAINTENANCE_LEASE_REAPER_H_
