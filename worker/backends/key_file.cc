#include "worker/backends/key_file.h"

#include <fstream>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace nightshift {

absl::StatusOr<std::string> CheckedKey(absl::string_view text, absl::string_view where) {
  const absl::string_view key = absl::StripAsciiWhitespace(text);
  for (const char c : key) {
    // A line end in a header would be another header.
    if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, " holds a blank or a control character inside the key; set it again"));
    }
  }
  return std::string(key);
}

absl::StatusOr<std::string> ReadKeyFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in) return absl::FailedPreconditionError(absl::StrCat(path, " (cannot be read)"));
  ASSIGN_OR_RETURN(std::string key, CheckedKey(text.str(), path));
  if (key.empty()) return absl::FailedPreconditionError(absl::StrCat(path, " (empty)"));
  return key;
}

}  // namespace nightshift
