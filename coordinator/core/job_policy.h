// What a command, or what has been answered so far, does to a job: decisions on a draft of its
// record that becomes true only with the commit. The dispatcher makes the drafts and applies them.
//
// Pure; not thread-safe on one draft.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_JOB_POLICY_H_
#define NIGHTSHIFT_COORDINATOR_CORE_JOB_POLICY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/core/dispatcher.h"
#include "nightshift/v1/record.pb.h"

namespace nightshift {

// `stop_on_error_rate` looks away until this many requests have been answered.
inline constexpr int64_t kErrorSampleMin = 20;

struct JobDraft {
  v1::JobRecord record;
  v1::ProgressSums sums;
  int64_t finished = 0;  // requests with an outcome, this commit's included
  // Answers that the error policy looks at.
  int64_t sampled_succeeded = 0;
  int64_t sampled_failed = 0;
  // The state on disk before this commit.
  v1::JobState state_before = v1::JOB_STATE_UNSPECIFIED;
  // Requests from this index on have not been leased.
  int64_t frontier = 0;
  bool write_row = false;
  bool erase = false;
};

// A request of the job has gone out or been answered: `queued` becomes `running`.
void NoteStarted(JobDraft* draft, absl::Time wall);

// Every command but kSeal. What the command asks for and is so already is OK and changes nothing;
// FailedPrecondition, with a sentence for the person who asked, when the state forbids it.
absl::Status ApplyCommand(const JobCommand& command, absl::Time wall, JobDraft* draft);

// Ends the job when every request has its outcome.
void CompleteIfDone(JobDraft* draft, absl::Time wall);

// What follows by itself: completion, the end of a cancellation that is durable, the error policy,
// the budget.
void Settle(JobDraft* draft, absl::Time wall);

// The budget, as a sentence, when it is spent; empty otherwise.
std::string SpentBudget(const v1::JobOptions& options, const v1::ProgressSums& sums);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_JOB_POLICY_H_
