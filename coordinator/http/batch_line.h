// One line of a batch's input, checked by the rules of the Batch API: stricter than a job's input
// (no short forms, every line for the batch's endpoint), and with the codes that its clients know.
//
// Pure functions; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_BATCH_LINE_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_BATCH_LINE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "base/endpoint.h"
#include "nightshift/v1/files.pb.h"
#include "nightshift/v1/jobs.pb.h"

namespace nightshift {

struct BatchLineRules {
  Endpoint endpoint = Endpoint::kUnspecified;
  // The models that are offered just now; nullopt when that is not known: nobody is there, or
  // somebody who takes any.
  std::optional<std::set<std::string>> models = std::nullopt;
};

// Fills `request` and returns true, or `error` with code, message, param and line. `line` is the
// physical line, from 1; `text` has no line end.
bool CheckBatchLine(absl::string_view text, int64_t line, const BatchLineRules& rules,
                    v1::SubmittedRequest* request, v1::BatchError* error);

// The code of a line that was found bad later: by the job's own checks.
v1::BatchError BatchErrorOf(const v1::BadLine& bad);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_BATCH_LINE_H_
