// The flags of the simulated server, taken into the table of all flags so that help, configuration
// files and the environment know them.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_SIM_FLAGS_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_SIM_FLAGS_H_

#include "absl/status/status.h"
#include "client/cli/settings.h"
#include "client/sim/sim_options.h"

namespace nightshift {

// Once, before the table is asked for anything.
void RegisterSimFlags();

// What the settings of `sim-server` say. InvalidArgument names the flag.
absl::Status ReadSimFlags(const Settings& settings, SimServerOptions* options);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_SIM_FLAGS_H_
