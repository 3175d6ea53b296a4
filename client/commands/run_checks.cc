#include "client/commands/run_checks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
#include "client/commands/job_text.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

// What the job may cost, from its cheapest to its dearest course; nullopt where a price is unknown.
struct CostRange {
  double low = 0;
  double high = 0;
};

std::optional<CostRange> EstimateCost(const InputScan& scan,
                                      const std::vector<BackendSpec>& backends) {
  if (backends.empty()) return std::nullopt;
  CostRange range;
  const auto [prompt_low, prompt_high] = PromptTokenRange(scan.body_bytes);
  bool first = true;
  for (const BackendSpec& backend : backends) {
    if (backend.price_prompt_per_million < 0 || backend.price_completion_per_million < 0)
      return std::nullopt;
    const double low = prompt_low * backend.price_prompt_per_million / 1e6;
    const double high =
        (prompt_high * backend.price_prompt_per_million +
         static_cast<double>(scan.max_tokens) * backend.price_completion_per_million) /
        1e6;
    range.low = first ? low : std::min(range.low, low);
    range.high = first ? high : std::max(range.high, high);
    first = false;
  }
  return range;
}

// "3,082", "84.7k", "4.1M"
std::string TokensText(double tokens) {
  return tokens < 10'000 ? WithCommas(static_cast<int64_t>(tokens)) : ShortCount(tokens);
}

std::string ValidText(const InputScan& scan) {
  return scan.bad_count == 0 ? "all valid"
                             : absl::StrCat(WithCommas(scan.bad_count), " cannot be used");
}

const char* Noun(const InputScan& scan) {
  if (scan.format == InputFormat::kCsv) return scan.requests == 1 ? " row" : " rows";
  return scan.requests == 1 ? " request" : " requests";
}

Failure NotOurs(const std::string& path) {
  Failure failure =
      UsageFailure(absl::StrCat(ShortPath(path), " exists and is not this job's file"),
                   "-o FILE and --errors FILE write elsewhere; --force replaces it");
  failure.code = "output_exists";
  return failure;
}

Failure Claimed(const std::string& path, const v1::JobStatus& other) {
  Failure failure = UsageFailure(
      absl::StrCat(ShortPath(path), " belongs to ", other.id(), " (", other.options().input_name(),
                   ", ", WithCommas(DoneCount(other.counts())), " of ",
                   WithCommas(other.counts().total()),
                   " done), and the input or an option that changes the requests is not the same "
                   "any more"),
      absl::StrCat("-o FILE writes elsewhere; --force starts a new job and replaces the file; the "
                   "answers of ",
                   other.id(), " stay in the data folder either way"));
  failure.code = "output_belongs_to_another_job";
  return failure;
}

}  // namespace

bool MayWriteFiles(JobClient& client, absl::string_view ours, const OutputPaths& paths,
                   Failure* failure) {
  const absl::StatusOr<std::vector<v1::JobStatus>> jobs = client.ListAllJobs();
  if (!jobs.ok()) {
    *failure = FailureFrom(jobs.status());
    return false;
  }
  for (const v1::JobStatus& other : *jobs) {
    if (IsSpecialFile(paths.results)) break;
    if (other.options().output_path() != paths.results) continue;
    // The newest that claims the path has it. An unfinished job will want its file; of an ended
    // one only the file itself can be lost.
    if (other.id() != ours &&
        (other.finished_at_ms() == 0 ||
         (!NothingToLose(paths.results) && MayReplace(other.id(), paths.results)))) {
      *failure = Claimed(paths.results, other);
      return false;
    }
    break;
  }
  for (const std::string& path : {paths.results, paths.errors}) {
    if (!MayReplace(ours, path)) {
      *failure = NotOurs(path);
      return false;
    }
  }
  return true;
}

std::string KeptOptionsText(const Settings& settings, const v1::JobOptions& then,
                            const v1::JobOptions& now, bool ended) {
  std::vector<std::string> kept;
  const auto compare = [&](const char* flag, auto was, auto said) {
    if (settings.Chosen(flag) && was != said) kept.push_back(absl::StrCat("--", flag));
  };
  compare("priority", then.priority(), now.priority());
  compare("weight", std::max(1, then.weight()), now.weight());
  compare("speculation", then.speculation(), now.speculation());
  compare("deadline", then.deadline_ms(), now.deadline_ms());
  compare("max-attempts", then.max_attempts(), now.max_attempts());
  compare("request-timeout", then.request_timeout_ms(), now.request_timeout_ms());
  if (ended) {
    compare("budget-usd", then.budget_usd(), now.budget_usd());
    compare("budget-tokens", then.budget_tokens(), now.budget_tokens());
  }
  compare("on-truncated", then.on_truncated(), now.on_truncated());
  compare("on-empty", then.on_empty(), now.on_empty());
  const std::string route_then = then.route().SerializeAsString();
  const std::string route_now = now.route().SerializeAsString();
  for (const char* flag : {"rollout", "backend-weight", "fallback"}) {
    compare(flag, route_then, route_now);
  }
  compare("stop-on-error-rate", then.stop_on_error_rate(), now.stop_on_error_rate());
  if (kept.empty()) return "";
  return absl::StrCat("warning: the job keeps what it began with; this changes nothing now: ",
                      absl::StrJoin(kept, ", "), "\n");
}

std::string InputLine(const std::string& name, const InputScan& scan) {
  const auto [low, high] = PromptTokenRange(scan.body_bytes);
  return absl::StrCat(name, ": ", WithCommas(scan.requests), Noun(scan), ", ", ValidText(scan),
                      ", about ", TokensText((low + high) / 2), " prompt tokens");
}

std::string DryRunText(const std::string& name, const InputScan& scan,
                       const std::vector<BackendSpec>& backends) {
  const auto [low, high] = PromptTokenRange(scan.body_bytes);
  std::string models;
  for (const auto& [model, count] : scan.models) {
    absl::StrAppend(&models, models.empty() ? "" : ", ",
                    model.empty() ? "the backend's own" : model, " (", WithCommas(count), ")");
  }
  std::string text =
      absl::StrCat(name, ": ", WithCommas(scan.requests), Noun(scan), ", ", ValidText(scan),
                   ". Nothing was sent.\n  models          ", models.empty() ? "-" : models,
                   "\n  prompt tokens   ", TokensText(low), " to ", TokensText(high),
                   " (estimated from bytes)\n  answer tokens   ");
  if (scan.without_max_tokens == 0) {
    absl::StrAppend(&text, "at most ", TokensText(static_cast<double>(scan.max_tokens)), "\n");
  } else {
    absl::StrAppend(&text, "unknown (", WithCommas(scan.without_max_tokens), " of ",
                    WithCommas(scan.requests), " set no max_tokens)\n");
  }
  const std::optional<CostRange> cost = EstimateCost(scan, backends);
  if (!cost.has_value()) {
    absl::StrAppend(&text, "  cost            unknown (no price is set for the backend)\n");
  } else if (scan.without_max_tokens > 0) {
    absl::StrAppend(&text, "  cost            at least ", Dollars(cost->low),
                    " (the answers' length is unknown)\n");
  } else {
    absl::StrAppend(&text, "  cost            ", Dollars(cost->low), " to ", Dollars(cost->high),
                    "\n");
  }
  return text;
}

std::string DryRunJson(const std::string& name, const InputScan& scan,
                       const std::vector<BackendSpec>& backends) {
  const auto [low, high] = PromptTokenRange(scan.body_bytes);
  Json out;
  out["type"] = "result";
  out["dry_run"] = true;
  out["input"] = name;
  out["requests"] = scan.requests;
  out["bad_lines"] = scan.bad_count;
  out["models"] = Json::object();
  for (const auto& [model, count] : scan.models) out["models"][model] = count;
  out["prompt_tokens"] = Json::array({static_cast<int64_t>(low), static_cast<int64_t>(high)});
  out["completion_tokens_max"] = scan.without_max_tokens == 0 ? Json(scan.max_tokens) : Json();
  const std::optional<CostRange> cost = EstimateCost(scan, backends);
  out["cost_usd"] = !cost.has_value()
                        ? Json()
                        : Json::array({Json(cost->low),
                                       scan.without_max_tokens == 0 ? Json(cost->high) : Json()});
  return Dump(out) + "\n";
}

}  // namespace nightshift
