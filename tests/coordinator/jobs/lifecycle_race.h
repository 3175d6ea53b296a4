// Everything that people can do to a job, at once, while its last results come in: the scenario for
// any store.
#ifndef NIGHTSHIFT_TESTS_COORDINATOR_JOBS_LIFECYCLE_RACE_H_
#define NIGHTSHIFT_TESTS_COORDINATOR_JOBS_LIFECYCLE_RACE_H_

#include <map>
#include <string>

#include "storage/store.h"

namespace nightshift {

// Runs `rounds` races over an empty store, each with a job of its own; `rounds` jobs remain, less
// those that were deleted. Fails the test with the seed of the round. Returns how often a job ended
// in which state ("deleted" is one), counting those that `retry` took up again once more.
std::map<std::string, int> RaceLifecycles(Store& store, int rounds);

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_COORDINATOR_JOBS_LIFECYCLE_RACE_H_
