// JSON as bytes: looking into a document without changing or copying what a person wrote.
//
// Input that people send and answers that servers send are passed on as they are, so nothing here
// turns a document into a tree and prints it again. For small documents of our own use
// nlohmann::json in a source file.
#ifndef NIGHTSHIFT_BASE_JSON_H_
#define NIGHTSHIFT_BASE_JSON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

enum class JsonKind : uint8_t { kObject, kArray, kString, kNumber, kBool, kNull };

// "an object", "a list", "a string", …: for messages.
absl::string_view JsonKindName(JsonKind kind);

// One member of an object. The views point into the text that was given.
struct JsonMember {
  absl::string_view raw_key;    // between the quotes, escapes as written; of elements empty
  absl::string_view raw_value;  // from its first byte to its last, no surrounding space
  JsonKind kind;
  size_t value_offset;  // of raw_value in the text
};

// Splits the members of one JSON object, in order, duplicates included. The whole text is checked:
// InvalidArgument (with a reason and the byte offset, from 0) for anything that is not exactly one
// valid object in valid UTF-8, with blanks around it at most.
absl::StatusOr<std::vector<JsonMember>> SplitJsonObject(absl::string_view text);

// The same for one list: its elements in order, with empty keys.
absl::StatusOr<std::vector<JsonMember>> SplitJsonArray(absl::string_view text);

// Checks one JSON document of any kind: InvalidArgument with reason and byte offset when not valid.
absl::Status CheckJson(absl::string_view text);

// The text of a raw string value (with its quotes) or raw key (without), escapes resolved. Lone
// surrogates become U+FFFD: use it for showing and comparing, never for sending.
absl::StatusOr<std::string> JsonStringText(absl::string_view raw);

// `text` as a JSON string with its quotes, appended to `out`. Invalid UTF-8 becomes U+FFFD.
void AppendJsonString(std::string& out, absl::string_view text);

// The first member with that key, if there is one (keys compared with their escapes resolved).
const JsonMember* FindMember(const std::vector<JsonMember>& members, absl::string_view key);

// `object` with member `key` set to `raw_value`: its value replaced where it stands, or the member
// put in front of the others. All other bytes stay. `object` must be valid.
std::string SpliceMember(absl::string_view object, absl::string_view key,
                         absl::string_view raw_value);

// The document on one line: line feeds and carriage returns, which can only be white space in a
// valid document, become blanks. Returns false when there was nothing to do.
bool FoldToOneLine(std::string& document);

bool IsValidUtf8(absl::string_view text);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_JSON_H_
