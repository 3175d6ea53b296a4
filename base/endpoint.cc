#include "base/endpoint.h"

#include <array>
#include <utility>

#include "absl/strings/str_join.h"

namespace nightshift {
namespace {

constexpr std::array<const char*, 9> kPaths = {"",
                                               "/v1/chat/completions",
                                               "/v1/completions",
                                               "/v1/embeddings",
                                               "/v1/responses",
                                               "/v1/moderations",
                                               "/v1/messages",
                                               "/v1/rerank",
                                               "/v1/score"};

}  // namespace

absl::string_view EndpointPath(Endpoint endpoint) {
  const auto index = static_cast<size_t>(endpoint);
  return index < kPaths.size() ? kPaths[index] : "";
}

std::optional<Endpoint> EndpointFromPath(absl::string_view path) {
  for (size_t i = 1; i < kPaths.size(); ++i) {
    if (path == kPaths[i]) return static_cast<Endpoint>(i);
  }
  return std::nullopt;
}

std::string KnownEndpointPaths() { return absl::StrJoin(kPaths.begin() + 1, kPaths.end(), ", "); }

}  // namespace nightshift
