#include "worker/core/second_try.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace nightshift {
namespace {

// What the limit is called where the body sets none; null: the endpoint has none.
const char* CeilingName(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChatCompletions:
    case Endpoint::kCompletions:
    case Endpoint::kMessages:
      return "max_tokens";
    case Endpoint::kResponses:
      return "max_output_tokens";
    default:
      return nullptr;
  }
}

// Not above the bound, and no limit that was higher is lowered to it.
int64_t Raised(int64_t ceiling) {
  return ceiling >= kCeilingMax ? ceiling : std::min(ceiling * kCeilingFactor, kCeilingMax);
}

}  // namespace

bool IsTruncation(absl::string_view finish_reason) {
  return finish_reason == "length" || finish_reason == "max_tokens" ||
         finish_reason == "max_output_tokens" || finish_reason == "model_length";
}

AnswerVerdict JudgeAnswer(const SecondTries& tries, const CallOutcome& outcome) {
  // First whether it was cut off: a model that spent all its tokens on thinking has said nothing,
  // and would say nothing again.
  if (IsTruncation(outcome.finish_reason)) {
    if (tries.on_truncated == v1::ANSWER_POLICY_FAIL) return AnswerVerdict::kTooShort;
    if (tries.on_truncated == v1::ANSWER_POLICY_RETRY && tries.truncated < kTruncatedRetriesMax) {
      return AnswerVerdict::kAskForMore;
    }
  }
  if (outcome.empty_answer) {
    if (tries.on_empty == v1::ANSWER_POLICY_FAIL) return AnswerVerdict::kNothingSaid;
    if (tries.on_empty == v1::ANSWER_POLICY_RETRY && tries.empty < kEmptyRetriesMax) {
      return AnswerVerdict::kAskTheSame;
    }
  }
  return AnswerVerdict::kKeep;
}

std::optional<std::string> RaiseCeiling(Endpoint endpoint, absl::string_view body,
                                        const v1::Usage& usage) {
  const char* const name = CeilingName(endpoint);
  if (name == nullptr) return std::nullopt;
  const absl::StatusOr<std::vector<JsonMember>> members = SplitJsonObject(body);
  if (!members.ok()) return std::nullopt;
  std::string raised(body);
  bool found = false;
  bool changed = false;
  for (const char* key : {"max_completion_tokens", "max_tokens", "max_output_tokens"}) {
    const JsonMember* const member = FindMember(*members, key);
    int64_t ceiling = 0;
    if (member == nullptr || !absl::SimpleAtoi(member->raw_value, &ceiling) || ceiling < 1) {
      continue;
    }
    found = true;
    if (Raised(ceiling) <= ceiling) continue;
    raised = SpliceMember(raised, key, absl::StrCat(Raised(ceiling)));
    changed = true;
  }
  if (found) return changed ? std::optional<std::string>(std::move(raised)) : std::nullopt;
  // The limit was the server's own, or the end of the model's context; then it refuses a higher
  // one.
  const int64_t had = usage.completion_tokens();
  if (had < 1 || Raised(had) <= had) return std::nullopt;
  return SpliceMember(body, name, absl::StrCat(Raised(had)));
}

void AddUsage(const v1::Usage& more, v1::Usage* usage) {
  if (!more.known()) return;
  usage->set_known(true);
  usage->set_prompt_tokens(usage->prompt_tokens() + more.prompt_tokens());
  usage->set_completion_tokens(usage->completion_tokens() + more.completion_tokens());
  usage->set_cached_tokens(usage->cached_tokens() + more.cached_tokens());
  usage->set_reasoning_tokens(usage->reasoning_tokens() + more.reasoning_tokens());
  if (!more.cost_known()) return;
  usage->set_cost_known(true);
  usage->set_cost_usd(usage->cost_usd() + more.cost_usd());
}

}  // namespace nightshift
