// The input of a job before it is handed in: counted, checked, recognized again.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_JOB_INPUT_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_JOB_INPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/failure.h"
#include "client/cli/settings.h"
#include "client/commands/backend_check.h"
#include "client/input/input_reader.h"

namespace nightshift {

// At most this many bad lines are listed; all are counted.
inline constexpr size_t kBadLinesShownMax = 1000;

struct InputScan {
  int64_t requests = 0;  // good ones
  int64_t bad_count = 0;
  std::vector<v1::BadLine> bad_lines;  // by line
  ModelCounts models;
  int64_t body_bytes = 0;
  // Sum of the answers' upper bounds, and how many requests have none. Only with `count_answers`.
  int64_t max_tokens = 0;
  int64_t without_max_tokens = 0;
  InputFormat format = InputFormat::kJsonLines;
  std::vector<std::string> warnings;
};

// Reads the whole input and keeps only figures. Bad lines are no error; equal custom_ids are bad
// lines, the later of each pair.
absl::StatusOr<InputScan> ScanInput(const InputOptions& options, bool count_answers);

// True for what can be read only once: "-", a pipe, a device.
bool NeedsSpooling(const std::string& path);

// Such an input in an unnamed temporary file, since it is read more than once; the path returned
// stays good for the life of the process. InvalidArgument when standard input is a terminal.
absl::StatusOr<std::string> SpoolInput(const std::string& path);

// What makes this job this job: its content and every option that changes what is asked. Options
// of how it runs (backends, budgets, names, files) are left out.
std::string JobToken(const Settings& settings, const std::string& content_hash,
                     const InputOptions& options);

// The refusal of screen and JSON. `skip_hint` offers --skip-bad-lines.
Failure RefusedInput(const std::string& name, int64_t good, int64_t bad_count,
                     std::vector<v1::BadLine> bad_lines);

// Prompt tokens from bytes, roughly: JSON of English text has three and a half to five bytes for
// each. Low and high.
std::pair<double, double> PromptTokenRange(int64_t body_bytes);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_JOB_INPUT_H_
