// Ends jobs whose deadline has passed.
#ifndef NIGHTSHIFT_COORDINATOR_MAINTENANCE_EXPIRER_H_
#define NIGHTSHIFT_COORDINATOR_MAINTENANCE_EXPIRER_H_

#include "coordinator/commit/command_sink.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/maintenance/maintenance.h"

namespace nightshift {

// Every second. A job that ends by itself just then stays as it ended; while the disk is too full
// for it (ResourceExhausted) it is tried again. The references must outlive the task.
MaintenanceTask NewExpirer(Dispatcher& dispatcher, CommandSink& committer, Clock& clock);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_MAINTENANCE_EXPIRER_H_
