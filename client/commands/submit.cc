// `nightshift submit`: a job handed to a coordinator over the network.
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "base/units.h"
#include "client/cli/self.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/hand_in.h"
#include "client/commands/job_input.h"
#include "client/commands/job_options.h"
#include "client/commands/job_text.h"
#include "client/commands/route_flags.h"
#include "client/commands/run_checks.h"
#include "client/commands/watch.h"

namespace nightshift {
namespace {

// Every submit is a job of its own; the token only finds it again when the answer got lost.
std::string NewSubmissionToken() {
  Random random = Random::FromSystem();
  return absl::StrFormat("submit-%016x%016x", random.Next(), random.Next());
}

Failure InputFailure(const absl::Status& status) {
  Failure failure = UsageFailure(std::string(status.message()));
  failure.code = "refused_input";
  return failure;
}

int DryRun(CommandContext& context, const InputOptions& input, const std::string& name) {
  const absl::StatusOr<InputScan> scan = ScanInput(input, /*count_answers=*/true);
  if (!scan.ok()) return context.console.Fail(InputFailure(scan.status()));
  if (scan->bad_count > 0 && !context.settings.On("skip-bad-lines"))
    return context.console.Fail(
        RefusedInput(name, scan->requests, scan->bad_count, scan->bad_lines));
  context.console.Out(context.console.json() ? DryRunJson(name, *scan, {})
                                             : DryRunText(name, *scan, {}));
  return 0;
}

// The models of the fleet, if every backend of it lists its models; else empty, and anything goes.
std::set<std::string> FleetModels(JobClient& client) {
  std::set<std::string> models;
  const absl::StatusOr<std::vector<v1::WorkerStatus>> workers = client.ListWorkers();
  if (!workers.ok()) return models;  // the submission will say what is wrong
  for (const v1::WorkerStatus& worker : *workers) {
    for (const v1::WorkerBackendStatus& backend : worker.backends()) {
      if (backend.models().empty()) return {};
      models.insert(backend.models().begin(), backend.models().end());
    }
  }
  return models;
}

// Requests that name no model get the only one there is; where there are several, the first such
// request refuses the job.
void SettleModel(const std::set<std::string>& models, InputOptions* input, HandInOptions* options) {
  if (!input->request.model.empty() || models.empty()) return;
  if (models.size() == 1) {
    input->request.model = *models.begin();
    return;
  }
  const std::string listed = absl::StrJoin(models, ", ");
  options->check = [listed](const ParsedRequest& request, int64_t line) -> absl::Status {
    if (!request.model.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line, " names no model, and the workers have several: ", listed,
                     "; choose one with --model. Nothing was run"));
  };
}

// The files that --wait writes: those that were named.
bool ChooseFiles(const Settings& settings, const std::string& input,
                 std::optional<OutputPaths>* files, Failure* failure) {
  if (!settings.Chosen("output") && !settings.Chosen("errors")) return true;
  absl::StatusOr<OutputPaths> paths = ChooseOutputPaths(settings, input);
  absl::Status status = paths.status();
  if (status.ok() && settings.On("wait")) status = CheckWritable(*paths);
  if (!status.ok()) {
    *failure = FailureFrom(status);
    failure->exit = ExitCode::kUsage;
    failure->code = "output_unwritable";
    return false;
  }
  for (const std::string& path : {paths->results, paths->errors}) {
    if (settings.On("wait") && !settings.On("force") && !NothingToLose(path)) {
      *failure = UsageFailure(absl::StrCat(ShortPath(path), " exists and is not this job's file"),
                              "-o FILE and --errors FILE write elsewhere; --force replaces it");
      failure->code = "output_exists";
      return false;
    }
  }
  *files = *std::move(paths);
  return true;
}

}  // namespace

int SubmitCommand(CommandContext& context) {
  const Settings& settings = context.settings;
  Console& console = context.console;
  const std::string path(context.argument());
  const std::string name = path == "-" ? "standard input" : path;
  absl::StatusOr<InputOptions> input = MakeInputOptions(settings, path);
  if (!input.ok()) return console.Fail(InputFailure(input.status()));
  if (settings.On("dry-run")) return DryRun(context, *input, name);
  Failure failure;
  std::optional<OutputPaths> files;
  if (!ChooseFiles(settings, path, &files, &failure)) return console.Fail(failure);

  console.Note(absl::StrCat("Handing in ", name, " to ", settings.Text("coordinator"), "\n"));
  const auto connection = Connection::Open(settings, Connection::Kind::kNetwork, &failure);
  if (connection == nullptr) return console.Fail(failure);
  HandInOptions options;
  options.job = MakeJobOptions(settings, name);
  // Who the workers' backends are may change at any time: an unknown name is no mistake here.
  if (const absl::Status route = ReadRoute(settings, {}, &options.job); !route.ok())
    return console.Fail(UsageFailure(std::string(route.message())));
  if (files.has_value()) {
    options.job.set_output_path(files->results);
    options.job.set_errors_path(files->errors);
  }
  options.skip_bad_lines = settings.On("skip-bad-lines");
  options.token = NewSubmissionToken();
  SettleModel(FleetModels(connection->client()), &*input, &options);
  bool input_failed = false;
  absl::StatusOr<HandInResult> handed =
      HandIn(connection->client(), *input, options, &input_failed);
  if (!handed.ok()) {
    failure =
        input_failed ? InputFailure(handed.status()) : CallFailure(handed.status(), *connection);
    return console.Fail(failure);
  }
  const v1::SubmitReply& reply = handed->reply;
  if (reply.result() == v1::SubmitReply::REFUSED) {
    return console.Fail(RefusedInput(name, handed->stats.requests, reply.bad_count(),
                                     {reply.bad_lines().begin(), reply.bad_lines().end()}));
  }
  for (const std::string& warning : handed->warnings)
    console.Note(absl::StrCat("warning: ", warning, "\n"));
  const v1::JobStatus& job = reply.job();
  const bool wait = settings.On("wait");
  // Under --json --wait the lines that follow carry the id.
  if (!console.json())
    console.Out(absl::StrCat(job.id(), "\n"));
  else if (!wait)
    console.Out(absl::StrCat(Dump(JobJson(job)), "\n"));
  const int64_t total = job.counts().total();
  const int64_t bad = job.counts().failed();
  console.Note(absl::StrCat(
      "Submitted ", WithCommas(total), total == 1 ? " request" : " requests",
      bad == 0 ? " (all valid)." : absl::StrCat(" (", WithCommas(bad), " cannot be used)."),
      wait ? "" : absl::StrCat(" Follow: ", Self(), " watch ", job.id(), connection->flags()),
      "\n"));
  if (wait) return FollowToTheEnd(context, *connection, job, files);
  if (files.has_value()) {
    console.Note(absl::StrCat("The files are written by: ", Self(), " results ", job.id(),
                              connection->flags(), " -o FILE (or submit with --wait)\n"));
  }
  return 0;
}

}  // namespace nightshift
