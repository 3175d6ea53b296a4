// "Did you mean …?"
#ifndef NIGHTSHIFT_CLIENT_CLI_SUGGEST_H_
#define NIGHTSHIFT_CLIENT_CLI_SUGGEST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace nightshift {

// The word of `known` nearest to `typed` (insertions, deletions, substitutions and swaps of
// neighbours count one each), or empty when none is near enough to be what was meant.
std::string Nearest(absl::string_view typed, const std::vector<std::string>& known);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_SUGGEST_H_
