// The flags of the simulated server, once: name, type, default and words. The command registers
// them from this table, a test compares the table with the defaults, and README.md lists them.
#ifndef NIGHTSHIFT_CLIENT_SIM_SIM_FLAGS_H_
#define NIGHTSHIFT_CLIENT_SIM_SIM_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/sim/sim_options.h"

namespace CLI {
class App;
}

namespace nightshift {

enum class SimFlagType { kText, kInt, kNumber, kDuration, kChoice, kSwitch };

struct SimFlag {
  const char* name;  // without the dashes
  SimFlagType type;
  const char* placeholder;   // for kChoice the choices, separated by '|'
  const char* default_text;  // empty = not set
  const char* help;
};

const std::vector<SimFlag>& SimFlags();

// Sets the option that the flag `name` stands for. InvalidArgument, naming flag and value, when the
// text is not one of its type; NotFound when there is no such flag.
absl::Status SetSimFlag(SimServerOptions& options, absl::string_view name, absl::string_view text);

// Registers all of them; values go into `options`, which must outlive the parse. Values that
// cannot be used make the parse fail with the message of SetSimFlag.
void AddSimFlags(CLI::App& app, SimServerOptions& options);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_SIM_FLAGS_H_
