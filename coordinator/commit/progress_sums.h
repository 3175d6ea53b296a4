// What outcomes add up to. The same arithmetic counts at commit, at start and in an audit, so that
// the three can be compared.
#ifndef NIGHTSHIFT_COORDINATOR_COMMIT_PROGRESS_SUMS_H_
#define NIGHTSHIFT_COORDINATOR_COMMIT_PROGRESS_SUMS_H_

#include "nightshift/v1/record.pb.h"

namespace nightshift {

// Counts one outcome. Outcomes that are neither succeeded nor failed (kept by a `retry` of some
// classes) count in the bitmap alone.
void AddOutcome(const v1::OutcomeRecord& outcome, v1::ProgressSums* sums);

void AddSums(const v1::ProgressSums& more, v1::ProgressSums* sums);

// Whether the two say the same; costs may differ by what adding up in another order can do.
bool SumsAgree(const v1::ProgressSums& a, const v1::ProgressSums& b);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COMMIT_PROGRESS_SUMS_H_
