#include "coordinator/http/http_message.h"

#include "absl/strings/match.h"

namespace nightshift {

const std::string* HttpRequest::Header(absl::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (absl::EqualsIgnoreCase(key, name)) return &value;
  }
  return nullptr;
}

const std::string* HttpRequest::Query(absl::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace nightshift
