// Repairs the counters of a data folder that nobody has open.
#ifndef NIGHTSHIFT_COORDINATOR_REPAIR_FOLDER_H_
#define NIGHTSHIFT_COORDINATOR_REPAIR_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nightshift/v1/jobs.pb.h"

namespace nightshift {

// As RepairJobs (coordinator/jobs/repair.h), on the store in `data_dir`. FailedPrecondition when
// another process has it open.
absl::StatusOr<std::vector<v1::JobRepair>> RepairDataDir(const std::string& data_dir,
                                                         const std::string& job);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_REPAIR_FOLDER_H_
