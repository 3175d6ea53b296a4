// API keys as people keep them.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_KEY_FILE_H_
#define NIGHTSHIFT_WORKER_BACKENDS_KEY_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

// The key in `text`, without the white space around it; empty when there is none. InvalidArgument
// when it holds what would end the header that it goes into. `where` is named in messages, the key
// never.
absl::StatusOr<std::string> CheckedKey(absl::string_view text, absl::string_view where);

// The key in a file. FailedPrecondition when the file cannot be read or is empty.
absl::StatusOr<std::string> ReadKeyFile(const std::string& path);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_KEY_FILE_H_
