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
//
// A server that streams may cut a character in two, as half a surrogate pair or as some bytes of
// its UTF-8. With kMark each part becomes a character for private use, which JoinHalves turns back
// once the parts have come together.
enum class Halves { kReplace, kMark };
std::string LenientCopy(absl::string_view json, Halves halves = Halves::kReplace);

// `json` is a document printed from texts with marks in them. Parts that make a character become
// that character; of the others a half pair becomes the escape that it was, bytes become U+FFFD.
void JoinHalves(std::string& json);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_LENIENT_JSON_H_
