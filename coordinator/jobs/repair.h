// Counts jobs anew from their outcomes, where what was counted before says something else.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_REPAIR_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_REPAIR_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nightshift/v1/jobs.pb.h"
#include "storage/store.h"

namespace nightshift {

// Outcomes are what is true; the rows that only count them are made to agree: progress (bitmaps and
// sums), the end sums in the row of an ended job, and attempts of requests that are finished, or
// that cannot be read. A request that was marked as finished and has no outcome is run again, which
// costs a call; nothing else of requests, outcomes and answers is touched. A chunk with an outcome
// that cannot be read is left alone.
//
// `job` is an id or its unique beginning; empty: all. For a store that no coordinator serves; it
// works also where one could not start. Returns the jobs in which something was done or left, in
// words. May be run again at any time: after an error or a crash the rest is still to do.
//
// NotFound, InvalidArgument: as JobTable::FindId. DataLoss: the row of a job is damaged.
absl::StatusOr<std::vector<v1::JobRepair>> RepairJobs(Store& store, const std::string& job);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_REPAIR_H_
