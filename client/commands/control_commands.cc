// The commands that change a job: pause, resume, cancel, retry, delete.
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "client/cli/self.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_text.h"

namespace nightshift {
namespace {

using Action = v1::ControlJobRequest;

std::string Unfinished(const v1::JobStatus& job) {
  const int64_t left = job.counts().total() - DoneCount(job.counts());
  return absl::StrCat(WithCommas(left), left == 1 ? " request" : " requests");
}

bool NewBudget(const v1::JobOptions& before, const v1::JobOptions& after) {
  return before.budget_usd() != after.budget_usd() ||
         before.budget_tokens() != after.budget_tokens();
}

// Asks on a terminal; elsewhere --yes has to say it.
bool Agreed(CommandContext& context, const std::string& what, Failure* failure) {
  if (context.settings.On("yes")) return true;
  const bool can_ask =
      isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 && !context.console.json();
  if (!can_ask) {
    *failure = UsageFailure(absl::StrCat("this would ", what), "--yes says that it is meant");
    failure->code = "needs_yes";
    return false;
  }
  context.console.Say(absl::StrCat("This will ", what, ".\nGo on? [y/N] "));
  std::string answer;
  std::getline(std::cin, answer);
  answer = absl::AsciiStrToLower(answer);
  if (answer == "y" || answer == "yes") return true;
  *failure = UsageFailure("nothing was changed");
  failure->code = "declined";
  return false;
}

// What a person reads after the change; `flags` leads follow-up commands to the same place.
std::string Done(const Connection& connection, Action::Action action, const v1::JobStatus& before,
                 const v1::JobStatus& after) {
  const std::string& id = before.id();
  switch (action) {
    case Action::PAUSE:
      return absl::StrCat("Paused ", id, ". Go on with: ", Self(), " resume ", id,
                          connection.flags(), "\n");
    case Action::RESUME:
      // A person's pause is over; what holds every job up, such as a disk that is nearly full, says
      // so here ("paused: ...").
      if (after.state() == v1::JOB_STATE_PAUSED) {
        return absl::StrCat("Resumed ", id, ", but it is still ", after.waiting_for(), ".\n");
      }
      return absl::StrCat("Resumed ", id, ": ", Unfinished(after), " to go.\n",
                          !connection.folder() ? ""
                          : NewBudget(before.options(), after.options())
                              ? "Run the same `run` command again, with this budget.\n"
                              : "Run the same `run` command again.\n");
    case Action::CANCEL:
      return absl::StrCat("Cancelled ", id, ". Its answers stay: ", Self(), " results ", id,
                          connection.flags(), "\n");
    case Action::RETRY: {
      const int64_t again = DoneCount(before.counts()) - DoneCount(after.counts());
      if (again <= 0) return absl::StrCat("Nothing to retry in ", id, ".\n");
      return absl::StrCat(
          WithCommas(again), again == 1 ? " request waits" : " requests wait", " again in ", id,
          connection.folder()
              ? absl::StrCat(". Run the same command again: ", Self(), " run ",
                             before.options().input_name(), " ...\n")
              : absl::StrCat(". Follow: ", Self(), " watch ", id, connection.flags(), "\n"));
    }
    case Action::DELETE:
      return absl::StrCat("Deleted ", id, ".\n");
    default:
      return "";
  }
}

// The job as it is. A caller whose role may not change jobs hears that, and not whether there is
// one: it would look for a slip in the id.
absl::StatusOr<v1::JobStatus> FindToChange(JobClient& client, const std::string& job) {
  absl::StatusOr<v1::JobStatus> found = client.GetJob(job);
  if (!absl::IsNotFound(found.status())) return found;
  // Changes nothing, and is refused as any change would be.
  const absl::Status change = client.Control(job, Action::UNSPECIFIED).status();
  if (absl::IsPermissionDenied(change)) return change;
  return found;
}

int Change(CommandContext& context, Action::Action action) {
  Failure failure;
  v1::ControlJobRequest request;
  request.set_action(action);
  if (action == Action::RETRY) {
    for (const std::string& word : context.settings.List("class")) {
      v1::ErrorClass error_class = v1::ERROR_CLASS_NONE;
      if (!ParseErrorClass(word, &error_class)) {
        return context.console.Fail(
            UsageFailure(absl::StrCat("--class: \"", word, "\" is no error class"),
                         absl::StrCat("the classes are ", KnownErrorClasses())));
      }
      request.add_classes(error_class);
    }
  }
  if (action == Action::RESUME) {
    // Said here and now: a configured budget is for the jobs that are handed in with it.
    const auto said = [&](const char* flag) {
      return context.settings.all().at(flag).source == Source::kFlag;
    };
    if (said("budget-usd")) request.set_budget_usd(context.settings.Number("budget-usd"));
    if (said("budget-tokens")) request.set_budget_tokens(context.settings.Int("budget-tokens"));
  }
  const auto connection = Connection::Open(context.settings, Connection::Kind::kAny, &failure);
  if (connection == nullptr) return context.console.Fail(failure);
  JobClient& client = connection->client();
  const absl::StatusOr<v1::JobStatus> before =
      FindToChange(client, std::string(context.argument()));
  if (!before.ok()) return context.console.Fail(CallFailure(before.status(), *connection));
  std::string what;
  if (action == Action::CANCEL && before->finished_at_ms() == 0) {
    what = absl::StrCat("end ", before->id(), " now: ", Unfinished(*before),
                        " will never be answered");
  } else if (action == Action::DELETE) {
    what = absl::StrCat("delete ", before->id(), " with ", WithCommas(before->counts().succeeded()),
                        " answers; files written already stay");
  }
  if (!what.empty() && !Agreed(context, what, &failure)) return context.console.Fail(failure);

  request.set_job(before->id());
  const absl::StatusOr<v1::JobStatus> after = client.Control(request);
  if (!after.ok()) {
    failure = CallFailure(after.status(), *connection);
    if (absl::IsFailedPrecondition(after.status())) failure.code = "wrong_state";
    return context.console.Fail(failure);
  }
  if (context.console.json())
    context.console.Out(Dump(JobJson(*after)) + "\n");
  else
    context.console.Note(Done(*connection, action, *before, *after));
  return 0;
}

}  // namespace

int PauseCommand(CommandContext& context) { return Change(context, Action::PAUSE); }
int ResumeCommand(CommandContext& context) { return Change(context, Action::RESUME); }
int CancelCommand(CommandContext& context) { return Change(context, Action::CANCEL); }
int RetryCommand(CommandContext& context) { return Change(context, Action::RETRY); }
int DeleteCommand(CommandContext& context) { return Change(context, Action::DELETE); }

}  // namespace nightshift
