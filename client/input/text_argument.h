// The value of --system and --template: the text itself, or @FILE for what a file holds.
#ifndef NIGHTSHIFT_CLIENT_INPUT_TEXT_ARGUMENT_H_
#define NIGHTSHIFT_CLIENT_INPUT_TEXT_ARGUMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

// A file's last line end is left out, and a byte-order mark. "@@x" is the text "@x".
// InvalidArgument names the flag ("--system") for text that is empty or not UTF-8, or a file of
// over 16 MiB; NotFound and PermissionDenied as they come.
absl::StatusOr<std::string> ReadTextArgument(absl::string_view flag, absl::string_view value);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_INPUT_TEXT_ARGUMENT_H_
