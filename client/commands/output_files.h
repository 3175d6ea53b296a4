// The results and errors files of a job: where they go, whose they are, and how they are written.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_OUTPUT_FILES_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_OUTPUT_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/settings.h"
#include "client/rpc/job_client.h"

namespace nightshift {

// Absolute, or "-" for standard output.
struct OutputPaths {
  std::string results;
  std::string errors;
};

// From -o and --errors, else from the input's name. InvalidArgument when both are the same file.
absl::StatusOr<OutputPaths> ChooseOutputPaths(const Settings& settings, const std::string& input);

// Makes both temporary files and takes them away again: what is wrong with a path is known before
// the first call. The message names the path.
absl::Status CheckWritable(const OutputPaths& paths);

// Where lines go: a file that appears whole at Commit, standard output, or a device, which is
// written as it is. Not thread-safe.
class LineSink {
 public:
  static absl::StatusOr<std::unique_ptr<LineSink>> Open(const std::string& path);
  virtual ~LineSink() = default;
  // Cancelled when nobody reads standard output any more.
  virtual absl::Status Append(absl::string_view lines) = 0;
  virtual absl::Status Commit() = 0;
};

struct WrittenFiles {
  int64_t result_lines = 0;
  int64_t error_lines = 0;  // 0: there is no errors file
};

class ResultsAhead;

// Writes the results file, and the errors file if there is anything in it; takes away an errors
// file that an earlier run of the same job left. Cancelled when `cancelled` says so; the files are
// then as before. `ahead` (may be null) has been writing the results file; what it cannot finish is
// written afresh. `look_at_errors` (may be null) is shown the error lines, some at a time.
absl::StatusOr<WrittenFiles> WriteOutputs(
    JobClient& client, const v1::JobStatus& job, const OutputPaths& paths,
    std::unique_ptr<ResultsAhead> ahead, const std::function<bool()>& cancelled,
    const std::function<void(const std::string&)>& look_at_errors);

// Whether the file at `path` may be replaced by one of this job's: nothing can be lost there, or it
// begins with a line of this job. An empty `job_id` is a job that does not exist yet.
bool MayReplace(absl::string_view job_id, const std::string& path);

// No file, an empty one, standard output or a device.
bool NothingToLose(const std::string& path);

// Standard output, or something that is there and is no file: it is written as it is.
bool IsSpecialFile(const std::string& path);

// As a person would write it: relative when it is below the working folder.
std::string ShortPath(const std::string& path);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_OUTPUT_FILES_H_
