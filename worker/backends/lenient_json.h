// A copy of a JSON text in which everything that our parsers do not take, though the grammar does,
// is replaced by something harmless of the same meaning for us.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_LENIENT_JSON_H_
#define NIGHTSHIFT_WORKER_BACKENDS_LENIENT_JSON_H_

#include <string>

#include "absl/strings/string_view.h"

namespace nightshift {

// Numbers that no machine word holds become 0, escapes of half a surrogate pair become U+FFFD. Both
// occur: seeds of 30 digits, and texts that a server cuts inside an emoji. What is invalid stays
// invalid. Only for looking into an answer; what is recorded are the original bytes.
std::string LenientCopy(absl::string_view json);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_LENIENT_JSON_H_
