// A request body of /v1/chat/completions or /v1/completions taken apart, for servers that must be
// asked in other words.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_KINDS_OPENAI_BODY_H_
#define NIGHTSHIFT_WORKER_BACKENDS_KINDS_OPENAI_BODY_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/endpoint.h"

namespace nightshift {

struct OpenAiBody {
  Endpoint endpoint = Endpoint::kUnspecified;
  std::string model;  // empty = none named
  nlohmann::ordered_json members;
};

// InvalidArgument when it is no object, or nested too deeply to be looked into.
absl::StatusOr<OpenAiBody> ReadOpenAiBody(Endpoint endpoint, absl::string_view body);

// The prompt as one text: that of /v1/completions; of a chat its one user message with the system
// messages before it, or, of several turns, each with its speaker's name in front and "Assistant:"
// at the end. InvalidArgument for what is no text: images, lists of prompts, calls of tools.
absl::StatusOr<std::string> PromptText(const OpenAiBody& body);

// The text of a message's `content`: a text, or parts that are all texts.
absl::StatusOr<std::string> ContentText(const nlohmann::ordered_json& content);

struct MemberRule {
  const char* from;          // OpenAI's name
  const char* to = nullptr;  // the server's; null = the same
};

// Sets `into` from the members that a rule names, and from temperature, top_p, top_k, stop and
// frequency_penalty, which all servers call the same. Members that ask for what every server does
// anyway (n of 1, no log probabilities, …) are left out, and so are those in `handled`, which the
// dialect sees to itself. InvalidArgument names a member that this server has no word for:
// answering something else than was asked would be worse.
absl::Status MapMembers(const OpenAiBody& body, absl::Span<const MemberRule> rules,
                        absl::Span<const char* const> handled, absl::string_view server,
                        nlohmann::ordered_json& into);

// A text or list of texts as a list.
nlohmann::ordered_json AsList(const nlohmann::ordered_json& value);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_KINDS_OPENAI_BODY_H_
