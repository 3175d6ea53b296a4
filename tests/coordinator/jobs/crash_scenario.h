// A day in the life of a coordinator, cut off after any number of commits: what was confirmed to
// anyone before the cut must be there after it, and everything must go on to its end.
#ifndef NIGHTSHIFT_TESTS_COORDINATOR_JOBS_CRASH_SCENARIO_H_
#define NIGHTSHIFT_TESTS_COORDINATOR_JOBS_CRASH_SCENARIO_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "coordinator/core/ids.h"
#include "storage/store.h"

namespace nightshift {

// What the outside was told.
struct Confirmed {
  std::set<std::string> jobs;        // ids of jobs that were handed in
  std::set<std::string> maybe_gone;  // their deletion has been asked for
  std::set<std::string> gone;        // and confirmed
  std::set<RequestId> answered;      // results that were acknowledged as answers
};

// Submits, runs, folds, cancels, retries, deletes; stops at the first error.
absl::Status RunScenario(Store& store, Confirmed* confirmed);

// Starts over `store` and checks: the audit agrees, what was confirmed is there, every job ends,
// and each request is in exactly one file.
void CheckAfterCrash(Store& store, const Confirmed& confirmed);

// Runs it once to the end, then cut off after each `step`-th number of commits. `reopen` gives a
// fresh empty store for each, and again the same one for looking at what is left.
void CrashEverywhere(const std::function<Store&(bool fresh)>& reopen, int64_t step);

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_COORDINATOR_JOBS_CRASH_SCENARIO_H_
