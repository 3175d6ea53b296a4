#include "client/commands/job_options.h"

#include "base/endpoint.h"
#include "base/status_macros.h"
#include "client/input/text_argument.h"

namespace nightshift {

namespace {

v1::Speculation SpeculationOf(const std::string& word) {  // checked with the flag
  if (word == "on") return v1::SPECULATION_ON;
  return word == "off" ? v1::SPECULATION_OFF : v1::SPECULATION_AUTO;
}

// Of "keep|retry|fail", checked with the flag.
v1::AnswerPolicy PolicyOf(const std::string& word) {
  if (word == "retry") return v1::ANSWER_POLICY_RETRY;
  return word == "fail" ? v1::ANSWER_POLICY_FAIL : v1::ANSWER_POLICY_KEEP;
}

}  // namespace

v1::JobOptions MakeJobOptions(const Settings& settings, const std::string& input_name) {
  v1::JobOptions options;
  options.set_name(settings.Text("name"));
  options.set_priority(static_cast<int32_t>(settings.Int("priority")));
  options.set_weight(static_cast<int32_t>(settings.Int("weight")));
  options.set_speculation(SpeculationOf(settings.Text("speculation")));
  options.set_deadline_ms(absl::ToInt64Milliseconds(settings.Span("deadline")));
  options.set_max_attempts(static_cast<int32_t>(settings.Int("max-attempts")));
  options.set_request_timeout_ms(absl::ToInt64Milliseconds(settings.Span("request-timeout")));
  options.set_budget_usd(settings.Number("budget-usd"));
  options.set_budget_tokens(settings.Int("budget-tokens"));
  options.set_stream(settings.On("stream"));
  options.set_on_truncated(PolicyOf(settings.Text("on-truncated")));
  options.set_on_empty(PolicyOf(settings.Text("on-empty")));
  options.set_stop_on_error_rate(settings.Number("stop-on-error-rate"));
  for (const std::string& label : settings.List("label")) {
    const size_t at = label.find('=');  // there is one: checked with the flag
    (*options.mutable_labels())[label.substr(0, at)] = label.substr(at + 1);
  }
  options.set_input_name(input_name);
  return options;
}

absl::StatusOr<InputOptions> MakeInputOptions(const Settings& settings, const std::string& path) {
  InputOptions options;
  options.path = path;
  options.limit = settings.Int("limit");
  options.max_line_bytes = settings.Size("max-line-bytes");
  if (settings.Has("endpoint")) {
    options.request.endpoint = *EndpointFromPath(settings.Text("endpoint"));  // checked before
    options.request.endpoint_given = true;
  }
  options.request.model = settings.Text("model");
  options.request.max_tokens = settings.Int("max-tokens");
  if (settings.Has("system")) {
    ASSIGN_OR_RETURN(options.request.system, ReadTextArgument("--system", settings.Text("system")));
  }
  if (settings.Has("template")) {
    ASSIGN_OR_RETURN(options.prompt_template,
                     ReadTextArgument("--template", settings.Text("template")));
  }
  return options;
}

}  // namespace nightshift
