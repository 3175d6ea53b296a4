// What an attempt's end means: one table from transport result, status and body to what is recorded
// and what is done next. The table is in the source file and tested row by row.
#ifndef NIGHTSHIFT_WORKER_CORE_CLASSIFIER_H_
#define NIGHTSHIFT_WORKER_CORE_CLASSIFIER_H_

#include <string>

#include "nightshift/v1/types.pb.h"
#include "worker/core/call.h"

namespace nightshift {

enum class Verdict {
  kAnswered,   // the outcome is `succeeded`
  kRejected,   // final: this request will not be answered, here or elsewhere
  kRetryNow,   // once, at once, on a fresh connection; costs nothing
  kRetry,      // try again later; charged
  kRetryFree,  // the same, but the backend is to blame: not charged. The runner's, not Classify's
  kOverload,  // the backend takes no more now: the request waits here, uncharged, the limit shrinks
  kUnavailable,  // the backend is loading, gone or unreachable: waits, uncharged
  kRefusedKey,   // 401, 402, 403: the backend is stopped, its requests go back
  kAborted,      // nobody wants the answer
};

struct Classification {
  Verdict verdict = Verdict::kAborted;
  v1::ErrorClass error_class = v1::ERROR_CLASS_NONE;
  std::string code;     // snake_case, for outcomes without an HTTP answer
  std::string message;  // for a person
};

Classification Classify(const CallOutcome& outcome);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_CLASSIFIER_H_
