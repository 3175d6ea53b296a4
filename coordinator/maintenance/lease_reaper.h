// Takes back what silent or vanished workers held.
#ifndef NIGHTSHIFT_COORDINATOR_MAINTENANCE_LEASE_REAPER_H_
#define NIGHTSHIFT_COORDINATOR_MAINTENANCE_LEASE_REAPER_H_

#include "coordinator/core/dispatcher.h"
#include "coordinator/maintenance/maintenance.h"

namespace nightshift {

// Every second. The references must outlive the task.
MaintenanceTask NewLeaseReaper(Dispatcher& dispatcher, Clock& clock);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_MAINTENANCE_LEASE_REAPER_H_
