#include "client/commands/outcome_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/units.h"
#include "client/cli/self.h"
#include "client/commands/job_text.h"
#include "client/output/terminal.h"
#include "client/output/text_table.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLinesLookedAtMax = 20000;
constexpr int kExampleCells = 60;
constexpr size_t kClassesShownMax = 6;

// Trying again may help these; the others fail again in the same way.
bool WorthRetrying(v1::ErrorClass error_class) {
  switch (error_class) {
    case v1::ERROR_CLASS_RATE_LIMITED:
    case v1::ERROR_CLASS_TIMEOUT:
    case v1::ERROR_CLASS_CONNECTION_ERROR:
    case v1::ERROR_CLASS_SERVER_ERROR:
    case v1::ERROR_CLASS_INCOMPLETE_RESPONSE:
    case v1::ERROR_CLASS_WORKER_CRASHED:
      return true;
    default:
      return false;
  }
}

// The text under `key`; empty when there is none. What a backend wrote may be of any type.
std::string TextIn(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string ErrorText(const Json& line) {
  if (line.contains("error") && line["error"].is_object()) {
    const std::string message = TextIn(line["error"], "message");
    return message.empty() ? TextIn(line["error"], "code") : message;
  }
  if (!line.contains("response") || !line["response"].is_object()) return "";
  const Json& response = line["response"];
  if (response.contains("body") && response["body"].is_object()) {
    const Json& body = response["body"];
    std::string message = TextIn(body, "error");
    if (message.empty() && body.contains("error")) message = TextIn(body["error"], "message");
    if (message.empty()) message = TextIn(body, "message");
    if (!message.empty()) return message;
  }
  return absl::StrCat("HTTP ", response.value("status_code", 0));
}

std::vector<std::pair<int64_t, v1::ErrorClass>> ClassesBySize(const v1::JobStatus& job) {
  std::vector<std::pair<int64_t, v1::ErrorClass>> classes;
  for (const auto& [number, count] : job.failed_by_class())
    classes.emplace_back(count, static_cast<v1::ErrorClass>(number));
  std::sort(classes.rbegin(), classes.rend());
  return classes;
}

// "200 succeeded, 0 failed, 3 cancelled"
std::string CountsText(const v1::Counts& counts) {
  std::string text = absl::StrCat(WithCommas(counts.succeeded()), " succeeded, ",
                                  WithCommas(counts.failed()), " failed");
  if (counts.cancelled() > 0)
    absl::StrAppend(&text, ", ", WithCommas(counts.cancelled()), " cancelled");
  if (counts.expired() > 0) absl::StrAppend(&text, ", ", WithCommas(counts.expired()), " expired");
  const int64_t left = counts.total() - DoneCount(counts);
  if (left > 0) absl::StrAppend(&text, ", ", WithCommas(left), " not done");
  return text;
}

std::string HeadLine(const OutcomeText& outcome) {
  const v1::JobStatus& job = outcome.job;
  std::string head;
  switch (job.state()) {
    case v1::JOB_STATE_COMPLETED:
      head = job.counts().succeeded() == job.counts().total() ? "Done" : "Finished";
      break;
    case v1::JOB_STATE_CANCELLED:
      head = "Cancelled";
      break;
    case v1::JOB_STATE_EXPIRED:
      head = "Expired: the deadline has passed";
      break;
    case v1::JOB_STATE_FAILED:
      head = "Stopped by the error policy";
      break;
    default:
      head = absl::StrCat("Stopped (", PauseReasonWord(job.reason()), ")");
  }
  if (outcome.elapsed.has_value())
    absl::StrAppend(&head, job.state() == v1::JOB_STATE_COMPLETED ? " in " : " after ",
                    HumanDuration(*outcome.elapsed));
  return absl::StrCat(head, ": ", CountsText(job.counts()), ".\n");
}

std::string FilesText(const OutcomeText& outcome) {
  std::string text;
  if (!outcome.paths.has_value()) return text;
  if (outcome.paths->results != "-") {
    absl::StrAppend(&text, "  results  ", Printable(ShortPath(outcome.paths->results)), " (",
                    WithCommas(outcome.written.result_lines),
                    outcome.written.result_lines == 1 ? " line)\n" : " lines)\n");
  }
  if (outcome.written.error_lines > 0 && outcome.paths->errors != "-") {
    absl::StrAppend(&text, "  errors   ", Printable(ShortPath(outcome.paths->errors)), " (",
                    WithCommas(outcome.written.error_lines),
                    outcome.written.error_lines == 1 ? " line)\n" : " lines)\n");
  }
  return text;
}

std::string AccountText(const OutcomeText& outcome) {
  const v1::JobStatus& job = outcome.job;
  std::string text = absl::StrCat("  tokens   ", WithCommas(job.prompt_tokens()), " in, ",
                                  WithCommas(job.completion_tokens()), " out");
  const int64_t now = DoneCount(job.counts()) - outcome.done_before;
  if (outcome.elapsed.has_value() && *outcome.elapsed > absl::ZeroDuration() && now > 0) {
    absl::StrAppend(
        &text, absl::StrFormat("; %.1f requests/s",
                               static_cast<double>(now) / absl::ToDoubleSeconds(*outcome.elapsed)));
  }
  text += "\n";
  if (job.cost_known())
    absl::StrAppend(&text, "  cost     ", Dollars(job.cost_usd()), "\n");
  else if (!outcome.simulated)
    absl::StrAppend(&text, "  cost     unknown (no price is set)\n");
  if (const std::string again = AskedAgainText(job); !again.empty())
    absl::StrAppend(&text, "  answers  ", again, "\n");
  return text;
}

std::string NextText(const OutcomeText& outcome) {
  const v1::JobStatus& job = outcome.job;
  std::vector<std::pair<std::string, std::string>> next;
  const auto command = [&](const auto&... words) {
    return absl::StrCat(Self(), " ", words..., outcome.flags);
  };
  bool retry = false;
  for (const auto& [count, error_class] : ClassesBySize(job)) {
    const std::string word = ErrorClassWord(error_class);
    if (WorthRetrying(error_class) && !retry) {
      next.emplace_back("retry what can succeed", command("retry ", job.id(), " --class ", word));
      if (outcome.folder) next.emplace_back("", "then the same run command again");
      retry = true;
    } else if (next.size() < 3) {
      next.emplace_back("look at the rest", command("errors ", job.id(), " --class ", word));
    }
  }
  if (job.state() == v1::JOB_STATE_PAUSED && job.reason() == v1::PAUSE_REASON_BUDGET) {
    const char* const flag =
        job.options().budget_usd() > 0 ? " --budget-usd USD" : " --budget-tokens N";
    next.emplace_back("spend more",
                      outcome.folder
                          ? absl::StrCat("the same run command again with a larger", flag)
                          : command("resume ", job.id(), flag));
  }
  if (job.state() == v1::JOB_STATE_PAUSED || job.state() == v1::JOB_STATE_FAILED ||
      job.state() == v1::JOB_STATE_EXPIRED || job.state() == v1::JOB_STATE_CANCELLED)
    next.emplace_back("see its state", command("status ", job.id()));
  if (job.counts().succeeded() > 0)
    next.emplace_back("read one answer", command("results ", job.id(), " --first"));
  if (outcome.simulated) {
    next.emplace_back("a real server",
                      absl::StrCat(Self(), " run FILE --backend http://127.0.0.1:8000/v1"));
  }
  if (next.empty()) return "";
  std::string text = "\nNext\n";
  for (const auto& [what, how] : next)
    absl::StrAppend(&text, absl::StrFormat("  %-23s %s\n", what, how));
  return text;
}

}  // namespace

ErrorExamples::ErrorExamples(const v1::JobStatus& job)
    : wanted_(static_cast<size_t>(job.failed_by_class().size())), lines_left_(kLinesLookedAtMax) {}

void ErrorExamples::Look(absl::string_view lines) {
  for (const absl::string_view text : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    if (examples_.size() >= wanted_ || lines_left_-- <= 0) return;
    const Json line = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || !line.contains("nightshift") || !line["nightshift"].is_object())
      continue;
    const Json& error_class =
        line["nightshift"].contains("error_class") ? line["nightshift"]["error_class"] : Json();
    if (!error_class.is_string() || examples_.count(error_class) != 0) continue;
    std::string id;
    if (line.contains("custom_id") && line["custom_id"].is_string()) id = line["custom_id"];
    examples_[error_class] = CutToWidth(Printable(absl::StrCat(id, ": ", ErrorText(line))),
                                        kExampleCells, LocaleIsUtf8());
  }
}

std::string ErrorExamples::Of(v1::ErrorClass error_class) const {
  const auto found = examples_.find(ErrorClassWord(error_class));
  return found == examples_.end() ? "" : found->second;
}

std::string Render(const OutcomeText& outcome) {
  const v1::JobStatus& job = outcome.job;
  std::string text = HeadLine(outcome);
  if (!job.state_detail().empty()) absl::StrAppend(&text, "  why      ", job.state_detail(), "\n");
  size_t shown = 0;
  for (const auto& [count, error_class] : ClassesBySize(job)) {
    if (++shown > kClassesShownMax) break;
    std::string words = absl::StrReplaceAll(ErrorClassWord(error_class), {{"_", " "}});
    const std::string example =
        outcome.examples == nullptr ? "" : outcome.examples->Of(error_class);
    if (example.empty())
      absl::StrAppend(&text, absl::StrFormat("  %7s  %s\n", WithCommas(count), words));
    else
      absl::StrAppend(&text,
                      absl::StrFormat("  %7s  %-18s e.g. %s\n", WithCommas(count), words, example));
  }
  absl::StrAppend(&text, FilesText(outcome), AccountText(outcome), NextText(outcome));
  return text;
}

std::string ResultLine(const OutcomeText& outcome, int exit_code) {
  Json line;
  line["type"] = "result";
  const Json job = JobJson(outcome.job);
  for (const auto& [key, value] : job.items()) line[key] = value;
  line["exit_code"] = exit_code;
  if (outcome.paths.has_value()) {
    line["results_file"] = outcome.paths->results;
    line["results_lines"] = outcome.written.result_lines;
    line["errors_file"] = outcome.written.error_lines > 0 ? Json(outcome.paths->errors) : Json();
    line["errors_lines"] = outcome.written.error_lines;
  }
  return Dump(line) + "\n";
}

}  // namespace nightshift
