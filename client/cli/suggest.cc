#include "client/cli/suggest.h"

#include <algorithm>

namespace nightshift {
namespace {

// Optimal string alignment distance (Damerau 1964, restricted): three rows are enough.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string Nearest(absl::string_view typed, const std::vector<std::string>& known) {
  std::string best;
  // A third of the word may be wrong: "sttaus" means "status", "foo" means nothing.
  size_t allowed = std::max<size_t>(1, typed.size() / 3) + 1;
  for (const std::string& word : known) {
    const bool cut_short =
        typed.size() >= 3 && word.compare(0, typed.size(), typed.data(), typed.size()) == 0;
    const size_t distance = cut_short ? 1 : Distance(typed, word);
    if (distance < allowed) {
      allowed = distance;
      best = word;
    }
  }
  return best;
}

}  // namespace nightshift
