// From the end backwards, the border of each prefix (Knuth, Morris, Pratt): a prefix of length n
// whose longest border is b long has the period n - b. Linear in the bytes looked at.
#include "worker/backends/repetition.h"

#include <array>
#include <cstdint>

namespace nightshift {
namespace {

// As much of the end as is looked at: phrases of up to an eighth of it are found.
constexpr size_t kLookedAtMax = 2400;
constexpr size_t kPeriodMax = kLookedAtMax / kRepetitionsMin;
// Most texts repeat nothing, and that is seen by so many of their last bytes alone.
constexpr size_t kTailBytes = 16;
static_assert(kPeriodMax + kTailBytes <= kRepetitiveBytesMin);

}  // namespace

bool EndsInRepetition(absl::string_view text) {
  if (text.size() < kRepetitiveBytesMin) return false;
  // What repeats with a period has its last bytes once more, a period earlier.
  const absl::string_view tail = text.substr(text.size() - kTailBytes);
  const absl::string_view before =
      text.substr(text.size() - kTailBytes - kPeriodMax, kPeriodMax + kTailBytes - 1);
  if (before.find(tail) == absl::string_view::npos) return false;
  const size_t size = text.size() < kLookedAtMax ? text.size() : kLookedAtMax;
  const auto back = [&](size_t i) { return text[text.size() - 1 - i]; };
  std::array<uint16_t, kLookedAtMax> border;
  border[0] = 0;
  for (size_t i = 1; i < size; ++i) {
    size_t length = border[i - 1];
    while (length > 0 && back(i) != back(length)) length = border[length - 1];
    if (back(i) == back(length)) ++length;
    border[i] = static_cast<uint16_t>(length);
    const size_t prefix = i + 1;
    if (prefix >= kRepetitiveBytesMin && (prefix - length) * kRepetitionsMin <= prefix) return true;
  }
  return false;
}

}  // namespace nightshift
