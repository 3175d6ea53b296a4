// Reading back what the store knows of its jobs, at start.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_RECOVERY_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_RECOVERY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/core/ids.h"
#include "nightshift/v1/record.pb.h"
#include "storage/store.h"

namespace nightshift {

// Removes the rows of submissions that were never sealed.
absl::Status DropUnsealedJobs(Store& store);

// Calls `take` with the number and the record of each job, sealed or not, in order of number; stops
// at its first error. DataLoss when a job's row is damaged.
absl::Status ForEachJob(const Store& store,
                        const std::function<absl::Status(JobNumber, v1::JobRecord)>& take);

// All jobs. Cost: jobs + chunks + deltas + unfinished failures; it does not read requests or
// outcomes. DataLoss when a row is damaged.
absl::StatusOr<std::vector<LoadedJob>> LoadJobs(Store& store);

// The bitmaps and sums of one job as the store has them (base and deltas), whatever its state.
absl::Status LoadProgress(Store& store, JobNumber job, int64_t total,
                          std::vector<std::string>* finished_bitmaps, v1::ProgressSums* sums);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_RECOVERY_H_
