#include "coordinator/core/retry_policy.h"

#include <algorithm>

#include "base/backoff.h"

namespace nightshift {

RetryDecision DecideRetry(int32_t charged_before, bool charged, int32_t max_attempts,
                          absl::Duration retry_after, Random& random) {
  if (max_attempts <= 0) max_attempts = kMaxAttemptsDefault;
  RetryDecision decision;
  decision.charged = charged_before + (charged ? 1 : 0);
  decision.exhausted = charged && decision.charged >= max_attempts;
  if (decision.exhausted) return decision;
  const absl::Duration wish = std::clamp(retry_after, absl::ZeroDuration(), kRetryAfterMax);
  const BackoffOptions backoff{charged ? kRetryInitial : kUnchargedInitial, kRetryMax};
  decision.delay = wish + FullJitter(backoff, charged ? decision.charged - 1 : 0, random);
  return decision;
}

}  // namespace nightshift
