#include "worker/backends/lenient_json.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "base/json.h"

namespace nightshift {
namespace {

// Characters for private use, at the end of all: first one for each half of a surrogate pair, then
// one for each byte.
constexpr int kMarksFrom = 0x10F000;
constexpr int kByteMarks = 0x800;
constexpr int kMarks = kByteMarks + 0x100;

// The grammar of a JSON number.
bool IsNumber(absl::string_view token) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t begin = i;
    while (i < token.size() && absl::ascii_isdigit(token[i])) ++i;
    return i > begin;
  };
  if (i < token.size() && token[i] == '-') ++i;
  if (i < token.size() && token[i] == '0') {
    ++i;
  } else if (!digits()) {
    return false;
  }
  if (i < token.size() && token[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  if (i < token.size() && (token[i] == 'e' || token[i] == 'E')) {
    ++i;
    if (i < token.size() && (token[i] == '+' || token[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == token.size();
}

// The code unit of the \uXXXX at `at`; -1 when there is none.
int CodeUnit(absl::string_view json, size_t at) {
  if (at + 6 > json.size() || json[at] != '\\' || json[at + 1] != 'u') return -1;
  int unit = 0;
  for (size_t i = at + 2; i < at + 6; ++i) {
    const char c = absl::ascii_tolower(json[i]);
    if (absl::ascii_isdigit(c)) {
      unit = unit * 16 + (c - '0');
    } else if (c >= 'a' && c <= 'f') {
      unit = unit * 16 + (c - 'a' + 10);
    } else {
      return -1;
    }
  }
  return unit;
}

// Of UTF-8, for a character of the plane that the marks are from.
void AppendMark(std::string& out, int number) {
  const int character = kMarksFrom + number;
  out.push_back(static_cast<char>(0xF0 | character >> 18));
  out.push_back(static_cast<char>(0x80 | (character >> 12 & 0x3F)));
  out.push_back(static_cast<char>(0x80 | (character >> 6 & 0x3F)));
  out.push_back(static_cast<char>(0x80 | (character & 0x3F)));
}

// The number of the mark at `at`; -1 when there is none.
int MarkAt(absl::string_view text, size_t at) {
  if (at + 4 > text.size()) return -1;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (byte(0) != 0xF4 || byte(1) != 0x8F) return -1;
  const int character = 0x10F000 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  const int number = character - kMarksFrom;
  return number < kMarks ? number : -1;
}

// Bytes of the UTF-8 sequence at `at`, which is valid; 0 when it is none.
size_t SequenceAt(absl::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xC2 && first < 0xE0 ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  if (length == 0 || at + length > text.size()) return 0;
  return IsValidUtf8(text.substr(at, length)) ? length : 0;
}

bool IsNumberByte(char c) {
  return absl::ascii_isdigit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// Copies the string that begins at `i` (its quote) and moves `i` behind it.
void CopyString(absl::string_view json, Halves halves, size_t& i, std::string& out) {
  out.push_back(json[i++]);
  while (i < json.size()) {
    const char c = json[i];
    if (c != '\\') {
      if (halves == Halves::kMark && static_cast<unsigned char>(c) >= 0x80) {
        const size_t length = SequenceAt(json, i);
        if (length == 0) {
          AppendMark(out, kByteMarks + static_cast<unsigned char>(c));
          ++i;
        } else {
          out.append(json.data() + i, length);
          i += length;
        }
        continue;
      }
      out.push_back(c);
      ++i;
      if (c == '"') return;
      continue;
    }
    const int unit = CodeUnit(json, i);
    if (unit >= 0xD800 && unit <= 0xDFFF) {
      const int next = CodeUnit(json, i + 6);
      if (unit < 0xDC00 && next >= 0xDC00 && next <= 0xDFFF) {
        out.append(json.data() + i, 12);
        i += 12;
      } else {
        if (halves == Halves::kMark) {
          AppendMark(out, unit - 0xD800);
        } else {
          out.append("\\ufffd");
        }
        i += 6;
      }
      continue;
    }
    const size_t length = i + 1 < json.size() ? 2 : 1;
    out.append(json.data() + i, length);
    i += length;
  }
}

}  // namespace

std::string LenientCopy(absl::string_view json, Halves halves) {
  constexpr size_t kDigitsThatFit = 15;  // in an int64_t and, exactly, in a double
  std::string out;
  out.reserve(json.size() + 64);
  size_t i = 0;
  while (i < json.size()) {
    const char c = json[i];
    if (c == '"') {
      CopyString(json, halves, i, out);
    } else if (c == '-' || absl::ascii_isdigit(c)) {
      size_t end = i;
      bool plain = true;
      while (end < json.size() && IsNumberByte(json[end])) {
        plain = plain && json[end] != 'e' && json[end] != 'E';
        ++end;
      }
      const absl::string_view token = json.substr(i, end - i);
      if (IsNumber(token) && (!plain || token.size() > kDigitsThatFit)) {
        out.push_back('0');
      } else {
        out.append(token.data(), token.size());
      }
      i = end;
    } else {
      out.push_back(c);
      ++i;
    }
  }
  return out;
}

void JoinHalves(std::string& json) {
  size_t at = json.find("\xF4\x8F");
  if (at == std::string::npos) return;
  std::string out = json.substr(0, at);
  while (at < json.size()) {
    const int mark = MarkAt(json, at);
    if (mark < 0) {
      out.push_back(json[at++]);
      continue;
    }
    if (mark < kByteMarks) {
      const int next = MarkAt(json, at + 4);
      const int unit = 0xD800 + mark;
      if (unit < 0xDC00 && next >= 0x400 && next < kByteMarks) {
        absl::StrAppendFormat(&out, "\\u%04x\\u%04x", unit, 0xD800 + next);
        at += 8;
      } else {
        absl::StrAppendFormat(&out, "\\u%04x", unit);
        at += 4;
      }
      continue;
    }
    std::string bytes;
    for (int byte = mark; byte >= kByteMarks; byte = MarkAt(json, at)) {
      bytes.push_back(static_cast<char>(byte - kByteMarks));
      at += 4;
    }
    for (size_t i = 0; i < bytes.size();) {
      const size_t length = SequenceAt(bytes, i);
      if (length == 0) {
        out.append("\xEF\xBF\xBD");
        ++i;
      } else {
        out.append(bytes, i, length);
        i += length;
      }
    }
  }
  json = std::move(out);
}

}  // namespace nightshift
