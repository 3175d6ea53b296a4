#include "client/sim/sim_request.h"

#include <openssl/sha.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr int64_t kBytesPerToken = 4;
constexpr size_t kKeyBytesMax = 128;
constexpr int64_t kChoicesMax = 128;
constexpr size_t kMarkBytes = 6;

// Calls `visit` with each element of a valid JSON array.
template <typename Visit>
void ForEachElement(absl::string_view array, Visit visit) {
  absl::string_view inside = array.substr(1, array.size() - 2);
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  const auto take = [&](size_t end) {
    const absl::string_view element = absl::StripAsciiWhitespace(inside.substr(begin, end - begin));
    if (!element.empty()) visit(element);
    begin = end + 1;
  };
  for (size_t i = 0; i < inside.size(); ++i) {
    const char c = inside[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      take(i);
    }
  }
  take(inside.size());
}

// Collects the words that a model would read: strings, in lists and in the members `content`,
// `text`, `input_text` and `document` of objects.
class TextCollector {
 public:
  void Add(absl::string_view raw) {
    if (raw.empty()) return;
    if (raw[0] == '"') {
      const absl::StatusOr<std::string> decoded = JsonStringText(raw);
      if (decoded.ok()) absl::StrAppend(&text_, text_.empty() ? "" : "\n", *decoded);
    } else if (raw[0] == '[') {
      ForEachElement(raw, [&](absl::string_view element) { Add(element); });
    } else if (raw[0] == '{') {
      const absl::StatusOr<std::vector<JsonMember>> members = SplitJsonObject(raw);
      if (!members.ok()) return;
      for (const char* key : {"content", "text", "document"}) {
        if (const JsonMember* member = FindMember(*members, key)) Add(member->raw_value);
      }
    } else {
      ++numbers_;  // a prompt of token numbers
    }
  }

  const std::string& text() const { return text_; }
  int64_t tokens() const {
    const auto bytes = static_cast<int64_t>(text_.size());
    return std::max<int64_t>(1, (bytes + kBytesPerToken - 1) / kBytesPerToken + numbers_);
  }

 private:
  std::string text_;
  int64_t numbers_ = 0;
};

int64_t IntOr(const std::vector<JsonMember>& members, absl::string_view key, int64_t otherwise) {
  const JsonMember* const member = FindMember(members, key);
  double value = 0;  // 1e3 is a whole number too
  if (member == nullptr || !absl::SimpleAtod(member->raw_value, &value)) return otherwise;
  return value >= -9e15 && value <= 9e15 ? static_cast<int64_t>(value) : otherwise;
}

bool IsTrue(const std::vector<JsonMember>& members, absl::string_view key) {
  const JsonMember* const member = FindMember(members, key);
  return member != nullptr && member->raw_value == "true";
}

std::string TextOr(const std::vector<JsonMember>& members, absl::string_view key) {
  const JsonMember* const member = FindMember(members, key);
  if (member == nullptr || member->kind != JsonKind::kString) return "";
  return JsonStringText(member->raw_value).value_or("");
}

SimDirective ReadDirective(const std::vector<JsonMember>& members) {
  SimDirective directive;
  directive.times = IntOr(members, "times", INT64_MAX);
  directive.status = static_cast<int>(IntOr(members, "status", 0));
  if (const JsonMember* body = FindMember(members, "body")) {
    directive.body =
        body->kind == JsonKind::kString ? TextOr(members, "body") : std::string(body->raw_value);
  }
  if (const JsonMember* headers = FindMember(members, "headers");
      headers != nullptr && headers->kind == JsonKind::kObject) {
    const absl::StatusOr<std::vector<JsonMember>> list = SplitJsonObject(headers->raw_value);
    for (size_t i = 0; list.ok() && i < list->size(); ++i) {
      directive.headers.emplace_back(std::string((*list)[i].raw_key),
                                     TextOr(*list, (*list)[i].raw_key));
    }
  }
  double seconds = 0;
  const JsonMember* const delay = FindMember(members, "delay");
  if (delay != nullptr && absl::SimpleAtod(delay->raw_value, &seconds) && seconds > 0) {
    directive.delay = absl::Seconds(seconds);
  }
  directive.hang = IsTrue(members, "hang");
  directive.drop_before = TextOr(members, "drop") == "before";
  directive.drop_mid = TextOr(members, "drop") == "mid";
  directive.garbage = IsTrue(members, "garbage");
  directive.empty = IsTrue(members, "empty");
  directive.length = IsTrue(members, "length");
  if (const int64_t tokens = IntOr(members, "tokens", -1); tokens >= 0) directive.tokens = tokens;
  directive.sse_error = static_cast<int>(IntOr(members, "sse_error", -1));
  directive.sse_cut = static_cast<int>(IntOr(members, "sse_cut", -1));
  return directive;
}

void SetKey(SimRequest& request, absl::string_view key) {
  if (key.empty()) return;
  request.key = std::string(key.substr(0, kKeyBytesMax));
  request.key_given = true;
}

void ReadDirectiveAndKey(absl::string_view text, bool directives, SimRequest& request) {
  if (const size_t begin = directives ? text.find("<<{") : absl::string_view::npos;
      begin != absl::string_view::npos) {
    const size_t end = text.find("}>>", begin);
    if (end != absl::string_view::npos) {
      const absl::StatusOr<std::vector<JsonMember>> members =
          SplitJsonObject(text.substr(begin + 2, end - begin - 1));
      if (members.ok()) {
        request.directive = ReadDirective(*members);
        SetKey(request, TextOr(*members, "key"));
        return;
      }
    }
  }
  const size_t at = text.find("key=");
  if (at == absl::string_view::npos) return;
  const absl::string_view rest = text.substr(at + 4);
  size_t end = 0;
  while (end < rest.size() &&
         (absl::ascii_isalnum(static_cast<unsigned char>(rest[end])) ||
          absl::string_view("-_.:/#").find(rest[end]) != absl::string_view::npos)) {
    ++end;
  }
  SetKey(request, rest.substr(0, end));
}

struct Shape {
  const char* prompt;      // the member that holds the prompt
  const char* max_tokens;  // the newer and
  const char* max_alias;   // the older name of the bound
};

Shape ShapeOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChatCompletions:
      return {"messages", "max_completion_tokens", "max_tokens"};
    case Endpoint::kMessages:
      return {"messages", "max_tokens", "max_tokens"};
    case Endpoint::kCompletions:
      return {"prompt", "max_tokens", "max_completion_tokens"};
    case Endpoint::kResponses:
      return {"input", "max_output_tokens", "max_output_tokens"};
    case Endpoint::kRerank:
      return {"documents", "max_tokens", "max_tokens"};
    case Endpoint::kScore:
      return {"text_2", "max_tokens", "max_tokens"};
    case Endpoint::kEmbeddings:
    case Endpoint::kModerations:
    case Endpoint::kUnspecified:
      break;
  }
  return {"input", "max_tokens", "max_tokens"};
}

// How many prompts a prompt is: a list of strings or of lists holds one each, a list of numbers is
// one prompt of tokens.
int64_t CountInputs(absl::string_view raw) {
  if (raw.empty() || raw[0] != '[') return 1;
  int64_t count = 0;
  bool numbers = false;
  ForEachElement(raw, [&](absl::string_view element) {
    ++count;
    numbers = numbers || (element[0] != '"' && element[0] != '[' && element[0] != '{');
  });
  return numbers ? 1 : std::max<int64_t>(1, count);
}

}  // namespace

absl::StatusOr<SimRequest> ParseSimRequest(Endpoint endpoint, absl::string_view body, uint64_t seed,
                                           bool directives) {
  ASSIGN_OR_RETURN(const std::vector<JsonMember> members, SplitJsonObject(body));
  SimRequest request;
  request.endpoint = endpoint;
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(body.data()), body.size(), digest);
  request.mark =
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), kMarkBytes));
  request.hash = XXH3_64bits_withSeed(body.data(), body.size(), seed);
  request.model = TextOr(members, "model");
  if (request.model.empty()) return absl::InvalidArgumentError("model: field required");

  const Shape shape = ShapeOf(endpoint);
  const JsonMember* const prompt = FindMember(members, shape.prompt);
  if (prompt == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(shape.prompt, ": field required"));
  }
  const bool is_chat = absl::string_view(shape.prompt) == "messages";
  if (is_chat && (prompt->kind != JsonKind::kArray ||
                  prompt->raw_value.find('{') == absl::string_view::npos)) {
    return absl::InvalidArgumentError("messages: expected a list with at least one message");
  }
  TextCollector text;
  for (const char* also : {"system", "instructions", "query", "text_1"}) {
    if (const JsonMember* member = FindMember(members, also)) text.Add(member->raw_value);
  }
  text.Add(prompt->raw_value);
  request.prompt_tokens = text.tokens();
  if (!is_chat && endpoint != Endpoint::kResponses) request.inputs = CountInputs(prompt->raw_value);
  request.choices = std::clamp<int64_t>(IntOr(members, "n", 1), 1, kChoicesMax);
  request.max_tokens =
      std::max<int64_t>(0, IntOr(members, shape.max_tokens, IntOr(members, shape.max_alias, 0)));
  // Messages and responses are answered whole here, whatever was asked for.
  request.stream = IsTrue(members, "stream") && endpoint != Endpoint::kMessages &&
                   endpoint != Endpoint::kResponses;
  if (const JsonMember* options = FindMember(members, "stream_options");
      options != nullptr && options->kind == JsonKind::kObject) {
    const absl::StatusOr<std::vector<JsonMember>> list = SplitJsonObject(options->raw_value);
    request.include_usage = list.ok() && IsTrue(*list, "include_usage");
  }
  ReadDirectiveAndKey(text.text(), directives, request);
  if (!request.key_given) request.key = request.mark;
  return request;
}

}  // namespace nightshift
