#include "base/range_renamer.h"

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace nightshift {
namespace {

constexpr absl::string_view kName = "range";

}  // namespace

char RangeRenamer::Put(char next, bool* taken) {
  *taken = true;
  if (next == '\n') {
    matched_ = 0;
  } else if (matched_ == kName.size()) {
    matched_ = kOther;
    if (next == ':') {
      *taken = false;
      return kRenamedRange[kName.size()];
    }
  } else if (matched_ != kOther) {
    const bool same = absl::ascii_tolower(static_cast<unsigned char>(next)) == kName[matched_];
    matched_ = same ? matched_ + 1 : kOther;
  }
  return next;
}

}  // namespace nightshift
