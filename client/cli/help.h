// The help texts, made from the tables in flag_table.h.
#ifndef NIGHTSHIFT_CLIENT_CLI_HELP_H_
#define NIGHTSHIFT_CLIENT_CLI_HELP_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/flag_table.h"

namespace nightshift {

// `nightshift` alone.
std::string OverviewHelp();
std::string CommandHelp(const CommandSpec& command);
// A command, or one of exit-codes, environment, formats. NotFound suggests the nearest.
absl::StatusOr<std::string> TopicHelp(absl::string_view topic);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_HELP_H_
