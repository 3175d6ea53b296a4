#include "coordinator/commit/progress_sums.h"

#include <algorithm>
#include <cmath>

#include "coordinator/core/outcome.h"

namespace nightshift {

void AddOutcome(const v1::OutcomeRecord& outcome, v1::ProgressSums* sums) {
  if (outcome.kind() == v1::OUTCOME_SUCCEEDED || outcome.kind() == v1::OUTCOME_FAILED) {
    AddToSums(outcome, sums);
  }
}

void AddSums(const v1::ProgressSums& more, v1::ProgressSums* sums) {
  sums->set_succeeded(sums->succeeded() + more.succeeded());
  sums->set_failed(sums->failed() + more.failed());
  sums->set_prompt_tokens(sums->prompt_tokens() + more.prompt_tokens());
  sums->set_completion_tokens(sums->completion_tokens() + more.completion_tokens());
  sums->set_cost_usd(sums->cost_usd() + more.cost_usd());
  if (more.cost_known()) sums->set_cost_known(true);
  sums->set_truncated_retries(sums->truncated_retries() + more.truncated_retries());
  sums->set_empty_retries(sums->empty_retries() + more.empty_retries());
  sums->set_moved(sums->moved() + more.moved());
  for (const auto& [error_class, count] : more.failed_by_class()) {
    (*sums->mutable_failed_by_class())[error_class] += count;
  }
}

bool SumsAgree(const v1::ProgressSums& a, const v1::ProgressSums& b) {
  if (a.succeeded() != b.succeeded() || a.failed() != b.failed() ||
      a.prompt_tokens() != b.prompt_tokens() || a.completion_tokens() != b.completion_tokens() ||
      a.cost_known() != b.cost_known() || a.truncated_retries() != b.truncated_retries() ||
      a.empty_retries() != b.empty_retries() || a.moved() != b.moved()) {
    return false;
  }
  // A hundred million additions of doubles in any order stay well within this.
  const double scale = std::max({1.0, std::fabs(a.cost_usd()), std::fabs(b.cost_usd())});
  if (std::fabs(a.cost_usd() - b.cost_usd()) > 1e-6 * scale) return false;
  const auto covers = [](const v1::ProgressSums& x, const v1::ProgressSums& y) {
    for (const auto& [error_class, count] : x.failed_by_class()) {
      const auto found = y.failed_by_class().find(error_class);
      if (count != (found == y.failed_by_class().end() ? 0 : found->second)) return false;
    }
    return true;
  };
  return covers(a, b) && covers(b, a);
}

}  // namespace nightshift
