#include "worker/backends/answer_errors.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace nightshift {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr size_t kWordBytesMax = 128;      // of a type or a code
constexpr int kValidationErrorsShown = 3;  // of a FastAPI list

std::optional<element> Member(const object& from, const char* key) {
  element value;
  if (from.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

std::string TextMember(const object& from, const char* key, size_t bytes_max) {
  const std::optional<element> value = Member(from, key);
  return value ? OneLine(ScalarText(*value), bytes_max) : std::string();
}

// The first of these members that holds a number or a word.
std::string CodeIn(const object& from) {
  for (const char* key : {"code", "status_code", "http_status_code"}) {
    std::string code = TextMember(from, key, kWordBytesMax);
    if (!code.empty()) return code;
  }
  return "";
}

// "Streaming response failed: [503] queue full" -> "503".
std::string CodeInText(absl::string_view message) {
  for (size_t open = message.find('['); open != absl::string_view::npos;
       open = message.find('[', open + 1)) {
    if (open + 4 < message.size() && message[open + 4] == ']' &&
        (message[open + 1] == '4' || message[open + 1] == '5') &&
        absl::ascii_isdigit(message[open + 2]) && absl::ascii_isdigit(message[open + 3]))
      return std::string(message.substr(open + 1, 3));
  }
  return "";
}

void SetIfEmpty(std::string& field, std::string value) {
  if (field.empty()) field = std::move(value);
}

// The usual members of an object that describes an error.
void ReadErrorObject(const object& error, AnswerFacts& facts) {
  for (const char* key : {"message", "msg", "error", "detail", "reason"})
    SetIfEmpty(facts.error_message, TextMember(error, key, AnswerReader::kMessageBytesMax));
  SetIfEmpty(facts.error_type, TextMember(error, "type", kWordBytesMax));
  SetIfEmpty(facts.error_code, CodeIn(error));
}

void ReadErrorValue(const element& error, AnswerFacts& facts) {
  object members;
  array list;
  if (error.get(members) == simdjson::SUCCESS) {
    // Gateways wrap the server's own error once more.
    const std::optional<element> inner = Member(members, "error");
    object inner_members;
    if (inner && inner->get(inner_members) == simdjson::SUCCESS)
      ReadErrorObject(inner_members, facts);
    ReadErrorObject(members, facts);
  } else if (error.get(list) == simdjson::SUCCESS) {
    for (const element& item : list) {
      ReadErrorValue(item, facts);
      if (!facts.error_message.empty()) return;
    }
  } else {
    SetIfEmpty(facts.error_message, OneLine(ScalarText(error), AnswerReader::kMessageBytesMax));
  }
}

// FastAPI's list of what is wrong with a body: "body.messages.0.role: field required".
void ReadDetail(const element& detail, AnswerFacts& facts) {
  array list;
  if (detail.get(list) != simdjson::SUCCESS) {
    ReadErrorValue(detail, facts);
    return;
  }
  std::string message;
  int shown = 0;
  for (const element& item : list) {
    object problem;
    if (item.get(problem) != simdjson::SUCCESS) continue;
    if (shown++ == kValidationErrorsShown) {
      absl::StrAppend(&message, "; …");
      break;
    }
    std::string where;
    array loc;
    const std::optional<element> loc_member = Member(problem, "loc");
    if (loc_member && loc_member->get(loc) == simdjson::SUCCESS) {
      for (const element& step : loc)
        absl::StrAppend(&where, where.empty() ? "" : ".", ScalarText(step));
    }
    absl::StrAppend(&message, message.empty() ? "" : "; ", where, where.empty() ? "" : ": ",
                    TextMember(problem, "msg", 200));
    SetIfEmpty(facts.error_type, TextMember(problem, "type", kWordBytesMax));
  }
  SetIfEmpty(facts.error_message, OneLine(message, AnswerReader::kMessageBytesMax));
}

bool NotBlank(const element& value) {
  object members;
  array list;
  if (value.get(members) == simdjson::SUCCESS) return members.size() > 0;
  if (value.get(list) == simdjson::SUCCESS) return list.size() > 0;
  const std::string text = ScalarText(value);
  return !text.empty() && text != "false" && text != "0";
}

}  // namespace

std::string ScalarText(const element& value) {
  switch (value.type()) {
    case simdjson::dom::element_type::STRING: {
      const std::string_view text = value.get_string().value_unsafe();
      return std::string(text);
    }
    case simdjson::dom::element_type::INT64:
      return absl::StrCat(value.get_int64().value_unsafe());
    case simdjson::dom::element_type::UINT64:
      return absl::StrCat(value.get_uint64().value_unsafe());
    case simdjson::dom::element_type::DOUBLE:
      return absl::StrCat(value.get_double().value_unsafe());
    case simdjson::dom::element_type::BOOL:
      return value.get_bool().value_unsafe() ? "true" : "false";
    default:
      return "";
  }
}

std::string OneLine(absl::string_view text, size_t bytes_max) {
  text = absl::StripAsciiWhitespace(text);
  std::string line;
  bool blank_before = false;
  for (const char c : text) {
    const bool blank = static_cast<unsigned char>(c) <= ' ' || c == 0x7f;
    if (blank && blank_before) continue;
    blank_before = blank;
    line.push_back(blank ? ' ' : c);
    if (line.size() > bytes_max) break;
  }
  if (line.size() > bytes_max) {
    size_t end = bytes_max;
    while (end > 0 && (line[end] & 0xC0) == 0x80) --end;
    line.resize(end);
    absl::StrAppend(&line, "…");
  }
  if (!IsValidUtf8(line)) {
    for (char& c : line) {
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
  }
  return line;
}

void ReadErrorBody(const element& body, AnswerFacts& facts) {
  object members;
  if (body.get(members) != simdjson::SUCCESS) {
    ReadErrorValue(body, facts);
    return;
  }
  if (const auto error = Member(members, "error")) ReadErrorValue(*error, facts);
  if (const auto detail = Member(members, "detail")) ReadDetail(*detail, facts);
  if (const auto errors = Member(members, "errors")) ReadErrorValue(*errors, facts);
  SetIfEmpty(facts.error_type, TextMember(members, "error_type", kWordBytesMax));
  ReadErrorObject(members, facts);
  if (facts.error_type == "error") facts.error_type.clear();  // {"type":"error","error":{…}}
  SetIfEmpty(facts.error_code, CodeInText(facts.error_message));
}

bool ReadErrorInSuccess(const element& body, AnswerFacts& facts) {
  object members;
  if (body.get(members) != simdjson::SUCCESS) return false;
  const std::optional<element> error = Member(members, "error");
  std::string_view kind;
  const bool calls_itself_error =
      (members.at_key("object").get(kind) == simdjson::SUCCESS && kind == "error") ||
      (members.at_key("type").get(kind) == simdjson::SUCCESS && kind == "error");
  if (!(error && NotBlank(*error)) && !calls_itself_error) return false;
  ReadErrorBody(body, facts);
  if (facts.error_message.empty()) facts.error_message = "an error without a message";
  return true;
}

void ReadErrorText(absl::string_view body, AnswerFacts& facts) {
  body = body.substr(0, 16384);
  absl::string_view text = body;
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(body), "<")) {
    const std::string lower = absl::AsciiStrToLower(body);
    const size_t open = lower.find("<title");
    const size_t begin = open == std::string::npos ? open : lower.find('>', open);
    const size_t end = begin == std::string::npos ? begin : lower.find("</title", begin);
    if (end == std::string::npos) return;  // mark-up without a title tells a person nothing
    text = body.substr(begin + 1, end - begin - 1);
  }
  facts.error_message = OneLine(text, 300);
}

}  // namespace nightshift
