#include "coordinator/core/outcome.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "proto/words.h"

namespace nightshift {

void FillOutcome(const v1::AttemptResult& result, v1::OutcomeKind kind, int32_t attempts,
                 absl::string_view worker, int64_t submitted_at_ms, absl::Time wall,
                 v1::OutcomeRecord* outcome) {
  outcome->set_kind(kind);
  if (kind != v1::OUTCOME_SUCCEEDED) {
    outcome->set_error_class(result.error_class());
    if (!result.error_code().empty()) outcome->set_error_code(result.error_code());
    if (!result.error_message().empty()) outcome->set_error_message(result.error_message());
    if (result.http_status() == 0 && result.error_code().empty()) {
      outcome->set_error_code(result.error_class() == v1::ERROR_CLASS_NONE
                                  ? "unknown_error"
                                  : ErrorClassWord(result.error_class()));
    }
  }
  outcome->set_http_status(result.http_status());
  // Setting a string allocates even when it is empty, and this runs once per request.
  if (!result.request_id().empty()) outcome->set_request_id(result.request_id());
  outcome->set_attempts(attempts);
  if (!result.backend().empty()) outcome->set_backend(result.backend());
  if (!worker.empty()) outcome->set_worker(worker.data(), worker.size());
  if (result.timing().started_unix_ms() > 0) {
    // Two machines' wall clocks: never negative, whatever they say.
    outcome->set_queued_ms(
        std::max<int64_t>(0, result.timing().started_unix_ms() - submitted_at_ms));
  }
  if (result.has_timing()) *outcome->mutable_timing() = result.timing();
  if (result.has_usage()) *outcome->mutable_usage() = result.usage();
  if (!result.finish_reason().empty()) outcome->set_finish_reason(result.finish_reason());
  if (result.flags_size() > 0) *outcome->mutable_flags() = result.flags();
  outcome->set_truncated_retries(result.truncated_retries());
  outcome->set_empty_retries(result.empty_retries());
  outcome->set_finished_at_ms(absl::ToUnixMillis(wall));
}

void AddToSums(const v1::OutcomeRecord& outcome, v1::ProgressSums* sums) {
  if (outcome.kind() == v1::OUTCOME_SUCCEEDED) {
    sums->set_succeeded(sums->succeeded() + 1);
  } else {
    sums->set_failed(sums->failed() + 1);
    ++(*sums->mutable_failed_by_class())[outcome.error_class()];
  }
  const v1::Usage& usage = outcome.usage();
  sums->set_prompt_tokens(sums->prompt_tokens() + usage.prompt_tokens());
  sums->set_completion_tokens(sums->completion_tokens() + usage.completion_tokens());
  if (usage.cost_known()) {
    sums->set_cost_usd(sums->cost_usd() + usage.cost_usd());
    sums->set_cost_known(true);
  }
  // Mostly none: a field that is not set takes no room in the delta.
  if (outcome.truncated_retries() > 0) {
    sums->set_truncated_retries(sums->truncated_retries() + outcome.truncated_retries());
  }
  if (outcome.empty_retries() > 0) {
    sums->set_empty_retries(sums->empty_retries() + outcome.empty_retries());
  }
  if (outcome.moved()) sums->set_moved(sums->moved() + 1);
}

}  // namespace nightshift
