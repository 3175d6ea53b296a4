// --rollout, --backend-weight and --fallback: which of several backends answers which requests of a
// job.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_ROUTE_FLAGS_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_ROUTE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/settings.h"
#include "nightshift/v1/types.pb.h"

namespace nightshift {

// Sets options.route when one of the three is given. InvalidArgument names what is wrong, an
// unknown backend included; `backends` are the names that there are, empty where they are not
// known.
absl::Status ReadRoute(const Settings& settings, const std::vector<std::string>& backends,
                       v1::JobOptions* options);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_ROUTE_FLAGS_H_
