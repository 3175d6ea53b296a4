#include "coordinator/jobs/output_line.h"

#include <charconv>

#include "absl/strings/strip.h"
#include "base/json.h"
#include "coordinator/jobs/output_reader.h"
#include "proto/words.h"

namespace nightshift {
namespace {

constexpr int kStatusOk = 200;

void Append(std::string* out, absl::string_view text) { out->append(text.data(), text.size()); }

// Integers, and doubles in the fewest digits that read back as the same number.
template <typename Number>
void AppendNumber(std::string* out, Number number) {
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), number);
  out->append(digits, end.ptr);
}

// Most texts are short words; the careful way is for the others.
void AppendText(std::string* out, absl::string_view text) {
  for (const char c : text) {
    if (c < ' ' || c > '~' || c == '"' || c == '\\') {
      AppendJsonString(*out, text);
      return;
    }
  }
  out->push_back('"');
  Append(out, text);
  out->push_back('"');
}

void AppendTextOrNull(std::string* out, absl::string_view text) {
  if (text.empty()) {
    Append(out, "null");
  } else {
    AppendText(out, text);
  }
}

void AppendNumberOrNull(std::string* out, bool known, int64_t number) {
  if (known) {
    AppendNumber(out, number);
  } else {
    Append(out, "null");
  }
}

// For an outcome whose writer left the code out.
std::string CodeOfClass(v1::ErrorClass error_class) {
  if (error_class == v1::ERROR_CLASS_TIMEOUT) return "request_timeout";
  if (error_class == v1::ERROR_CLASS_CANCELLED) return "batch_cancelled";
  if (error_class == v1::ERROR_CLASS_EXPIRED) return "batch_expired";
  return error_class == v1::ERROR_CLASS_NONE ? "unknown_error" : ErrorClassWord(error_class);
}

// What not every backend tells and not every call measures: only where it is known.
void AppendDetails(const v1::OutcomeRecord& outcome, std::string* out) {
  const v1::AttemptTiming& timing = outcome.timing();
  const v1::Usage& usage = outcome.usage();
  if (outcome.moved()) Append(out, ",\"moved\":true");
  const auto add = [out](absl::string_view name, bool known, auto number) {
    if (!known) return;
    Append(out, ",\"");
    Append(out, name);
    Append(out, "\":");
    AppendNumber(out, number);
  };
  add("truncated_retries", outcome.truncated_retries() > 0, outcome.truncated_retries());
  add("empty_retries", outcome.empty_retries() > 0, outcome.empty_retries());
  add("cached_tokens", usage.cached_tokens() > 0, usage.cached_tokens());
  add("reasoning_tokens", usage.reasoning_tokens() > 0, usage.reasoning_tokens());
  add("connect_ms", timing.has_connect_ms(), timing.connect_ms());
  add("first_byte_ms", timing.has_first_byte_ms(), timing.first_byte_ms());
  add("gap_mean_ms", timing.has_gap_mean_ms(), timing.gap_mean_ms());
  add("gap_max_ms", timing.has_gap_max_ms(), timing.gap_max_ms());
  add("server_queue_ms", timing.has_server_queue_ms(), timing.server_queue_ms());
  add("server_prompt_ms", timing.has_server_prompt_ms(), timing.server_prompt_ms());
  add("server_completion_ms", timing.has_server_completion_ms(), timing.server_completion_ms());
}

// `partial` is what had come of a streamed answer that broke off; empty = nothing.
void AppendAccounting(const v1::OutcomeRecord& outcome, absl::string_view partial,
                      std::string* out) {
  const v1::AttemptTiming& timing = outcome.timing();
  const v1::Usage& usage = outcome.usage();
  Append(out, "{\"attempts\":");
  AppendNumber(out, outcome.attempts());
  Append(out, ",\"backend\":");
  AppendTextOrNull(out, outcome.backend());
  Append(out, ",\"worker\":");
  AppendTextOrNull(out, outcome.worker());
  Append(out, ",\"queued_ms\":");
  AppendNumberOrNull(out, outcome.queued_ms() >= 0, outcome.queued_ms());
  Append(out, ",\"ttft_ms\":");
  AppendNumberOrNull(out, outcome.has_timing() && timing.ttft_ms() >= 0, timing.ttft_ms());
  Append(out, ",\"latency_ms\":");
  AppendNumberOrNull(out, outcome.has_timing() && timing.latency_ms() >= 0, timing.latency_ms());
  Append(out, ",\"prompt_tokens\":");
  AppendNumberOrNull(out, usage.known(), usage.prompt_tokens());
  Append(out, ",\"completion_tokens\":");
  AppendNumberOrNull(out, usage.known(), usage.completion_tokens());
  Append(out, ",\"cost_usd\":");
  if (usage.cost_known()) {
    AppendNumber(out, usage.cost_usd());
  } else {
    Append(out, "null");
  }
  Append(out, ",\"finish_reason\":");
  AppendTextOrNull(out, outcome.finish_reason());
  Append(out, ",\"flags\":[");
  for (int i = 0; i < outcome.flags_size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendText(out, outcome.flags(i));
  }
  out->push_back(']');
  AppendDetails(outcome, out);
  if (outcome.kind() != v1::OUTCOME_SUCCEEDED) {
    Append(out, ",\"error_class\":");
    AppendTextOrNull(out, outcome.error_class() == v1::ERROR_CLASS_NONE
                              ? std::string()
                              : ErrorClassWord(outcome.error_class()));
  }
  if (!partial.empty()) {
    Append(out, ",\"partial_response\":");
    Append(out, partial);
  }
  out->push_back('}');
}

}  // namespace

void AppendOutputLine(absl::string_view job_id, uint64_t index, absl::string_view custom_id,
                      const v1::OutcomeRecord& outcome, absl::string_view body, std::string* out) {
  const bool succeeded = outcome.kind() == v1::OUTCOME_SUCCEEDED;
  // Ids of jobs are plain letters and digits.
  Append(out, "{\"id\":\"batch_req_");
  Append(out, absl::StripPrefix(job_id, "job_"));
  out->push_back('_');
  AppendNumber(out, index);
  Append(out, "\",\"custom_id\":");
  AppendText(out, custom_id);
  const bool has_response = succeeded || (outcome.http_status() > 0 && !body.empty());
  if (has_response) {
    Append(out, ",\"response\":{\"status_code\":");
    AppendNumber(out, outcome.http_status() > 0 ? outcome.http_status() : kStatusOk);
    Append(out, ",\"request_id\":");
    AppendText(out, outcome.request_id());
    Append(out, ",\"body\":");
    Append(out, body.empty() ? absl::string_view("null") : body);
    Append(out, "},\"error\":null");
  } else {
    Append(out, ",\"response\":null,\"error\":{\"code\":");
    AppendText(out, outcome.error_code().empty() ? CodeOfClass(outcome.error_class())
                                                 : outcome.error_code());
    Append(out, ",\"message\":");
    AppendText(out, outcome.error_message());
    out->push_back('}');
  }
  Append(out, ",\"nightshift\":");
  AppendAccounting(outcome, has_response ? absl::string_view() : body, out);
  Append(out, "}\n");
}

std::string OutputLine(const v1::JobRecord& job, uint64_t index, const v1::RequestRecord& request,
                       const v1::OutcomeRecord& outcome, absl::string_view body) {
  std::string line;
  AppendOutputLine(job.id(), index, request.custom_id(), outcome, body, &line);
  return line;
}

v1::OutcomeRecord UnrunOutcome(const v1::JobRecord& job) {
  v1::OutcomeRecord outcome;
  outcome.set_queued_ms(-1);
  switch (job.state()) {
    case v1::JOB_STATE_EXPIRED:
      outcome.set_kind(v1::OUTCOME_EXPIRED);
      outcome.set_error_class(v1::ERROR_CLASS_EXPIRED);
      outcome.set_error_code("batch_expired");
      outcome.set_error_message(
          "The deadline of the job passed before this request had an answer.");
      break;
    case v1::JOB_STATE_FAILED:
      outcome.set_kind(v1::OUTCOME_CANCELLED);
      outcome.set_error_class(v1::ERROR_CLASS_CANCELLED);
      outcome.set_error_code("job_stopped");
      outcome.set_error_message("The job was stopped before this request had an answer.");
      if (!job.state_detail().empty()) {
        outcome.mutable_error_message()->append(" Reason: ").append(job.state_detail());
      }
      break;
    default:
      outcome.set_kind(v1::OUTCOME_CANCELLED);
      outcome.set_error_class(v1::ERROR_CLASS_CANCELLED);
      outcome.set_error_code("batch_cancelled");
      outcome.set_error_message("The job was cancelled before this request had an answer.");
      break;
  }
  return outcome;
}

}  // namespace nightshift
