#include "worker/backends/bounded_json.h"

#include "nlohmann/json.hpp"
#include "worker/backends/lenient_json.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

bool TooDeep(absl::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kJsonDepthMax) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// `mended` may be null.
std::optional<Json> Parse(absl::string_view text, Halves halves, bool* mended) {
  if (TooDeep(text)) return std::nullopt;
  Json parsed = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_discarded()) return parsed;
  const std::string lenient = LenientCopy(text, halves);
  parsed = Json::parse(lenient, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return std::nullopt;
  if (mended != nullptr) *mended = true;
  return parsed;
}

}  // namespace

std::optional<Json> ParseBounded(absl::string_view text) {
  return Parse(text, Halves::kReplace, nullptr);
}

std::optional<Json> ParseFrame(absl::string_view text, bool* marked) {
  return Parse(text, Halves::kMark, marked);
}

const Json* FindIn(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string TextIn(const Json& object, const char* key) {
  const Json* const value = FindIn(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

double NumberIn(const Json& object, const char* key) {
  const Json* const value = FindIn(object, key);
  if (value == nullptr || !value->is_number()) return -1;
  const double number = value->get<double>();
  return number >= 0 && number < 1e15 ? number : -1;
}

std::string PrintJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace nightshift
