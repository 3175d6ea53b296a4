// Words as bash takes them back unchanged, for the commands that messages tell people to paste.
#ifndef NIGHTSHIFT_CLIENT_CLI_SHELL_QUOTE_H_
#define NIGHTSHIFT_CLIENT_CLI_SHELL_QUOTE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace nightshift {

// The word as it is where every byte is harmless; otherwise in single quotes, or in $'…' when it
// has control characters.
std::string ShellQuote(absl::string_view word);

// Quoted words with blanks between.
std::string ShellCommand(const std::vector<std::string>& words);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_SHELL_QUOTE_H_
