#include "coordinator/commit/job_rows.h"

#include "storage/keys.h"

namespace nightshift {

void AddRemovalOfJob(JobNumber job, WriteSet& writes) {
  writes.Delete(Family::kJobs, JobKey(job));
  for (const Family family : kJobRowFamilies) {
    writes.DeleteRange(family, JobKey(job), JobKey(job + 1));
  }
}

}  // namespace nightshift
