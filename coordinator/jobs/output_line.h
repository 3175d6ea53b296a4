// Prints one line of a results or errors file.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_OUTPUT_LINE_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_OUTPUT_LINE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "nightshift/v1/record.pb.h"

namespace nightshift {

// Appends the line with its LF. `body` is one JSON document on one line, or empty.
void AppendOutputLine(absl::string_view job_id, uint64_t index, absl::string_view custom_id,
                      const v1::OutcomeRecord& outcome, absl::string_view body, std::string* out);

// What is printed for a request that had no outcome when its job ended.
v1::OutcomeRecord UnrunOutcome(const v1::JobRecord& job);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_OUTPUT_LINE_H_
