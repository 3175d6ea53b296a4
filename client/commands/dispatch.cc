#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <string>

#include "base/log.h"
#include "client/cli/help.h"
#include "client/cli/self.h"
#include "client/commands/command.h"
#include "client/commands/sim_flags.h"

namespace nightshift {
namespace {

using Function = int (*)(CommandContext&);

const std::map<std::string, Function>& Functions() {
  static const auto* const functions = new std::map<std::string, Function>{
      {"run", RunCommand},         {"coordinator", CoordinatorCommand},
      {"worker", WorkerCommand},   {"submit", SubmitCommand},
      {"jobs", JobsCommand},       {"status", StatusCommand},
      {"watch", WatchCommand},     {"results", ResultsCommand},
      {"errors", ErrorsCommand},   {"pause", PauseCommand},
      {"resume", ResumeCommand},   {"cancel", CancelCommand},
      {"retry", RetryCommand},     {"delete", DeleteCommand},
      {"workers", WorkersCommand}, {"audit", AuditCommand},
      {"help", HelpCommand},       {"version", VersionCommand},
      {"config", ConfigCommand},   {"sim-server", SimServerCommand},
      {"backup", BackupCommand},   {"token", TokenCommand},
  };
  return *functions;
}

LogLevel LevelOf(const std::string& word) {
  if (word == "debug") return LogLevel::kDebug;
  if (word == "info") return LogLevel::kInfo;
  if (word == "error") return LogLevel::kError;
  if (word == "off") return LogLevel::kOff;
  return LogLevel::kWarning;
}

// A stream that the parent closed leaves its number to the next file that is opened; messages would
// then be written into the store's files. What stands there instead refuses to be written, so that
// output which is lost is told as before.
void FillClosedStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDONLY);
  }
}

// gRPC has a log of its own on standard error, which nobody asked for.
void SilenceGrpc() { setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0); }

}  // namespace

int Main(int argc, const char* const* argv) {
  FillClosedStreams();
  SignalThread::Block();
  SilenceGrpc();
  if (argc > 0) SetSelf(argv[0]);
  RegisterSimFlags();
  Console console;
  std::variant<Invocation, ParseFailure> parsed = ParseCommandLine(argc, argv);
  if (const auto* const failed = std::get_if<ParseFailure>(&parsed); failed != nullptr) {
    console.Configure({.json = failed->json, .quiet = false, .color = "auto"});
    return console.Fail(failed->failure);
  }
  const Invocation& invocation = std::get<Invocation>(parsed);
  if (invocation.help) {
    console.Out(invocation.command == nullptr || invocation.command->name == std::string("help")
                    ? OverviewHelp()
                    : CommandHelp(*invocation.command));
    return 0;
  }
  const Settings& settings = invocation.settings;
  console.Configure({.json = settings.On("json"),
                     .quiet = settings.On("quiet"),
                     .color = settings.Text("color")});
  SetLogLevel(LevelOf(settings.Text("log-level")));
  SignalThread signals;
  CommandContext context{invocation, settings, console, signals};
  int code = 0;
  if (invocation.command != nullptr)
    code = Functions().at(invocation.command->name)(context);
  else if (invocation.version)
    code = VersionCommand(context);
  else
    console.Out(OverviewHelp());
  // Standard output that could not be written is a failure, unless its reader has gone away.
  if (code == 0 && console.output_errno() != 0 && console.output_errno() != EPIPE) {
    Failure failure;
    failure.code = "output";
    failure.message = absl::StrCat("standard output: ", strerror(console.output_errno()));
    return console.Fail(failure);
  }
  return code;
}

}  // namespace nightshift
