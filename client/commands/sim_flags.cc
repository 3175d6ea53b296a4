#include "client/commands/sim_flags.h"

#include <string>
#include <vector>

#include "client/cli/command_set.h"
#include "client/cli/flag_table.h"
#include "client/sim/sim_flags.h"

namespace nightshift {
namespace {

FlagType TypeOf(SimFlagType type) {
  switch (type) {
    case SimFlagType::kText:
      return FlagType::kText;
    case SimFlagType::kInt:
      return FlagType::kInt;
    case SimFlagType::kNumber:
      return FlagType::kNumber;
    case SimFlagType::kDuration:
      return FlagType::kDuration;
    case SimFlagType::kChoice:
      return FlagType::kChoice;
    case SimFlagType::kSwitch:
      return FlagType::kSwitch;
  }
  return FlagType::kText;
}

}  // namespace

void RegisterSimFlags() {
  std::vector<FlagSpec> flags;
  for (const SimFlag& flag : SimFlags()) {
    flags.push_back({flag.name, 0, TypeOf(flag.type), flag.placeholder, flag.default_text,
                     flag.help, kSimServer, INT64_MIN});
  }
  RegisterFlags(flags);
}

absl::Status ReadSimFlags(const Settings& settings, SimServerOptions* options) {
  for (const SimFlag& flag : SimFlags()) {
    if (!settings.Chosen(flag.name)) continue;
    const absl::Status set = SetSimFlag(*options, flag.name, settings.Text(flag.name));
    if (!set.ok()) return set;
  }
  return ValidateSimOptions(*options);
}

}  // namespace nightshift
