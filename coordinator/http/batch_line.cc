#include "coordinator/http/batch_line.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/request_line.h"

namespace nightshift {
namespace {

absl::string_view CodeOf(absl::string_view field, absl::string_view reason) {
  if (field.empty()) return "invalid_json_line";
  if (field == "url") return "invalid_url";
  if (field == "custom_id" && reason.substr(0, 4) == "same") return "duplicate_custom_id";
  if (field == "body.stream") return "streaming_unsupported";
  return "invalid_request";
}

bool Refuse(int64_t line, absl::string_view code, absl::string_view param, std::string message,
            v1::BatchError* error) {
  error->set_line(line);
  error->set_code(code.data(), code.size());
  error->set_param(param.data(), param.size());
  error->set_message(std::move(message));
  return false;
}

}  // namespace

bool CheckBatchLine(absl::string_view text, int64_t line, const BatchLineRules& rules,
                    v1::SubmittedRequest* request, v1::BatchError* error) {
  const absl::StatusOr<std::vector<JsonMember>> members = SplitJsonObject(text);
  if (members.ok()) {
    for (const absl::string_view name : {"custom_id", "method", "url", "body"}) {
      if (FindMember(*members, name) == nullptr) {
        return Refuse(line, "missing_required_parameter", name,
                      absl::StrCat("Missing required parameter: '", name, "'."), error);
      }
    }
  }
  RequestLineOptions options;
  options.endpoint = rules.endpoint;
  options.endpoint_given = true;
  ParsedRequest parsed;
  RequestLineError problem;
  if (!ParseRequestLine(text, line, options, &parsed, &problem)) {
    std::string message =
        problem.field.empty()
            ? absl::StrCat("This line is not parseable as a JSON object: ", problem.reason)
            : absl::StrCat(problem.field, ": ", problem.reason);
    return Refuse(line, CodeOf(problem.field, problem.reason), problem.field, std::move(message),
                  error);
  }
  if (parsed.model.empty()) {
    return Refuse(line, "invalid_request", "body.model", "body.model: missing", error);
  }
  if (rules.models.has_value() && !rules.models->contains(parsed.model)) {
    std::string message = "The model ";
    AppendJsonString(message, parsed.model);
    absl::StrAppend(&message, " is not offered by any worker that is connected.");
    return Refuse(line, "model_not_found", "body.model", std::move(message), error);
  }
  request->set_custom_id(std::move(parsed.custom_id));
  request->set_endpoint(static_cast<v1::Endpoint>(parsed.endpoint));
  request->set_body(std::move(parsed.body));
  request->set_line(line);
  request->set_model(std::move(parsed.model));
  return true;
}

v1::BatchError BatchErrorOf(const v1::BadLine& bad) {
  v1::BatchError error;
  Refuse(bad.line(), CodeOf(bad.field(), bad.reason()), bad.field(),
         bad.field().empty() ? bad.reason() : absl::StrCat(bad.field(), ": ", bad.reason()),
         &error);
  return error;
}

}  // namespace nightshift
