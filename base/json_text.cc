// The parts of base/json.h that make or change text.
#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/json.h"
#include "base/json_problem.h"

namespace nightshift {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";
constexpr char kHex[] = "0123456789abcdef";

void AppendUtf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code >> 6)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code >> 18)));
    out.push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

// The number in a well-formed \uXXXX at the front of `text`.
uint32_t EscapeNumber(absl::string_view text) {
  uint32_t number = 0;
  for (const char c : text.substr(2, 4)) {
    const uint32_t digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    number = number << 4 | digit;
  }
  return number;
}

bool IsHigh(uint32_t code) { return code >= 0xD800 && code <= 0xDBFF; }
bool IsLow(uint32_t code) { return code >= 0xDC00 && code <= 0xDFFF; }

// Appends what the escape at the front of `text` stands for; returns the bytes it took, 0 for none.
size_t AppendEscape(std::string& out, absl::string_view text) {
  const size_t length = JsonEscapeLength(text);
  if (length == 0) return 0;
  switch (text[1]) {
    case 'b':
      out.push_back('\b');
      return length;
    case 'f':
      out.push_back('\f');
      return length;
    case 'n':
      out.push_back('\n');
      return length;
    case 'r':
      out.push_back('\r');
      return length;
    case 't':
      out.push_back('\t');
      return length;
    case 'u':
      break;
    default:
      out.push_back(text[1]);
      return length;
  }
  const uint32_t code = EscapeNumber(text);
  if (IsHigh(code)) {
    const absl::string_view next = text.substr(length);
    if (absl::StartsWith(next, "\\u") && JsonEscapeLength(next) == 6 && IsLow(EscapeNumber(next))) {
      AppendUtf8(out, 0x10000 + ((code - 0xD800) << 10) + (EscapeNumber(next) - 0xDC00));
      return 12;
    }
  }
  if (IsHigh(code) || IsLow(code)) {
    absl::StrAppend(&out, kReplacement);
  } else {
    AppendUtf8(out, code);
  }
  return length;
}

// `text` with U+FFFD for every byte that is not part of a UTF-8 character.
std::string WithReplacements(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t good = ValidUtf8Length(text);
    absl::StrAppend(&out, text.substr(0, good));
    if (good == text.size()) break;
    absl::StrAppend(&out, kReplacement);
    text.remove_prefix(good + 1);
  }
  return out;
}

bool KeyIs(const JsonMember& member, absl::string_view key) {
  if (member.raw_key.find('\\') == absl::string_view::npos) return member.raw_key == key;
  const absl::StatusOr<std::string> text = JsonStringText(member.raw_key);
  return text.ok() && *text == key;
}

}  // namespace

absl::StatusOr<std::string> JsonStringText(absl::string_view raw) {
  absl::string_view inside = raw;
  if (absl::StartsWith(raw, "\"")) {
    if (raw.size() < 2 || raw.back() != '"') {
      return absl::InvalidArgumentError("not a JSON string: the closing quote is missing");
    }
    inside = raw.substr(1, raw.size() - 2);
  }
  std::string out;
  out.reserve(inside.size());
  while (!inside.empty()) {
    const size_t plain = std::min(inside.find('\\'), inside.size());
    absl::StrAppend(&out, inside.substr(0, plain));
    inside.remove_prefix(plain);
    if (inside.empty()) break;
    const size_t length = AppendEscape(out, inside);
    if (length == 0) return absl::InvalidArgumentError("not a JSON string: unknown escape");
    inside.remove_prefix(length);
  }
  return out;
}

void AppendJsonString(std::string& out, absl::string_view text) {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    repaired = WithReplacements(text);
    text = repaired;
  }
  out.reserve(out.size() + text.size() + 2);
  out.push_back('"');
  size_t start = 0;  // of what has not been appended yet
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    absl::StrAppend(&out, text.substr(start, at - start));
    start = at + 1;
    switch (byte) {
      case '"':
      case '\\':
        out.push_back('\\');
        out.push_back(static_cast<char>(byte));
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += "\\u00";
        out.push_back(kHex[byte >> 4]);
        out.push_back(kHex[byte & 15]);
    }
  }
  absl::StrAppend(&out, text.substr(start));
  out.push_back('"');
}

const JsonMember* FindMember(const std::vector<JsonMember>& members, absl::string_view key) {
  for (const JsonMember& member : members) {
    if (KeyIs(member, key)) return &member;
  }
  return nullptr;
}

std::string SpliceMember(absl::string_view object, absl::string_view key,
                         absl::string_view raw_value) {
  const absl::StatusOr<std::vector<JsonMember>> members = SplitJsonObject(object);
  NIGHTSHIFT_CHECK(members.ok(), absl::StrCat("splicing into what is not an object: it ",
                                              members.status().message()));
  std::string out;
  out.reserve(object.size() + key.size() + raw_value.size() + 8);
  size_t kept = 0;  // bytes of `object` that are in `out`
  bool found = false;
  for (const JsonMember& member : *members) {
    if (!KeyIs(member, key)) continue;
    // Should the key stand there twice, all are set: readers differ in which one they take.
    absl::StrAppend(&out, object.substr(kept, member.value_offset - kept), raw_value);
    kept = member.value_offset + member.raw_value.size();
    found = true;
  }
  if (!found) {
    kept = object.find('{') + 1;
    absl::StrAppend(&out, object.substr(0, kept));
    AppendJsonString(out, key);
    absl::StrAppend(&out, ":", raw_value, members->empty() ? "" : ",");
  }
  absl::StrAppend(&out, object.substr(kept));
  return out;
}

bool FoldToOneLine(std::string& document) {
  bool changed = false;
  for (const char end : {'\n', '\r'}) {
    for (size_t at = document.find(end); at != std::string::npos; at = document.find(end, at)) {
      document[at] = ' ';
      changed = true;
    }
  }
  return changed;
}

}  // namespace nightshift
