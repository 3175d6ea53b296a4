// Why a command ends early, as a person and as a program read it.
#ifndef NIGHTSHIFT_CLIENT_CLI_FAILURE_H_
#define NIGHTSHIFT_CLIENT_CLI_FAILURE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cli/exit_code.h"

namespace nightshift {

struct Failure {
  ExitCode exit = ExitCode::kInternal;
  std::string code;     // snake_case, for programs: "bad_usage", "not_found", …
  std::string message;  // what happened; may have several lines
  std::string hint;     // what to type; may be empty
  // Refused input: every bad line that is known, at most 1,000.
  std::vector<v1::BadLine> bad_lines;
  int64_t bad_count = 0;
};

Failure UsageFailure(std::string message, std::string hint = "");

// A status of a local call (a file, a parser): its text is the message. ResourceExhausted is taken
// for a disk that is full, here or at the coordinator.
Failure FailureFrom(const absl::Status& status);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_FAILURE_H_
