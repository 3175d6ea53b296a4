// How this program was called, for commands that people are told to paste.
#ifndef NIGHTSHIFT_CLIENT_CLI_SELF_H_
#define NIGHTSHIFT_CLIENT_CLI_SELF_H_

#include <string>

#include "absl/strings/string_view.h"

namespace nightshift {

// argv[0], quoted; "nightshift" until SetSelf. Set once, before any other thread.
void SetSelf(absl::string_view argv0);
const std::string& Self();

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_SELF_H_
