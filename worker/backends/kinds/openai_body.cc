#include "worker/backends/kinds/openai_body.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/backends/bounded_json.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

// Members that steer no generation, or that the call itself sees to.
constexpr const char* kSameEverywhere[] = {"temperature", "top_p", "top_k", "stop",
                                           "frequency_penalty"};
constexpr const char* kNoMatter[] = {
    "model",        "messages",         "prompt",           "stream",
    "user",         "metadata",         "stream_options",   "store",
    "service_tier", "prompt_cache_key", "safety_identifier"};

// Asks for what happens anyway.
bool SaysNothing(const std::string& key, const Json& value) {
  if (value.is_null()) return true;
  if (key == "n" || key == "best_of") return value == 1;
  if (key == "logprobs" || key == "echo") return value == false || value == 0;
  if (key == "top_logprobs" || key == "frequency_penalty" || key == "presence_penalty")
    return value == 0;
  if (key == "response_format") return value == Json{{"type", "text"}};
  if (key == "tools" || key == "stop") return value.is_array() && value.empty();
  if (key == "logit_bias") return value.is_object() && value.empty();
  if (key == "tool_choice") return value == "none" || value == "auto";
  if (key == "parallel_tool_calls") return value.is_boolean();
  return false;
}

template <typename List>
bool Holds(const List& list, const std::string& key) {
  return std::any_of(std::begin(list), std::end(list),
                     [&key](const char* one) { return key == one; });
}

absl::Status CannotTell(absl::string_view what) { return absl::InvalidArgumentError(what); }

struct Turn {
  std::string role;
  std::string text;
};

absl::StatusOr<Turn> ReadTurn(const Json& message) {
  Turn turn;
  turn.role = TextIn(message, "role");
  if (turn.role == "tool" || turn.role == "function" || FindIn(message, "tool_calls") != nullptr)
    return CannotTell("a conversation with calls of tools has no form as one text");
  const Json* const content = FindIn(message, "content");
  if (content == nullptr) return turn;
  ASSIGN_OR_RETURN(turn.text, ContentText(*content));
  return turn;
}

absl::StatusOr<std::string> ChatText(const Json& messages) {
  std::string system;
  std::vector<Turn> turns;
  for (const Json& message : messages) {
    ASSIGN_OR_RETURN(Turn turn, ReadTurn(message));
    if (turn.role == "system" || turn.role == "developer") {
      absl::StrAppend(&system, turn.text, "\n\n");
    } else {
      turns.push_back(std::move(turn));
    }
  }
  if (turns.size() == 1 && turns[0].role == "user") return system + turns[0].text;
  std::string text = std::move(system);
  for (const Turn& turn : turns) {
    absl::StrAppend(&text, turn.role == "assistant" ? "Assistant: " : "User: ", turn.text, "\n\n");
  }
  absl::StrAppend(&text, "Assistant:");
  return text;
}

}  // namespace

absl::StatusOr<OpenAiBody> ReadOpenAiBody(Endpoint endpoint, absl::string_view body) {
  std::optional<Json> members = ParseBounded(body);
  if (!members || !members->is_object())
    return CannotTell("the body is no object, or nested too deeply to be told in other words");
  OpenAiBody read;
  read.endpoint = endpoint;
  read.model = TextIn(*members, "model");
  read.members = *std::move(members);
  return read;
}

absl::StatusOr<std::string> ContentText(const Json& content) {
  if (content.is_null()) return std::string();
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return CannotTell("messages: content is neither a text nor parts");
  std::string text;
  for (const Json& part : content) {
    const Json* const piece = FindIn(part, "text");
    if (piece == nullptr || !piece->is_string())
      return CannotTell("messages: this server is asked with text, and a part is something else");
    text += piece->get_ref<const std::string&>();
  }
  return text;
}

absl::StatusOr<std::string> PromptText(const OpenAiBody& body) {
  if (body.endpoint == Endpoint::kCompletions) {
    const Json* const prompt = FindIn(body.members, "prompt");
    if (prompt != nullptr && prompt->is_string()) return prompt->get<std::string>();
    return CannotTell("prompt: this server takes one text per call");
  }
  const Json* const messages = FindIn(body.members, "messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    return CannotTell("messages: expected a list with at least one message");
  return ChatText(*messages);
}

absl::Status MapMembers(const OpenAiBody& body, absl::Span<const MemberRule> rules,
                        absl::Span<const char* const> handled, absl::string_view server,
                        Json& into) {
  for (const auto& [key, value] : body.members.items()) {
    if (Holds(kNoMatter, key) || Holds(handled, key)) continue;
    const auto rule =
        std::find_if(rules.begin(), rules.end(),
                     [&name = key](const MemberRule& one) { return name == one.from; });
    if (rule != rules.end() && !value.is_null()) {
      into[rule->to != nullptr ? rule->to : rule->from] = value;
    } else if (Holds(kSameEverywhere, key) && !value.is_null()) {
      into[key] = value;
    } else if (!SaysNothing(key, value)) {
      return CannotTell(absl::StrCat(key, ": ", server,
                                     "'s own route has no word for this; ask it ",
                                     "through its OpenAI route, or leave the member out"));
    }
  }
  return absl::OkStatus();
}

Json AsList(const Json& value) { return value.is_array() ? value : Json::array({value}); }

}  // namespace nightshift
