// From what a worker reports to what is recorded: pure functions on records.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_OUTCOME_H_
#define NIGHTSHIFT_COORDINATOR_CORE_OUTCOME_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "nightshift/v1/record.pb.h"
#include "nightshift/v1/worker.pb.h"

namespace nightshift {

// Fills everything but body_size. `attempts`: attempts that counted, the last one included.
// `submitted_at_ms`: when the job was handed in. A failure without an HTTP answer always gets an
// error code: its class, when the worker gave none.
void FillOutcome(const v1::AttemptResult& result, v1::OutcomeKind kind, int32_t attempts,
                 absl::string_view worker, int64_t submitted_at_ms, absl::Time wall,
                 v1::OutcomeRecord* outcome);

// Counts `outcome`, which is succeeded or failed, into `sums`.
void AddToSums(const v1::OutcomeRecord& outcome, v1::ProgressSums* sums);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_OUTCOME_H_
