// Recounts a job from its rows and says what disagrees.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_AUDIT_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_AUDIT_H_

#include "coordinator/core/dispatcher.h"
#include "nightshift/v1/jobs.pb.h"
#include "storage/store.h"

namespace nightshift {

// Checks over one consistent view of the store: every request has its row; an outcome row exactly
// where the bitmap has a bit; an answer row exactly where its outcome says so, of that size; the
// sums of the chunks equal the recount; succeeded + failed + cancelled + expired + unfinished =
// total; checksums. Runs beside everything else.
v1::JobAudit AuditJob(Store& store, const Dispatcher& dispatcher, JobNumber job);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_AUDIT_H_
