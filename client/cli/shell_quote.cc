#include "client/cli/shell_quote.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace nightshift {
namespace {

bool Harmless(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::string_view("_-./:=,@%+").find(c) != absl::string_view::npos;
}

bool Control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string ShellQuote(absl::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), Harmless)) return std::string(word);
  const bool control = std::any_of(word.begin(), word.end(), Control);
  std::string quoted = control ? "$'" : "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += control ? "\\'" : "'\\''";
    } else if (control && c == '\\') {
      quoted += "\\\\";
    } else if (Control(c)) {
      quoted += absl::StrFormat("\\%03o", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string ShellCommand(const std::vector<std::string>& words) {
  return absl::StrJoin(
      words, " ", [](std::string* out, const std::string& word) { out->append(ShellQuote(word)); });
}

}  // namespace nightshift
