// The bits of CommandSet, for the tables.
#ifndef NIGHTSHIFT_CLIENT_CLI_COMMAND_SET_H_
#define NIGHTSHIFT_CLIENT_CLI_COMMAND_SET_H_

#include "client/cli/flag_table.h"

namespace nightshift {

inline constexpr CommandSet kRun = 1u << 0;
inline constexpr CommandSet kCoordinator = 1u << 1;
inline constexpr CommandSet kWorker = 1u << 2;
inline constexpr CommandSet kSubmit = 1u << 3;
inline constexpr CommandSet kJobs = 1u << 4;
inline constexpr CommandSet kStatus = 1u << 5;
inline constexpr CommandSet kWatch = 1u << 6;
inline constexpr CommandSet kResults = 1u << 7;
inline constexpr CommandSet kErrors = 1u << 8;
inline constexpr CommandSet kPause = 1u << 9;
inline constexpr CommandSet kResume = 1u << 10;
inline constexpr CommandSet kCancel = 1u << 11;
inline constexpr CommandSet kRetry = 1u << 12;
inline constexpr CommandSet kDelete = 1u << 13;
inline constexpr CommandSet kWorkers = 1u << 14;
inline constexpr CommandSet kAudit = 1u << 15;
inline constexpr CommandSet kSimServer = 1u << 16;
inline constexpr CommandSet kHelp = 1u << 17;
inline constexpr CommandSet kVersion = 1u << 18;
inline constexpr CommandSet kConfig = 1u << 19;
inline constexpr CommandSet kBackup = 1u << 20;
inline constexpr CommandSet kToken = 1u << 21;
inline constexpr CommandSet kEveryCommand = ~CommandSet{0};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_COMMAND_SET_H_
