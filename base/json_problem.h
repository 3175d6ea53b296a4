// Says what is wrong with a document that is not valid JSON, and where: the slow, careful reading
// behind base/json.h, for messages only. Also the rules that the fast reading shares with it.
#ifndef NIGHTSHIFT_BASE_JSON_PROBLEM_H_
#define NIGHTSHIFT_BASE_JSON_PROBLEM_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace nightshift {

// Objects and lists inside each other at most this deep; deeper documents are refused. Servers
// refuse them as well (most at 100 to 1,000), and a reader that recurses would crash.
inline constexpr int kJsonDepthMax = 1024;

struct JsonProblem {
  std::string reason;  // "ends inside a string", "has '}' where a value was expected"
  std::string hint;    // the likely cause or the cure; often empty
  size_t offset = 0;   // of the byte that is wrong, from 0; the size of the text when it is cut off
  bool utf8 = false;   // the text is not UTF-8, so that nothing else was looked at

  // "<reason> at byte <offset> (<hint>)"
  std::string Message() const;
};

// The first problem of `text`, or nullopt when it is one valid document. Bytes that are not UTF-8
// come before anything else. Thread-safe; time is linear in the size of the text.
std::optional<JsonProblem> FindJsonProblem(absl::string_view text);

// Where `text` stops being UTF-8, with words that name the likely cause (Latin-1, UTF-16, cut off).
std::optional<JsonProblem> FindUtf8Problem(absl::string_view text);

// "invalid UTF-8 at byte 12 (0xE9; this looks like Latin-1; …)", bytes counted from 1, for a person
// with a line before them. Only for text that is not UTF-8.
std::string InvalidUtf8Message(absl::string_view text);

// How much of the front of `text` is UTF-8.
size_t ValidUtf8Length(absl::string_view text);

// The number of bytes of `text` that the JSON grammar takes as a number from its front; 0 for none.
size_t JsonNumberLength(absl::string_view text);

// The length of the escape at the front of `text`, which starts with a backslash; 0 when it is
// none. A lone surrogate is an escape like any other.
size_t JsonEscapeLength(absl::string_view text);

inline bool IsJsonBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_JSON_PROBLEM_H_
