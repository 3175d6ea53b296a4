#include "client/cli/self.h"

#include "client/cli/shell_quote.h"

namespace nightshift {
namespace {

std::string& Name() {
  static auto* const name = new std::string("nightshift");
  return *name;
}

}  // namespace

void SetSelf(absl::string_view argv0) {
  if (!argv0.empty()) Name() = ShellQuote(argv0);
}

const std::string& Self() { return Name(); }

}  // namespace nightshift
