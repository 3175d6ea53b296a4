#include "worker/core/clean_text.h"

#include <algorithm>
#include <cstdint>

namespace nightshift {
namespace {

// How many bytes the character at the start of `text` takes; zero when it is not valid UTF-8.
size_t CharacterLength(absl::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Too long for what it says, a surrogate, or beyond U+10FFFF.
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) > 0x9f) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

bool IsPlain(char c) { return c >= 0x20 && c < 0x7f; }

}  // namespace

std::string CleanText(absl::string_view text, size_t bytes_max) {
  // Nearly everything is short and plain.
  if (text.size() <= bytes_max && std::all_of(text.begin(), text.end(), IsPlain)) {
    return std::string(text);
  }
  std::string clean;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const size_t taken = length == 0 ? 1 : length;
    if (clean.size() + taken > bytes_max) break;
    if (length == 0) {
      clean += '?';
    } else if (length == 1 && (static_cast<uint8_t>(text[0]) < 0x20 || text[0] == 0x7f)) {
      clean += ' ';
    } else {
      clean.append(text.data(), length);
    }
    text.remove_prefix(taken);
  }
  return clean;
}

}  // namespace nightshift
