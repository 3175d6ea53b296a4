// The message about the end of a request on this worker, made from what the backend sent and what
// that means.
#ifndef NIGHTSHIFT_WORKER_CORE_RESULT_H_
#define NIGHTSHIFT_WORKER_CORE_RESULT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nightshift/v1/worker.pb.h"
#include "worker/core/call.h"
#include "worker/core/classifier.h"

namespace nightshift {

// All but key, sequence and backend. Takes both apart. `made_request_id` names the
// answer where the backend did not. The verdict must be kAnswered, kRejected or kRetry (which is
// charged).
//
// A classification with a code is recorded as "no HTTP answer": no status and no body.
v1::AttemptResult MakeResult(CallOutcome&& outcome, Classification&& classification,
                             absl::string_view made_request_id);

// A body that is not JSON (an HTML error page) as a JSON document that quotes its start.
std::string WrapNonJsonBody(absl::string_view body);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_RESULT_H_
