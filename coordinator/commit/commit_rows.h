// The rows of one commit, from what the dispatcher decided.
#ifndef NIGHTSHIFT_COORDINATOR_COMMIT_COMMIT_ROWS_H_
#define NIGHTSHIFT_COORDINATOR_COMMIT_COMMIT_ROWS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/commit/progress_ledger.h"
#include "coordinator/core/dispatcher.h"
#include "storage/write_set.h"

namespace nightshift {

// Adds all rows of `plan` to `writes` and counts its outcomes in `ledger`. `results` are those that
// the plan was made from; their bodies are given up as they are encoded. `extras` are the rows that
// accepted commands bring along. Fills in the body sizes of the plan's outcomes.
absl::Status AddCommitRows(CommitPlan& plan, absl::Span<ResultEvent> results,
                           absl::Span<const WriteSet* const> extras, ProgressLedger& ledger,
                           WriteSet& writes);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COMMIT_COMMIT_ROWS_H_
