// watch, and what `submit --wait` shares with it.
#include "client/commands/watch.h"

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "client/cli/self.h"
#include "client/cli/shell_quote.h"
#include "client/commands/follow.h"
#include "client/commands/outcome_text.h"
#include "client/commands/results_ahead.h"
#include "client/output/text_table.h"

namespace nightshift {
namespace {

int Failed(CommandContext& context, const Connection& connection, const absl::Status& status) {
  Failure failure = CallFailure(status, connection);
  if (absl::IsUnavailable(status))
    failure.hint = "the job is safe: its state is the coordinator's; watch it again later";
  return context.console.Fail(failure);
}

int TimedOut(CommandContext& context, const std::string& again) {
  Failure failure;
  failure.exit = ExitCode::kStopped;
  failure.code = "timeout";
  failure.message = absl::StrCat("not over after ", HumanDuration(context.settings.Span("timeout")),
                                 "; the job goes on");
  failure.hint = again;
  return context.console.Fail(failure);
}

}  // namespace

int FollowToTheEnd(CommandContext& context, Connection& connection, const v1::JobStatus& job,
                   const std::optional<OutputPaths>& paths) {
  Console& console = context.console;
  const std::string again = absl::StrCat(Self(), " watch ", job.id(), connection.flags());
  FollowOptions options;
  options.job = job.id();
  if (context.settings.Has("timeout")) options.timeout = context.settings.Span("timeout");
  options.reconnect = context.settings.Span("reconnect");
  options.where = connection.where();
  StopSwitch stop;
  FollowResult followed;
  {
    JobProgress progress(context);
    context.signals.SetHandlers(
        [&](int signal, int) {
          console.Note(
              absl::StrCat("Stopped watching; the job goes on. Watch again:\n  ", again, "\n"));
          stop.Set(signal);
        },
        [&progress] { progress.PrintNow(); });
    followed = Follow(connection.client(), options, console, progress, stop);
    context.signals.ClearHandlers();
  }
  switch (followed.end) {
    case FollowResult::End::kStopped:
      return static_cast<int>(ExitCodeOfSignal(stop.signal()));
    case FollowResult::End::kTimeout:
      return TimedOut(context, again);
    case FollowResult::End::kFailed:
      return Failed(context, connection, followed.status);
    case FollowResult::End::kOver:
      break;
  }
  OutcomeText outcome;
  outcome.job = followed.job;
  outcome.flags = connection.flags();
  ErrorExamples examples(followed.job);
  if (paths.has_value()) {
    absl::StatusOr<WrittenFiles> written =
        WriteOutputs(connection.client(), followed.job, *paths, nullptr, nullptr,
                     [&examples](const std::string& lines) { examples.Look(lines); });
    if (!written.ok()) {
      Failure failure = FailureFrom(written.status());
      failure.exit = ExitCode::kInternal;
      failure.code = "output";
      failure.hint = absl::StrCat("all answers are saved: ", Self(), " results ", job.id(),
                                  connection.flags(), " -o FILE");
      return console.Fail(failure);
    }
    outcome.paths = paths;
    outcome.written = *written;
    outcome.examples = &examples;
  }
  const int code = static_cast<int>(ExitCodeOf(followed.job));
  if (console.json())
    console.Out(ResultLine(outcome, code));
  else
    console.Note(Render(outcome));
  return code;
}

int WatchCommand(CommandContext& context) {
  Failure failure;
  context.console.Note(absl::StrCat("Watching ", Printable(context.argument()), "\n"));
  const auto connection = Connection::Open(context.settings, Connection::Kind::kAny, &failure);
  if (connection == nullptr) return context.console.Fail(failure);
  const absl::StatusOr<v1::JobStatus> job =
      connection->client().GetJob(std::string(context.argument()));
  if (!job.ok()) return context.console.Fail(CallFailure(job.status(), *connection));
  if (connection->folder() && !JobIsOver(*job)) {
    failure.exit = ExitCode::kUnreachable;
    failure.code = "nobody_works";
    failure.message = absl::StrCat("nothing works on ", job->id(), ": no process has ",
                                   connection->where(), " open");
    failure.hint = absl::StrCat("the same `run` command goes on with it: ", Self(), " run ",
                                ShellQuote(job->options().input_name()), " ...");
    return context.console.Fail(failure);
  }
  return FollowToTheEnd(context, *connection, *job, std::nullopt);
}

}  // namespace nightshift
