// A server's JSON as a tree, within a bound on its nesting. For frames and small answers; whole
// answers are looked at by AnswerReader.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_BOUNDED_JSON_H_
#define NIGHTSHIFT_WORKER_BACKENDS_BOUNDED_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace nightshift {

// Trees are copied and printed by functions that call themselves; answers are flat.
inline constexpr int kJsonDepthMax = 200;

// nullopt for what is not JSON or nested deeper than kJsonDepthMax. Numbers that no machine word
// holds become 0 and halves of surrogate pairs U+FFFD.
std::optional<nlohmann::ordered_json> ParseBounded(absl::string_view text);

// The same for a frame of a stream, in which characters may be cut in two: their parts become
// marks, and `marked` is set (lenient_json.h).
std::optional<nlohmann::ordered_json> ParseFrame(absl::string_view text, bool* marked);

// The member; null when `object` is none or has no such member.
const nlohmann::ordered_json* FindIn(const nlohmann::ordered_json& object, const char* key);

// The member when it is a text, else empty.
std::string TextIn(const nlohmann::ordered_json& object, const char* key);

// The member when it is a number that is not negative, else -1.
double NumberIn(const nlohmann::ordered_json& object, const char* key);

// One line, valid UTF-8 whatever is in it.
std::string PrintJson(const nlohmann::ordered_json& value);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_BOUNDED_JSON_H_
