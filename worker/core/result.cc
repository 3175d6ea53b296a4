#include "worker/core/result.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/check.h"
#include "worker/core/clean_text.h"
#include "worker/core/second_try.h"

namespace nightshift {
namespace {

constexpr size_t kWrappedBytesMax = 4096;
constexpr size_t kWordBytesMax = 256;

v1::AttemptResult::Kind KindOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAnswered:
      return v1::AttemptResult::ANSWERED;
    case Verdict::kRejected:
      return v1::AttemptResult::REJECTED;
    default:
      NIGHTSHIFT_CHECK(verdict == Verdict::kRetry || verdict == Verdict::kRetryFree,
                       "no result is made of this verdict");
      return v1::AttemptResult::RETRY;
  }
}

}  // namespace

std::string WrapNonJsonBody(absl::string_view body) {
  // The cut may fall into the middle of a character: `replace` mends that as it does any other
  // text that is not UTF-8.
  const absl::string_view start = absl::StripAsciiWhitespace(body).substr(0, kWrappedBytesMax);
  nlohmann::ordered_json error;
  error["message"] = std::string(start);
  error["type"] = "non_json_body";
  error["param"] = nullptr;
  error["code"] = nullptr;
  nlohmann::ordered_json document;
  document["error"] = std::move(error);
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

v1::AttemptResult MakeResult(CallOutcome&& outcome, Classification&& classification,
                             absl::string_view made_request_id) {
  v1::AttemptResult result;
  result.set_kind(KindOf(classification.verdict));
  result.set_charged(classification.verdict == Verdict::kRetry);
  if (classification.verdict != Verdict::kAnswered) {
    result.set_error_class(classification.error_class);
    result.set_error_message(std::move(classification.message));
  }
  if (!outcome.request_id.empty()) {
    result.set_request_id(CleanText(outcome.request_id, kWordBytesMax));
  }
  if (!classification.code.empty()) {
    result.set_error_code(std::move(classification.code));
    // For a person to look at: what the model had said before the stream broke off.
    if (outcome.body_is_partial && outcome.body_is_json) result.set_body(std::move(outcome.body));
  } else {
    result.set_http_status(outcome.http_status);
    if (outcome.request_id.empty()) {
      result.set_request_id(made_request_id.data(), made_request_id.size());
    }
    if (outcome.body_is_json) {
      result.set_body(std::move(outcome.body));
    } else if (!absl::StripAsciiWhitespace(outcome.body).empty()) {
      result.set_body(WrapNonJsonBody(outcome.body));
    }
  }
  const std::string finish_reason = CleanText(outcome.finish_reason, kWordBytesMax);
  *result.mutable_timing() = std::move(outcome.timing);
  *result.mutable_usage() = std::move(outcome.usage);
  if (outcome.empty_answer && (classification.verdict == Verdict::kAnswered ||
                               result.error_class() == v1::ERROR_CLASS_QUALITY_CHECK_FAILED)) {
    result.add_flags("empty");
  }
  if (IsTruncation(finish_reason)) result.add_flags("truncated");
  if (finish_reason == "content_filter") result.add_flags("filtered");
  if (outcome.refused) result.add_flags("refused");
  if (outcome.repetitive) result.add_flags("repetitive");
  result.set_finish_reason(finish_reason);
  if (outcome.retry_after > absl::ZeroDuration()) {
    result.set_retry_after_ms(absl::ToInt64Milliseconds(outcome.retry_after));
  }
  return result;
}

}  // namespace nightshift
