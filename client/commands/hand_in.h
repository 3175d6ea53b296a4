// Sending a job's requests to the coordinator as they are read: with back-pressure, so that memory
// does not grow with the input.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_HAND_IN_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_HAND_IN_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/input/input_reader.h"
#include "client/rpc/job_client.h"

namespace nightshift {

struct HandInOptions {
  v1::JobOptions job;
  bool skip_bad_lines = false;
  std::string token;
  // Of the whole input, as HashFile tells it; empty = not known. An input that has another one by
  // the time it is read is given up (InvalidArgument): the token would name what is not in the job.
  std::string content_hash;
  // Asked about every good request before it is sent, with its line; an error gives the job up.
  std::function<absl::Status(const ParsedRequest& request, int64_t line)> check;
};

struct HandInResult {
  v1::SubmitReply reply;
  InputStats stats;
  std::vector<std::string> warnings;  // of the reader
};

// Reads the input to its end and seals the job. Errors of the input (InvalidArgument, DataLoss,
// NotFound …) and of the call keep their codes; `input_failed` tells them apart. A job whose seal
// was not heard of because the connection broke is looked for by its token.
absl::StatusOr<HandInResult> HandIn(JobClient& client, const InputOptions& input,
                                    const HandInOptions& options, bool* input_failed);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_HAND_IN_H_
