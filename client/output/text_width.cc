#include "client/output/text_width.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_problem.h"

namespace nightshift {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// Marks that combine with the character before, joiners and other characters without a cell.
constexpr std::array<Range, 33> kNoCells = {
    {{0x0300, 0x036F},   {0x0483, 0x0489},   {0x0591, 0x05BD},  {0x05BF, 0x05BF}, {0x05C1, 0x05C2},
     {0x05C4, 0x05C5},   {0x0610, 0x061A},   {0x064B, 0x065F},  {0x0670, 0x0670}, {0x06D6, 0x06DC},
     {0x06DF, 0x06E4},   {0x0900, 0x0902},   {0x093C, 0x093C},  {0x0941, 0x0948}, {0x094D, 0x094D},
     {0x0E31, 0x0E31},   {0x0E34, 0x0E3A},   {0x0E47, 0x0E4E},  {0x1160, 0x11FF}, {0x1AB0, 0x1AFF},
     {0x1DC0, 0x1DFF},   {0x200B, 0x200F},   {0x202A, 0x202E},  {0x2060, 0x2064}, {0x2066, 0x206F},
     {0x20D0, 0x20FF},   {0x3099, 0x309A},   {0xFE00, 0xFE0F},  {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF},
     {0x1F3FB, 0x1F3FF}, {0xE0001, 0xE007F}, {0xE0100, 0xE01EF}}};

// East Asian wide and full-width characters, and emoji.
constexpr std::array<Range, 63> kTwoCells = {
    {{0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23EC},
     {0x23F0, 0x23F0},   {0x23F3, 0x23F3},   {0x25FD, 0x25FE},   {0x2614, 0x2615},
     {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x2693},   {0x26A1, 0x26A1},
     {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},   {0x26CE, 0x26CE},
     {0x26D4, 0x26D4},   {0x26EA, 0x26EA},   {0x26F2, 0x26F3},   {0x26F5, 0x26F5},
     {0x26FA, 0x26FA},   {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},
     {0x2728, 0x2728},   {0x274C, 0x274C},   {0x274E, 0x274E},   {0x2753, 0x2755},
     {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27B0, 0x27B0},   {0x27BF, 0x27BF},
     {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2B55, 0x2B55},   {0x2E80, 0x303E},
     {0x3041, 0x3247},   {0x3250, 0x4DBF},   {0x4E00, 0xA4CF},   {0xA960, 0xA97C},
     {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE10, 0xFE19},   {0xFE30, 0xFE6F},
     {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},   {0x16FE0, 0x16FE4}, {0x17000, 0x18CFF},
     {0x1B000, 0x1B2FF}, {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E},
     {0x1F191, 0x1F19A}, {0x1F200, 0x1F320}, {0x1F32D, 0x1F335}, {0x1F337, 0x1F37C},
     {0x1F37E, 0x1F64F}, {0x1F680, 0x1F6FC}, {0x1F7E0, 0x1F7EB}, {0x1F90C, 0x1F9FF},
     {0x1FA70, 0x1FAFF}, {0x20000, 0x2FFFD}, {0x30000, 0x3FFFD}}};

template <size_t n>
bool Within(const std::array<Range, n>& ranges, uint32_t code) {
  const auto* const after =
      std::upper_bound(ranges.begin(), ranges.end(), code,
                       [](uint32_t wanted, const Range& range) { return wanted < range.first; });
  return after != ranges.begin() && code <= (after - 1)->last;
}

// The character at the front of `text`, which is not empty: its bytes and its cells.
struct Character {
  size_t bytes;
  int cells;
  uint32_t code;  // of a byte that is not UTF-8 UINT32_MAX
};

Character FirstCharacter(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(text[i]) & 0xFF; };
  if (byte(0) < 0x80) return {1, 1, byte(0)};
  const size_t bytes = byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (text.size() < bytes || ValidUtf8Length(text.substr(0, bytes)) != bytes) {
    return {1, 1, UINT32_MAX};
  }
  uint32_t code = byte(0) & (0xFF >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (byte(i) & 0x3F);
  const int cells = Within(kNoCells, code) ? 0 : Within(kTwoCells, code) ? 2 : 1;
  return {bytes, cells, code};
}

}  // namespace

int DisplayWidth(absl::string_view text) {
  int cells = 0;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    cells += character.cells;
    text.remove_prefix(character.bytes);
  }
  return cells;
}

std::string CutToWidth(absl::string_view text, int cells, bool utf8) {
  if (DisplayWidth(text) <= cells) return std::string(text);
  const absl::string_view mark = utf8 ? "…" : "...";
  const int room = cells - (utf8 ? 1 : 3);
  if (room < 0) return std::string(static_cast<size_t>(std::max(cells, 0)), '.');
  size_t end = 0;
  int used = 0;
  while (true) {
    const Character character = FirstCharacter(text.substr(end));
    if (used + character.cells > room) break;
    used += character.cells;
    end += character.bytes;
  }
  return absl::StrCat(text.substr(0, end), mark);
}

std::string Printable(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    const uint32_t code = character.code;
    if (code == UINT32_MAX) {
      out += '?';
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (code < 0x20 || (code >= 0x7F && code < 0xA0)) {
      absl::StrAppendFormat(&out, "\\x%02x", code);
    } else if (code >= 0x202A && code <= 0x202E) {  // would turn the rest of the line around
      absl::StrAppendFormat(&out, "\\u%04x", code);
    } else {
      absl::StrAppend(&out, text.substr(0, character.bytes));
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace nightshift
