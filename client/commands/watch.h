// Following a job of a coordinator to its end: the whole of `watch`, and the end of
// `submit --wait`.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_WATCH_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_WATCH_H_

#include <optional>

#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/output_files.h"

namespace nightshift {

// Returns the job's own exit code, or that of what went wrong on the way. With `paths`, writes the
// files at the end.
int FollowToTheEnd(CommandContext& context, Connection& connection, const v1::JobStatus& job,
                   const std::optional<OutputPaths>& paths);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_WATCH_H_
