#include "base/request_shape.h"

#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace nightshift {
namespace {

std::string Message(absl::string_view role, absl::string_view raw_content) {
  return absl::StrCat("{\"role\":\"", role, "\",\"content\":", raw_content, "}");
}

}  // namespace

EndpointShape ShapeOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChatCompletions:
      return {"messages", "max_tokens", ""};
    case Endpoint::kMessages:
      return {"messages", "max_tokens", "system"};
    case Endpoint::kCompletions:
      return {"prompt", "max_tokens", ""};
    case Endpoint::kResponses:
      return {"input", "max_output_tokens", "instructions"};
    case Endpoint::kEmbeddings:
    case Endpoint::kModerations:
      return {"input", "", ""};
    case Endpoint::kRerank:
    case Endpoint::kScore:
    case Endpoint::kUnspecified:
      break;
  }
  return {"", "", ""};
}

bool TakesPrompt(Endpoint endpoint) { return !ShapeOf(endpoint).input.empty(); }

bool TakesSystem(Endpoint endpoint) {
  return endpoint == Endpoint::kChatCompletions || !ShapeOf(endpoint).system.empty();
}

std::string PromptMember(Endpoint endpoint, absl::string_view raw, absl::string_view system) {
  const absl::string_view input = ShapeOf(endpoint).input;
  if (input != "messages") return absl::StrCat("\"", input, "\":", raw);
  std::string messages = absl::StrCat("[", Message("user", raw), "]");
  if (endpoint == Endpoint::kChatCompletions && !system.empty()) {
    messages = WithSystemMessage(messages, system);
  }
  return absl::StrCat("\"messages\":", messages);
}

std::string WithSystemMessage(absl::string_view messages, absl::string_view system) {
  return absl::StrCat("[", Message("system", Quoted(system)), ",", messages.substr(1));
}

std::string Quoted(absl::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

}  // namespace nightshift
