// `retry`: an ended job runs again for what did not succeed.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_REOPEN_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_REOPEN_H_

#include <vector>

#include "absl/status/status.h"
#include "coordinator/commit/command_sink.h"
#include "coordinator/core/dispatcher.h"
#include "storage/store.h"

namespace nightshift {

// Makes the failed requests of `job` (of these error classes; all when empty) pending again, and
// with no classes given also those that were cancelled or expired, in one commit; the job's `run`
// rises by one. FailedPrecondition unless the job has ended; OK and nothing done when nothing
// matches. Input lines that cannot be used stay failed.
absl::Status ReopenJob(Store& store, CommandSink& committer, const Dispatcher& dispatcher,
                       JobNumber job, const std::vector<v1::ErrorClass>& classes);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_REOPEN_H_
