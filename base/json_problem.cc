#include "base/json_problem.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace nightshift {
namespace {

constexpr absl::string_view kCutOff = "file cut off?";
constexpr absl::string_view kUtf16 = "this looks like UTF-16; save the file as UTF-8";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The length of the well-formed UTF-8 character at the front of `text`; 0 when there is none.
size_t CharacterLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond U+10FFFF.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

// One byte as it can be shown: 'x', or 0x07 where it cannot.
std::string Shown(char c) {
  if (absl::ascii_isprint(static_cast<unsigned char>(c))) return absl::StrFormat("'%c'", c);
  return absl::StrFormat("byte 0x%02X", static_cast<unsigned char>(c));
}

// Walks the text once; each function returns false with `problem` filled.
class Walk {
 public:
  explicit Walk(absl::string_view text) : text_(text) {}

  bool Document() {
    SkipBlanks();
    if (AtEnd()) return Fail("is empty");
    if (absl::StartsWith(text_, "\xEF\xBB\xBF")) {
      return Fail("starts with a byte-order mark");
    }
    do {
      if (!Step()) return false;
    } while (!open_.empty());
    SkipBlanks();
    if (!AtEnd()) return Fail("has something after the end of the value");
    return true;
  }

  JsonProblem problem;

 private:
  bool AtEnd() const { return at_ == text_.size(); }
  char Peek() const { return text_[at_]; }

  void SkipBlanks() {
    while (!AtEnd() && IsJsonBlank(Peek())) ++at_;
  }

  bool Fail(absl::string_view reason, absl::string_view hint = "") {
    problem = {.reason = std::string(reason), .hint = std::string(hint), .offset = at_};
    return false;
  }

  bool FailExpected(absl::string_view wanted) {
    SkipBlanks();
    if (AtEnd()) {
      if (open_.empty()) return Fail("ends where a value was expected");
      return Fail(open_.back() == '{' ? "ends inside an object" : "ends inside a list", kCutOff);
    }
    return Fail(absl::StrCat("has ", Shown(Peek()), " where ", wanted, " was expected"));
  }

  // One value that opens or is complete, then all the closing brackets, and the comma or key that
  // leads to the next value.
  bool Step() {
    if (!ValueOrOpen()) return false;
    while (!open_.empty()) {
      if (just_opened_) {
        just_opened_ = false;
        SkipBlanks();
        if (!AtEnd() && Peek() == Closing()) {
          Close();
          continue;
        }
        return open_.back() == '[' || Key();
      }
      SkipBlanks();
      if (AtEnd()) return FailExpected("");
      if (Peek() == Closing()) {
        Close();
        continue;
      }
      if (Peek() != ',') {
        return FailExpected(open_.back() == '{' ? "',' or '}'" : "',' or ']'");
      }
      ++at_;
      return open_.back() == '[' || Key();
    }
    return true;
  }

  char Closing() const { return open_.back() == '{' ? '}' : ']'; }
  void Close() {
    ++at_;
    open_.pop_back();
  }

  bool Key() {
    SkipBlanks();
    if (AtEnd() || Peek() != '"') return FailExpected("a key in quotes");
    if (!String()) return false;
    SkipBlanks();
    if (AtEnd() || Peek() != ':') return FailExpected("':'");
    ++at_;
    return true;
  }

  bool ValueOrOpen() {
    SkipBlanks();
    if (AtEnd()) return FailExpected("a value");
    switch (Peek()) {
      case '{':
      case '[':
        if (open_.size() >= static_cast<size_t>(kJsonDepthMax)) {
          return Fail(absl::StrCat("is nested more than ", kJsonDepthMax, " levels deep"));
        }
        open_.push_back(Peek());
        ++at_;
        just_opened_ = true;
        return true;
      case '"':
        return String();
      default:
        return Scalar();
    }
  }

  bool Scalar() {
    const absl::string_view rest = text_.substr(at_);
    size_t length = 0;
    for (const absl::string_view word : {"true", "false", "null"}) {
      if (absl::StartsWith(rest, word)) length = word.size();
    }
    if (length == 0) length = JsonNumberLength(rest);
    if (length == 0) {
      if (Peek() == '\'') return Fail("has a single quote", "JSON has double quotes only");
      if (IsDigit(Peek()) || Peek() == '-') return Fail("has a malformed number");
      return FailExpected("a value");
    }
    const size_t end = at_ + length;
    if (end < text_.size() && !IsJsonBlank(text_[end]) &&
        absl::string_view(",]}:").find(text_[end]) == absl::string_view::npos) {
      if (IsDigit(rest[0]) || rest[0] == '-') return Fail("has a malformed number");
      at_ = end;
      return FailExpected("the end of the value");
    }
    at_ = end;
    return true;
  }

  bool String() {
    ++at_;
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '"') {
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return Fail(absl::StrFormat("has a bare control character (0x%02X) inside a string",
                                    static_cast<unsigned char>(c)),
                    "write it as an escape");
      }
      if (c != '\\') {
        ++at_;
        continue;
      }
      const size_t length = JsonEscapeLength(text_.substr(at_));
      if (length == 0) {
        if (text_.find('"', at_) == absl::string_view::npos) break;
        return Fail("has an unknown escape in a string");
      }
      at_ += length;
    }
    at_ = text_.size();
    return Fail("ends inside a string", kCutOff);
  }

  const absl::string_view text_;
  size_t at_ = 0;
  std::vector<char> open_;
  bool just_opened_ = false;
};

}  // namespace

size_t JsonNumberLength(absl::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t start = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at > start;
  };
  if (at < text.size() && text[at] == '-') ++at;
  if (at < text.size() && text[at] == '0') {
    ++at;
  } else if (!digits()) {
    return 0;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return 0;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!digits()) return 0;
  }
  return at;
}

size_t JsonEscapeLength(absl::string_view text) {
  if (text.size() < 2) return 0;
  switch (text[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
      return 2;
    case 'u':
      break;
    default:
      return 0;
  }
  if (text.size() < 6) return 0;
  for (size_t i = 2; i < 6; ++i) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(text[i]))) return 0;
  }
  return 6;
}

size_t ValidUtf8Length(absl::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = CharacterLength(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::optional<JsonProblem> FindUtf8Problem(absl::string_view text) {
  const size_t at = ValidUtf8Length(text);
  if (at == text.size()) return std::nullopt;
  const auto byte = static_cast<unsigned char>(text[at]);
  JsonProblem problem{.reason = absl::StrFormat("is not valid UTF-8 (byte 0x%02X)", byte),
                      .hint = "save the file as UTF-8",
                      .offset = at,
                      .utf8 = true};
  if (absl::StartsWith(text, "\xFF\xFE") || absl::StartsWith(text, "\xFE\xFF") ||
      text.find('\0') != absl::string_view::npos) {
    problem.hint = std::string(kUtf16);
  } else if (byte >= 0xA0 && (at + 1 >= text.size() || !IsContinuation(text[at + 1]))) {
    problem.hint = "this looks like Latin-1; save the file as UTF-8";
  }
  return problem;
}

std::string InvalidUtf8Message(absl::string_view text) {
  const std::optional<JsonProblem> problem = FindUtf8Problem(text);
  NIGHTSHIFT_CHECK(problem.has_value(), "the text is valid UTF-8");
  return absl::StrFormat("invalid UTF-8 at byte %d (0x%02X; %s)", problem->offset + 1,
                         static_cast<unsigned char>(text[problem->offset]), problem->hint);
}

std::optional<JsonProblem> FindJsonProblem(absl::string_view text) {
  if (std::optional<JsonProblem> problem = FindUtf8Problem(text)) return problem;
  Walk walk(text);
  if (walk.Document()) return std::nullopt;
  if (text.find('\0') != absl::string_view::npos) walk.problem.hint = std::string(kUtf16);
  return std::move(walk.problem);
}

std::string JsonProblem::Message() const {
  return absl::StrCat(reason, " at byte ", offset, hint.empty() ? "" : " (", hint,
                      hint.empty() ? "" : ")");
}

}  // namespace nightshift
