// Every flag and every command of the program, once. Parsing, help, configuration keys and
// environment variables are all made from these two tables.
#ifndef NIGHTSHIFT_CLIENT_CLI_FLAG_TABLE_H_
#define NIGHTSHIFT_CLIENT_CLI_FLAG_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace nightshift {

// Sets of commands. A flag names the commands that take it.
using CommandSet = uint32_t;

enum class FlagType {
  kSwitch,    // no value on the command line; true or false elsewhere
  kText,      // any text
  kInt,       // a whole number
  kNumber,    // a decimal number
  kDuration,  // base/units.h
  kSize,      // base/units.h
  kChoice,    // one of `choices`, which are separated by '|'
  kList,      // text, may be given several times; comma separated in the environment
};

struct FlagSpec {
  const char* name;  // also the configuration key
  char short_name;   // 0 = none
  FlagType type;
  const char* placeholder;   // "FILE"; for kChoice the choices
  const char* default_text;  // parsed like a given value; empty = not set
  const char* help;
  CommandSet commands;
  int64_t minimum;  // of kInt and kNumber; of kDuration in milliseconds
};

struct CommandSpec {
  const char* name;
  CommandSet bit;
  const char* positionals;  // "INPUT", "JOB", "[TOPIC]", …; empty = none
  const char* summary;      // one line
  const char* text;         // what a person must know besides the flags; may be empty
  const char* examples;     // lines that can be pasted
};

const std::vector<FlagSpec>& AllFlags();
// Adds flags that another library defines. Before anything else is asked of the table.
void RegisterFlags(const std::vector<FlagSpec>& flags);
const std::vector<CommandSpec>& AllCommands();

// Null when there is none of that name.
const CommandSpec* FindCommand(absl::string_view name);
// The flag of that name that `command` takes; with nullptr, of any command (the first).
const FlagSpec* FindFlag(absl::string_view name, const CommandSpec* command);

// True for the flags that every command takes.
bool IsShared(const FlagSpec& flag);

// "max-attempts" -> "NIGHTSHIFT_MAX_ATTEMPTS".
std::string EnvironmentName(absl::string_view flag);

// Whether `text` is a value of that flag; the reason does not name the flag.
absl::Status CheckFlagValue(const FlagSpec& flag, absl::string_view text);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_FLAG_TABLE_H_
