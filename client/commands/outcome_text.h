// The last lines of `run`, `watch` and `submit --wait`: what came out, and what to type next.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_OUTCOME_TEXT_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_OUTCOME_TEXT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/commands/output_files.h"
#include "nightshift/v1/jobs.pb.h"

namespace nightshift {

// Takes one example per error class from the lines of an errors file. Looks at no more lines once
// it has one of each, or has seen many.
class ErrorExamples {
 public:
  explicit ErrorExamples(const v1::JobStatus& job);
  void Look(absl::string_view lines);
  // "report-00417: maximum context is 32768 tokens"; empty when there is none.
  std::string Of(v1::ErrorClass error_class) const;

 private:
  size_t wanted_ = 0;
  int64_t lines_left_;
  std::map<std::string, std::string> examples_;  // by the class's word
};

struct OutcomeText {
  v1::JobStatus job;
  // Of this run of the program; rates are of what it did, not of what was there before.
  std::optional<absl::Duration> elapsed;
  int64_t done_before = 0;
  // Where files were written.
  std::optional<OutputPaths> paths;
  WrittenFiles written;
  const ErrorExamples* examples = nullptr;
  std::string flags;       // of follow-up commands, " --data-dir X"
  bool simulated = false;  // no prices, and a hint at a real server
  bool folder = false;     // nothing runs after this program: retry needs the same command again
};

std::string Render(const OutcomeText& outcome);

// {"type":"result", …} with the job's object and the files.
std::string ResultLine(const OutcomeText& outcome, int exit_code);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_OUTCOME_TEXT_H_
