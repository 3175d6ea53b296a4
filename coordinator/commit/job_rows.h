// Where a job's rows are. Used by whoever writes, removes or scans all of them.
#ifndef NIGHTSHIFT_COORDINATOR_COMMIT_JOB_ROWS_H_
#define NIGHTSHIFT_COORDINATOR_COMMIT_JOB_ROWS_H_

#include <array>

#include "coordinator/core/ids.h"
#include "coordinator/core/job_state.h"
#include "nightshift/v1/types.pb.h"
#include "storage/write_set.h"

namespace nightshift {

// The families whose rows are keyed by job and more. The job's own row is in Family::kJobs.
inline constexpr std::array<Family, 7> kJobRowFamilies = {
    Family::kRequests, Family::kOrder,    Family::kOutcomes, Family::kResponses,
    Family::kProgress, Family::kAttempts, Family::kEvents};

// Adds the removal of the job's row and of everything keyed by it. The cost does not depend on the
// size of the job.
void AddRemovalOfJob(JobNumber job, WriteSet& writes);

// Whether a job in this state changes no more, unless it is run again.
inline bool JobHasEnded(v1::JobState state) { return JobStateInfo(state).terminal; }

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COMMIT_JOB_ROWS_H_
