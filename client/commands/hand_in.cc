#include "client/commands/hand_in.h"

#include <utility>

#include "base/status_macros.h"

namespace nightshift {
namespace {

// A message is closed when it has passed one of these.
constexpr int kRequestsPerMessageMax = 1024;
constexpr int64_t kBytesPerMessageMax = int64_t{1} << 20;

v1::SubmittedRequest ToMessage(InputItem&& item) {
  v1::SubmittedRequest out;
  out.set_line(item.line);
  if (item.good) {
    out.set_custom_id(std::move(item.request.custom_id));
    out.set_endpoint(static_cast<v1::Endpoint>(item.request.endpoint));
    out.set_body(std::move(item.request.body));
    out.set_model(std::move(item.request.model));
  } else {
    out.set_custom_id(item.error.custom_id);
    v1::BadLine& bad = *out.mutable_bad();
    bad.set_line(item.line);
    bad.set_custom_id(std::move(item.error.custom_id));
    bad.set_field(std::move(item.error.field));
    bad.set_reason(std::move(item.error.reason));
  }
  return out;
}

}  // namespace

absl::StatusOr<HandInResult> HandIn(JobClient& client, const InputOptions& input,
                                    const HandInOptions& options, bool* input_failed) {
  *input_failed = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<InputReader> reader, InputReader::Open(input));
  v1::SubmitBegin begin;
  *begin.mutable_options() = options.job;
  begin.set_skip_bad_lines(options.skip_bad_lines);
  const std::unique_ptr<SubmitStream> stream = client.Submit(begin);

  v1::SubmitRequests batch;
  int64_t batch_bytes = 0;
  const auto flush = [&]() -> absl::Status {
    if (batch.requests().empty()) return absl::OkStatus();
    *input_failed = false;
    const absl::Status status = stream->Write(std::move(batch));
    if (status.ok()) *input_failed = true;
    batch.Clear();
    batch_bytes = 0;
    return status;
  };
  InputItem item;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader->Next(&item));
    if (!more) break;
    if (item.good && options.check) RETURN_IF_ERROR(options.check(item.request, item.line));
    batch_bytes += static_cast<int64_t>(item.request.body.size());
    *batch.add_requests() = ToMessage(std::move(item));
    if (batch.requests_size() >= kRequestsPerMessageMax || batch_bytes >= kBytesPerMessageMax)
      RETURN_IF_ERROR(flush());
  }
  RETURN_IF_ERROR(flush());

  *input_failed = false;
  v1::SubmitSeal seal;
  seal.set_idempotency_token(options.token);
  absl::StatusOr<v1::SubmitReply> reply = stream->Seal(seal);
  if (absl::IsUnavailable(reply.status())) {
    // The job may be there and only the answer lost.
    absl::StatusOr<v1::JobStatus> found = client.FindJob(options.token);
    if (!found.ok()) return reply.status();
    reply = v1::SubmitReply();
    reply->set_result(v1::SubmitReply::CREATED);
    reply->set_requests(found->counts().total());
    *reply->mutable_job() = *std::move(found);
  }
  if (!reply.ok()) return reply.status();
  return HandInResult{*std::move(reply), reader->stats(), reader->Warnings()};
}

}  // namespace nightshift
