// How many jobs of a tenant have not ended: what its limit counts.
//
// Pure; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_OPEN_JOBS_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_OPEN_JOBS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/core/dispatcher.h"

namespace nightshift {

struct OpenJobs {
  int64_t count = 0;
  // When the first of them is expected to end, at the earliest; a minute where nobody can tell.
  absl::Duration first_end;
};

// Walks all jobs. Of those that several calls make at the same time each may be counted late by the
// others: a limit can be passed by as many.
OpenJobs CountOpenJobs(const Dispatcher& dispatcher, absl::string_view tenant, MonotonicTime now);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_OPEN_JOBS_H_
