// What the store and the dispatcher rely on in a submitted request, whoever sent it.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_SUBMISSION_CHECK_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_SUBMISSION_CHECK_H_

#include <optional>

#include "nightshift/v1/jobs.pb.h"
#include "nightshift/v1/record.pb.h"

namespace nightshift {

// What is wrong with the request: the client's own finding, else ours; nullopt when it is good.
std::optional<v1::BadLine> CheckSubmitted(const v1::SubmittedRequest& request);

// The row and the outcome of a line that was taken although it cannot be used.
v1::RequestRecord InvalidRequestRow(const v1::BadLine& bad);
v1::OutcomeRecord InvalidRequestOutcome(const v1::BadLine& bad, int64_t now_ms);

// The word that sets such outcomes apart: they are not tried again, ever.
inline constexpr char kInvalidRequestLine[] = "invalid_request_line";

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_SUBMISSION_CHECK_H_
