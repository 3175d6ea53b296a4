// What `run` makes sure of before anything is handed in, and `--dry-run`.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_RUN_CHECKS_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_RUN_CHECKS_H_

#include <string>
#include <vector>

#include "client/cli/failure.h"
#include "client/cli/settings.h"
#include "client/commands/job_input.h"
#include "client/commands/output_files.h"
#include "worker/backends/backend_spec.h"

namespace nightshift {

// Whether this job may write its files: no other job of the store claims the path, and what is
// there already is this job's. `ours` is empty for a job that does not exist yet. False with the
// failure, which names the other job.
bool MayWriteFiles(JobClient& client, absl::string_view ours, const OutputPaths& paths,
                   Failure* failure);

// A line that names the flags, of those that were given now, whose values the job did not begin
// with and will not take on; empty when there are none. `ended`: a job that takes on nothing any
// more, not even a larger budget.
std::string KeptOptionsText(const Settings& settings, const v1::JobOptions& then,
                            const v1::JobOptions& now, bool ended);

// "prompts.jsonl: 5,000 requests, all valid, about 4.1M prompt tokens"
std::string InputLine(const std::string& name, const InputScan& scan);

// The report of --dry-run. `backends` may be empty: then the price is unknown.
std::string DryRunText(const std::string& name, const InputScan& scan,
                       const std::vector<BackendSpec>& backends);
std::string DryRunJson(const std::string& name, const InputScan& scan,
                       const std::vector<BackendSpec>& backends);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_RUN_CHECKS_H_
