#include "base/request_line.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/json_problem.h"
#include "base/request_shape.h"

namespace nightshift {
namespace {

// Values of the user's that a message repeats are cut to this many bytes.
constexpr size_t kShownMax = 80;
// Up to this many members, duplicates are found by comparing each with each.
constexpr size_t kFewMembers = 16;

using Members = std::vector<JsonMember>;

// As a JSON string, so that no control character of the user's reaches a terminal.
std::string Shown(absl::string_view text) {
  if (text.size() <= kShownMax) return Quoted(text);
  size_t end = kShownMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return Quoted(absl::StrCat(text.substr(0, end), "…"));
}

// The same without the quotes, for keys.
std::string ShownKey(absl::string_view key) {
  const std::string quoted = Shown(key);
  return quoted.substr(1, quoted.size() - 2);
}

std::string Expected(absl::string_view wanted, JsonKind found) {
  return absl::StrCat("expected ", wanted, ", found ", JsonKindName(found));
}

// Valid JSON only: the text of a key or a string value.
std::string TextOf(absl::string_view raw) {
  absl::StatusOr<std::string> text = JsonStringText(raw);
  return text.ok() ? *std::move(text) : std::string(raw);
}

// Whether a valid string has an escape for half of a surrogate pair alone, which no UTF-8 text can
// hold.
bool HasHalfPair(absl::string_view raw) {
  const auto unit = [raw](size_t at) {
    int value = 0;
    return at + 6 <= raw.size() && raw[at] == '\\' && raw[at + 1] == 'u' &&
                   absl::SimpleHexAtoi(raw.substr(at + 2, 4), &value)
               ? value
               : -1;
  };
  for (size_t at = raw.find('\\'); at != absl::string_view::npos; at = raw.find('\\', at)) {
    const int first = unit(at);
    if (first >= 0xDC00 && first <= 0xDFFF) return true;
    if (first >= 0xD800 && first < 0xDC00) {
      const int second = unit(at + 6);
      if (second < 0xDC00 || second > 0xDFFF) return true;
      at += 12;
    } else {
      at += 2;  // of \uXXXX the rest holds no backslash
    }
  }
  return false;
}

bool NeedsResolving(absl::string_view raw) { return raw.find('\\') != absl::string_view::npos; }

// The first key that stands there twice; empty when none does (the empty key is told apart by the
// second value).
std::pair<std::string, bool> RepeatedKey(const Members& members) {
  const bool plain = std::none_of(members.begin(), members.end(), [](const JsonMember& member) {
    return NeedsResolving(member.raw_key);
  });
  if (plain && members.size() <= kFewMembers) {
    for (size_t i = 1; i < members.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (members[i].raw_key == members[j].raw_key) return {TextOf(members[i].raw_key), true};
      }
    }
    return {"", false};
  }
  std::vector<std::string> keys;
  keys.reserve(members.size());
  for (const JsonMember& member : members) keys.push_back(TextOf(member.raw_key));
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  return twice == keys.end() ? std::pair<std::string, bool>("", false)
                             : std::pair<std::string, bool>(*twice, true);
}

// The members, each with a comma behind it, that the options set and the body leaves open. `system`
// only for bodies that are made here.
std::string MembersToSet(const Members& body, Endpoint endpoint, const RequestLineOptions& options,
                         bool with_system) {
  std::string front;
  const EndpointShape shape = ShapeOf(endpoint);
  if (!options.model.empty() && FindMember(body, "model") == nullptr) {
    absl::StrAppend(&front, "\"model\":", Quoted(options.model), ",");
  }
  if (options.max_tokens > 0 && !shape.max_tokens.empty() &&
      FindMember(body, shape.max_tokens) == nullptr &&
      FindMember(body, "max_completion_tokens") == nullptr) {
    absl::StrAppend(&front, "\"", shape.max_tokens, "\":", options.max_tokens, ",");
  }
  if (with_system && !options.system.empty() && !shape.system.empty() &&
      FindMember(body, shape.system) == nullptr) {
    absl::StrAppend(&front, "\"", shape.system, "\":", Quoted(options.system), ",");
  }
  return front;
}

// One line on its way through; each step returns false with the error filled.
class Parser {
 public:
  Parser(absl::string_view text, int64_t line, const RequestLineOptions& options,
         ParsedRequest* request, RequestLineError* error)
      : text_(text), line_(line), options_(options), request_(request), error_(error) {}

  bool Run() {
    *request_ = ParsedRequest();
    *error_ = RequestLineError();
    absl::StatusOr<Members> split = SplitJsonObject(text_);
    if (!split.ok()) return RefuseLine();
    members_ = *std::move(split);
    const bool batch = FindMember(members_, "body") != nullptr ||
                       FindMember(members_, "url") != nullptr ||
                       FindMember(members_, "method") != nullptr;
    if (!TakeCustomId(batch) || !NoKeyTwice(members_, "")) return false;
    if (!(batch ? TakeBatchLine() : TakeShortForm())) return false;
    if (request_->custom_id.empty()) request_->custom_id = absl::StrCat("request-", line_);
    return true;
  }

 private:
  bool Refuse(absl::string_view field, absl::string_view reason) {
    error_->field = std::string(field);
    error_->reason = std::string(reason);
    return false;
  }

  bool RefuseLine() {
    const std::optional<JsonProblem> problem = FindJsonProblem(text_);
    if (!problem) {
      const size_t start = text_.find_first_not_of(" \t\r\n");
      return Refuse(
          "", absl::StrCat("expected an object, found ", text_[start] == '['   ? "a list"
                                                         : text_[start] == '"' ? "a string"
                                                                               : "a bare value"));
    }
    if (problem->utf8) return Refuse("", InvalidUtf8Message(text_));
    std::string hint = problem->hint;
    const absl::string_view stripped = absl::StripAsciiWhitespace(text_);
    if (stripped == "[" || stripped == "{") {
      hint =
          "one document over several lines? each line must be a whole request, as jq -c writes it";
    }
    return Refuse("",
                  absl::StrCat("not JSON: ", problem->reason, " at column ", problem->offset + 1,
                               hint.empty() ? "" : " (", hint, hint.empty() ? "" : ")"));
  }

  bool TakeCustomId(bool batch) {
    const JsonMember* member = FindMember(members_, "custom_id");
    absl::string_view name = "custom_id";
    if (!batch) {
      const JsonMember* const id = FindMember(members_, "id");
      if (id != nullptr && member != nullptr) {
        return Refuse("id", "custom_id and id are both given; keep one");
      }
      if (id != nullptr) {
        member = id;
        name = "id";
      }
    }
    if (member == nullptr) return true;
    if (member->kind != JsonKind::kString) {
      const bool number = member->kind == JsonKind::kNumber && member->raw_value.size() < kShownMax;
      return Refuse(
          name, absl::StrCat(Expected("a string", member->kind),
                             number ? absl::StrCat("; write \"", member->raw_value, "\"") : ""));
    }
    if (HasHalfPair(member->raw_value)) {
      return Refuse(name, "holds half of a surrogate pair, which is no character; write it whole");
    }
    std::string id = TextOf(member->raw_value);
    if (id.empty()) return Refuse(name, "is empty; leave it out to get one made");
    if (id.size() > kCustomIdBytesMax) {
      return Refuse(name, absl::StrCat("is ", id.size(), " bytes long; at most ", kCustomIdBytesMax,
                                       " are allowed"));
    }
    error_->custom_id = id;
    request_->custom_id = std::move(id);
    return true;
  }

  bool NoKeyTwice(const Members& members, absl::string_view prefix) {
    const auto [key, found] = RepeatedKey(members);
    if (!found) return true;
    const std::string shown = ShownKey(key);
    return Refuse(absl::StrCat(prefix, shown), absl::StrCat("same key twice: ", shown));
  }

  bool TakeBatchLine() {
    const JsonMember* const method = FindMember(members_, "method");
    if (method == nullptr) return Refuse("method", "missing; it must be \"POST\"");
    if (method->kind != JsonKind::kString) {
      return Refuse("method", Expected("\"POST\"", method->kind));
    }
    const std::string verb = TextOf(method->raw_value);
    if (verb != "POST") {
      return Refuse("method", absl::StrCat("expected \"POST\", found ", Shown(verb)));
    }
    const JsonMember* const url = FindMember(members_, "url");
    if (url == nullptr) {
      return Refuse("url", absl::StrCat("missing; known paths: ", KnownEndpointPaths()));
    }
    if (url->kind != JsonKind::kString) return Refuse("url", Expected("a string", url->kind));
    const std::string path = TextOf(url->raw_value);
    const std::optional<Endpoint> endpoint = EndpointFromPath(path);
    if (!endpoint) {
      return Refuse("url", absl::StrCat("not a known endpoint path: ", Shown(path),
                                        "; known paths: ", KnownEndpointPaths()));
    }
    if (options_.endpoint_given && *endpoint != options_.endpoint) {
      return Refuse("url", absl::StrCat("is ", path, ", but the job is for ",
                                        EndpointPath(options_.endpoint)));
    }
    const JsonMember* const body = FindMember(members_, "body");
    if (body == nullptr) return Refuse("body", "missing");
    if (body->kind != JsonKind::kObject) return Refuse("body", Expected("an object", body->kind));
    const absl::StatusOr<Members> inside = SplitJsonObject(body->raw_value);
    if (!inside.ok()) return Refuse("body", inside.status().message());
    if (!NoKeyTwice(*inside, "body.")) return false;
    request_->endpoint = *endpoint;
    return CheckBody(*inside, "body.") &&
           Finish(*inside, /*with_system=*/false, std::string(body->raw_value));
  }

  bool TakeShortForm() {
    request_->endpoint = options_.endpoint;
    const absl::string_view input = ShapeOf(options_.endpoint).input;
    const JsonMember* const prompt = FindMember(members_, "prompt");
    // Where the endpoint's own word is "prompt", it is a body field like any other.
    const bool turn = prompt != nullptr && input != "prompt";
    if (turn) {
      if (!TakesPrompt(options_.endpoint)) {
        return Refuse("prompt", absl::StrCat(EndpointPath(options_.endpoint),
                                             " takes no plain prompt; give its own fields"));
      }
      if (FindMember(members_, input) != nullptr) {
        return Refuse("prompt", absl::StrCat("prompt and ", input, " are both given; keep one"));
      }
      if (prompt->kind != JsonKind::kString) {
        return Refuse("prompt", Expected("a string", prompt->kind));
      }
    } else if (!input.empty() && FindMember(members_, input) == nullptr) {
      return Refuse("", input == "prompt"
                            ? absl::StrCat("has no \"prompt\" (or method, url and body)")
                            : absl::StrCat("has neither \"prompt\" nor \"", input,
                                           "\" (nor method, url and body)"));
    }
    if (!CheckBody(members_, "", turn)) return false;
    return Finish(members_, /*with_system=*/true, ShortBody(turn ? prompt : nullptr));
  }

  // The line without the members that are not the body's, and with `prompt` (may be null) in the
  // form that the endpoint wants. All other bytes stay, the blanks between members as well.
  std::string ShortBody(const JsonMember* prompt) const {
    std::string body;
    body.reserve(text_.size() + options_.system.size() + 64);
    size_t gap = text_.find('{') + 1;  // where the bytes before the next member start
    body.push_back('{');
    bool first = true;
    const size_t first_key = members_.empty() ? gap : KeyOffset(members_[0]);
    for (const JsonMember& member : members_) {
      const size_t key = KeyOffset(member);
      const size_t end = member.value_offset + member.raw_value.size();
      const absl::string_view name = member.raw_key;
      const bool dropped = KeyIs(name, "custom_id") || KeyIs(name, "id");
      if (!dropped) {
        if (first) {
          const size_t open = text_.find('{') + 1;
          absl::StrAppend(&body, text_.substr(open, first_key - open));
        } else {
          absl::StrAppend(&body, text_.substr(gap, key - gap));
        }
        first = false;
        if (&member == prompt) {
          absl::StrAppend(&body,
                          PromptMember(options_.endpoint, member.raw_value, options_.system));
        } else if (prompt == nullptr && KeyIs(name, "messages") && WantsSystem(member)) {
          absl::StrAppend(&body, text_.substr(key, member.value_offset - key),
                          WithSystemMessage(member.raw_value, options_.system));
        } else {
          absl::StrAppend(&body, text_.substr(key, end - key));
        }
      }
      gap = end;
    }
    absl::StrAppend(&body, text_.substr(gap, text_.rfind('}') + 1 - gap));
    return body;
  }

  size_t KeyOffset(const JsonMember& member) const {
    return static_cast<size_t>(member.raw_key.data() - text_.data()) - 1;
  }

  static bool KeyIs(absl::string_view raw_key, absl::string_view key) {
    return NeedsResolving(raw_key) ? TextOf(raw_key) == key : raw_key == key;
  }

  // Messages of their own that begin with a system message keep it.
  bool WantsSystem(const JsonMember& messages) const {
    if (options_.system.empty() || options_.endpoint != Endpoint::kChatCompletions) return false;
    const absl::StatusOr<Members> list = SplitJsonArray(messages.raw_value);
    if (!list.ok() || list->empty()) return false;
    const absl::StatusOr<Members> first = SplitJsonObject((*list)[0].raw_value);
    const JsonMember* const role = first.ok() ? FindMember(*first, "role") : nullptr;
    const std::string word = role == nullptr ? "" : TextOf(role->raw_value);
    return word != "system" && word != "developer";
  }

  // The shape that every server would refuse; all else is the server's to judge. `turned` says that
  // a plain prompt takes the place of the endpoint's input.
  bool CheckBody(const Members& body, absl::string_view prefix, bool turned = false) {
    const JsonMember* const stream = FindMember(body, "stream");
    if (stream != nullptr && stream->raw_value == "true") {
      return Refuse(absl::StrCat(prefix, "stream"),
                    "true is not possible here, answers are recorded whole; take it out (--stream "
                    "calls with streaming to measure the time to the first token)");
    }
    if (stream != nullptr && stream->kind != JsonKind::kBool && stream->kind != JsonKind::kNull) {
      return Refuse(absl::StrCat(prefix, "stream"), Expected("true or false", stream->kind));
    }
    const JsonMember* const model = FindMember(body, "model");
    if (model != nullptr && model->kind != JsonKind::kString) {
      return Refuse(absl::StrCat(prefix, "model"), Expected("a string", model->kind));
    }
    const absl::string_view name = ShapeOf(request_->endpoint).input;
    if (turned || name.empty()) return true;
    const JsonMember* const input = FindMember(body, name);
    const std::string field = absl::StrCat(prefix, name);
    if (input == nullptr) return Refuse(field, "missing");
    if (name == "messages") return CheckMessages(*input, field);
    if (input->kind == JsonKind::kString || input->kind == JsonKind::kArray) return true;
    return Refuse(field, Expected("a string or a list", input->kind));
  }

  bool CheckMessages(const JsonMember& messages, const std::string& field) {
    if (messages.kind != JsonKind::kArray) return Refuse(field, Expected("a list", messages.kind));
    const absl::StatusOr<Members> list = SplitJsonArray(messages.raw_value);
    if (!list.ok()) return Refuse(field, list.status().message());
    if (list->empty()) return Refuse(field, "is an empty list; give at least one message");
    for (size_t i = 0; i < list->size(); ++i) {
      const JsonMember& message = (*list)[i];
      if (message.kind != JsonKind::kObject) {
        return Refuse(absl::StrCat(field, "[", i, "]"), Expected("an object", message.kind));
      }
      const absl::StatusOr<Members> inside = SplitJsonObject(message.raw_value);
      const JsonMember* const role = inside.ok() ? FindMember(*inside, "role") : nullptr;
      if (role == nullptr) return Refuse(absl::StrCat(field, "[", i, "].role"), "missing");
      if (role->kind != JsonKind::kString) {
        return Refuse(absl::StrCat(field, "[", i, "].role"), Expected("a string", role->kind));
      }
    }
    return true;
  }

  bool Finish(const Members& members, bool with_system, std::string body) {
    const JsonMember* const model = FindMember(members, "model");
    request_->model = model != nullptr ? TextOf(model->raw_value) : options_.model;
    std::string front = MembersToSet(members, request_->endpoint, options_, with_system);
    if (!front.empty()) {
      // The comma is wanted only before another member.
      if (body.find_first_not_of(" \t\r\n", 1) == body.size() - 1) front.pop_back();
      body.insert(1, front);
    }
    request_->body = std::move(body);
    return true;
  }

  const absl::string_view text_;
  const int64_t line_;
  const RequestLineOptions& options_;
  ParsedRequest* const request_;
  RequestLineError* const error_;
  Members members_;
};

}  // namespace

bool ParseRequestLine(absl::string_view text, int64_t line, const RequestLineOptions& options,
                      ParsedRequest* request, RequestLineError* error) {
  if (Parser(text, line, options, request, error).Run()) {
    *error = RequestLineError();
    return true;
  }
  *request = ParsedRequest();
  return false;
}

ParsedRequest RequestFromPrompt(absl::string_view prompt, absl::string_view custom_id, int64_t line,
                                const RequestLineOptions& options) {
  ParsedRequest request;
  request.custom_id = custom_id.empty() ? absl::StrCat("request-", line) : std::string(custom_id);
  request.endpoint = options.endpoint;
  request.model = options.model;
  request.body =
      absl::StrCat("{", MembersToSet({}, options.endpoint, options, /*with_system=*/true),
                   PromptMember(options.endpoint, Quoted(prompt), options.system), "}");
  return request;
}

}  // namespace nightshift
