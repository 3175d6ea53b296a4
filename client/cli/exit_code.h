// The numbers the program ends with. Scripts are written against them: a number never changes its
// meaning. One place, so that `run`, `watch` and `submit --wait` cannot disagree.
#ifndef NIGHTSHIFT_CLIENT_CLI_EXIT_CODE_H_
#define NIGHTSHIFT_CLIENT_CLI_EXIT_CODE_H_

#include <string>

#include "nightshift/v1/jobs.pb.h"

namespace nightshift {

enum class ExitCode : int {
  kSuccess = 0,
  kInternal = 1,      // also: a disk that is full, a data folder that is in use, damaged, …
  kUsage = 2,         // bad usage, refused input, unknown job
  kSomeFailed = 3,    // finished, but some requests did not succeed
  kStopped = 4,       // cancelled, expired, budget, error policy, `watch --timeout`
  kUnreachable = 5,   // coordinator or backend could not be reached
  kBrokenStore = 75,  // servers only: the store can no longer be trusted, a restart is the cure
  kHungUp = 129,
  kInterrupted = 130,
  kTerminated = 143,
};

// True when following the job any longer brings nothing: it has ended, or it is held by a budget or
// an error policy until a person decides.
bool JobIsOver(const v1::JobStatus& job);

// The code of a job for which JobIsOver().
ExitCode ExitCodeOf(const v1::JobStatus& job);

// The text of `nightshift help exit-codes`.
std::string ExitCodeHelp();

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_EXIT_CODE_H_
