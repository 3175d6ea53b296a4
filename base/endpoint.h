// The endpoint paths that a request may name, as the OpenAI-compatible servers spell them.
#ifndef NIGHTSHIFT_BASE_ENDPOINT_H_
#define NIGHTSHIFT_BASE_ENDPOINT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace nightshift {

// The numbers are stored and sent (nightshift.v1.Endpoint has the same); never reuse one.
enum class Endpoint : uint8_t {
  kUnspecified = 0,
  kChatCompletions = 1,
  kCompletions = 2,
  kEmbeddings = 3,
  kResponses = 4,
  kModerations = 5,
  kMessages = 6,
  kRerank = 7,
  kScore = 8,
};

// "/v1/chat/completions" and so on; empty for kUnspecified or a number this build does not know.
absl::string_view EndpointPath(Endpoint endpoint);

// The endpoint of exactly that path; nullopt for any other text.
std::optional<Endpoint> EndpointFromPath(absl::string_view path);

// All known paths, comma separated, for messages.
std::string KnownEndpointPaths();

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_ENDPOINT_H_
