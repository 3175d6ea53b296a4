#include "worker/backends/lenient_json.h"

#include "absl/strings/ascii.h"

namespace nightshift {
namespace {

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

bool IsNumberByte(char c) {
  return absl::ascii_isdigit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// Copies the string that begins at `i` (its quote) and moves `i` behind it.
void CopyString(absl::string_view json, size_t& i, std::string& out) {
  out.push_back(json[i++]);
  while (i < json.size()) {
    const char c = json[i];
    if (c != '\\') {
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
        out.append("\\ufffd");
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

std::string LenientCopy(absl::string_view json) {
  constexpr size_t kDigitsThatFit = 15;  // in an int64_t and, exactly, in a double
  std::string out;
  out.reserve(json.size() + 64);
  size_t i = 0;
  while (i < json.size()) {
    const char c = json[i];
    if (c == '"') {
      CopyString(json, i, out);
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

}  // namespace nightshift
