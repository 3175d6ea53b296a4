// From argv to a command with its settings.
#ifndef NIGHTSHIFT_CLIENT_CLI_PARSE_H_
#define NIGHTSHIFT_CLIENT_CLI_PARSE_H_

#include <string>
#include <variant>
#include <vector>

#include "client/cli/failure.h"
#include "client/cli/flag_table.h"
#include "client/cli/settings.h"

namespace nightshift {

struct Invocation {
  const CommandSpec* command = nullptr;  // null: `nightshift` alone
  bool help = false;                     // -h or --help, anywhere
  bool version = false;                  // --version without a command
  std::vector<std::string> positionals;
  Settings settings;
  std::vector<std::string> words;  // argv as it was, to be said again
};

// A failed parse still tells whether JSON was asked for, since the failure is shown in that form.
struct ParseFailure {
  Failure failure;
  bool json = false;
};

// The command may stand anywhere among the flags; `--` ends them.
std::variant<Invocation, ParseFailure> ParseCommandLine(int argc, const char* const* argv);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_PARSE_H_
