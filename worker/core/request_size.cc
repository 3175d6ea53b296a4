#include "worker/core/request_size.h"

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "base/json.h"

namespace nightshift {
namespace {

// A number that any server takes for a mistake; keeps sums in range.
constexpr double kCountMax = 1e9;

// -1 when there is no such member or it is no number.
double Number(const std::vector<JsonMember>& members, absl::string_view key) {
  const JsonMember* const member = FindMember(members, key);
  double number = -1;
  if (member == nullptr || member->kind != JsonKind::kNumber ||
      !absl::SimpleAtod(member->raw_value, &number)) {
    return -1;
  }
  return std::min(number, kCountMax);
}

bool Generates(Endpoint endpoint) {
  return endpoint == Endpoint::kChatCompletions || endpoint == Endpoint::kCompletions ||
         endpoint == Endpoint::kResponses || endpoint == Endpoint::kMessages;
}

}  // namespace

RequestSize ReadRequestSize(Endpoint endpoint, absl::string_view body) {
  RequestSize size;
  size.bytes = static_cast<int64_t>(body.size());
  if (!Generates(endpoint)) size.answer_max = 0;
  const absl::StatusOr<std::vector<JsonMember>> members = SplitJsonObject(body);
  if (!members.ok()) return size;
  const JsonMember* const model = FindMember(*members, "model");
  if (model != nullptr && model->kind == JsonKind::kString) {
    size.model = JsonStringText(model->raw_value).value_or("");
  }
  if (size.answer_max == 0) return size;
  for (const char* key : {"max_completion_tokens", "max_tokens", "max_output_tokens"}) {
    const double tokens = Number(*members, key);
    if (tokens < 0) continue;
    const double answers = std::max(1.0, Number(*members, "n"));
    size.answer_max = static_cast<int64_t>(std::min(tokens * answers, kCountMax));
    break;
  }
  return size;
}

}  // namespace nightshift
