// Who is told of every round of the committer: what counts and measures, nothing that decides.
#ifndef NIGHTSHIFT_COORDINATOR_COMMIT_COMMIT_OBSERVER_H_
#define NIGHTSHIFT_COORDINATOR_COMMIT_COMMIT_OBSERVER_H_

#include "absl/types/span.h"
#include "coordinator/core/dispatcher.h"

namespace nightshift {

class CommitObserver {
 public:
  virtual ~CommitObserver() = default;

  // Once per round, after it is durable and applied; `results` are those that the plan's decisions
  // are about, in the same order, without their bodies. On the committer's thread: be quick.
  virtual void OnCommit(absl::Span<const ResultEvent> results, const CommitPlan& plan) = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COMMIT_COMMIT_OBSERVER_H_
