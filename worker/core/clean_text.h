// Words of a backend, made fit for a message: a `string` field that is not UTF-8 makes the whole
// message unreadable at the other end.
#ifndef NIGHTSHIFT_WORKER_CORE_CLEAN_TEXT_H_
#define NIGHTSHIFT_WORKER_CORE_CLEAN_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace nightshift {

// At most `bytes_max` bytes of `text`, cut between characters, each byte that is not part of valid
// UTF-8 replaced by '?', control characters by blanks.
std::string CleanText(absl::string_view text, size_t bytes_max);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_CLEAN_TEXT_H_
