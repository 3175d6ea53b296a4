#include "coordinator/jobs/submission_check.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/endpoint.h"
#include "base/json.h"
#include "base/request_line.h"
#include "coordinator/jobs/bad_lines.h"

namespace nightshift {
namespace {

v1::BadLine MakeBad(const v1::SubmittedRequest& request, absl::string_view field,
                    std::string reason) {
  v1::BadLine bad;
  bad.set_line(request.line());
  bad.set_custom_id(request.custom_id());
  bad.set_field(field.data(), field.size());
  bad.set_reason(std::move(reason));
  return bad;
}

// The first byte of a valid document tells its kind.
bool IsObject(absl::string_view document) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(document);
  return !text.empty() && text.front() == '{';
}

}  // namespace

std::optional<v1::BadLine> CheckSubmitted(const v1::SubmittedRequest& request) {
  if (request.has_bad()) {
    v1::BadLine bad = request.bad();
    if (bad.line() == 0) bad.set_line(request.line());
    if (bad.custom_id().empty()) bad.set_custom_id(request.custom_id());
    return bad;
  }
  const size_t id_bytes = request.custom_id().size();
  if (id_bytes == 0 || id_bytes > kCustomIdBytesMax) {
    v1::BadLine bad =
        MakeBad(request, "custom_id",
                absl::StrCat("expected 1 to ", kCustomIdBytesMax, " bytes, found ", id_bytes));
    // Too long to be shown, and to be kept.
    bad.clear_custom_id();
    return bad;
  }
  if (EndpointPath(static_cast<Endpoint>(request.endpoint())).empty()) {
    return MakeBad(request, "url", absl::StrCat("expected one of ", KnownEndpointPaths()));
  }
  const absl::Status json = CheckJson(request.body());
  if (!json.ok()) {
    return MakeBad(request, "body",
                   absl::StrCat("not valid JSON: ", absl::string_view(json.message())));
  }
  if (!IsObject(request.body())) return MakeBad(request, "body", "expected an object");
  return std::nullopt;
}

v1::RequestRecord InvalidRequestRow(const v1::BadLine& bad) {
  v1::RequestRecord row;
  const bool usable = !bad.custom_id().empty() && bad.custom_id().size() <= kCustomIdBytesMax;
  row.set_custom_id(usable ? bad.custom_id() : absl::StrCat("request-", bad.line()));
  row.set_line(bad.line());
  row.set_invalid_reason(BadLineText(bad));
  return row;
}

v1::OutcomeRecord InvalidRequestOutcome(const v1::BadLine& bad, int64_t now_ms) {
  v1::OutcomeRecord outcome;
  outcome.set_kind(v1::OUTCOME_FAILED);
  outcome.set_error_class(v1::ERROR_CLASS_INVALID_REQUEST);
  outcome.set_error_code(kInvalidRequestLine);
  outcome.set_error_message(BadLineText(bad));
  outcome.set_queued_ms(-1);
  outcome.mutable_timing()->set_ttft_ms(-1);
  outcome.mutable_timing()->set_latency_ms(-1);
  outcome.set_finished_at_ms(now_ms);
  return outcome;
}

}  // namespace nightshift
