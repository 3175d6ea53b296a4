// From settings to what a job is.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_JOB_OPTIONS_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_JOB_OPTIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/settings.h"
#include "client/input/input_reader.h"
#include "nightshift/v1/jobs.pb.h"

namespace nightshift {

// Options as the coordinator keeps them, without the output paths.
v1::JobOptions MakeJobOptions(const Settings& settings, const std::string& input_name);

// How the input is read, with what is done to every request. An error names the flag.
absl::StatusOr<InputOptions> MakeInputOptions(const Settings& settings, const std::string& path);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_JOB_OPTIONS_H_
