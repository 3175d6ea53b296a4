// What every command gets, and the commands themselves. Each returns the number that the program
// ends with, having said why.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_COMMAND_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_COMMAND_H_

#include "absl/strings/string_view.h"
#include "client/cli/console.h"
#include "client/cli/parse.h"
#include "client/cli/signals.h"

namespace nightshift {

struct CommandContext {
  const Invocation& invocation;
  const Settings& settings;
  Console& console;
  SignalThread& signals;

  // The first word after the command; empty when there is none.
  absl::string_view argument() const {
    return invocation.positionals.empty() ? absl::string_view()
                                          : absl::string_view(invocation.positionals[0]);
  }
};

int RunCommand(CommandContext& context);
int SubmitCommand(CommandContext& context);

int CoordinatorCommand(CommandContext& context);
int WorkerCommand(CommandContext& context);
int SimServerCommand(CommandContext& context);

int JobsCommand(CommandContext& context);
int StatusCommand(CommandContext& context);
int WatchCommand(CommandContext& context);
int ResultsCommand(CommandContext& context);
int ErrorsCommand(CommandContext& context);

int PauseCommand(CommandContext& context);
int ResumeCommand(CommandContext& context);
int CancelCommand(CommandContext& context);
int RetryCommand(CommandContext& context);
int DeleteCommand(CommandContext& context);

int WorkersCommand(CommandContext& context);
int AuditCommand(CommandContext& context);
int BackupCommand(CommandContext& context);
int TokenCommand(CommandContext& context);

int HelpCommand(CommandContext& context);
int VersionCommand(CommandContext& context);
int ConfigCommand(CommandContext& context);

// Parses, sets the program up, and runs the command.
int Main(int argc, const char* const* argv);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_COMMAND_H_
