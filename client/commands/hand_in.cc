#include "client/commands/hand_in.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/input/read_ahead.h"

namespace nightshift {
namespace {

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
  ASSIGN_OR_RETURN(std::unique_ptr<InputReader> reader, InputReader::Open(input));
  v1::SubmitBegin begin;
  *begin.mutable_options() = options.job;
  begin.set_skip_bad_lines(options.skip_bad_lines);
  const std::unique_ptr<SubmitStream> stream = client.Submit(begin);
  ReadAhead input_items(std::move(reader));

  while (true) {
    ASSIGN_OR_RETURN(std::vector<InputItem> items, input_items.Next());
    if (items.empty()) break;
    v1::SubmitRequests message;
    message.mutable_requests()->Reserve(static_cast<int>(items.size()));
    for (InputItem& item : items) {
      if (item.good && options.check) RETURN_IF_ERROR(options.check(item.request, item.line));
      *message.add_requests() = ToMessage(std::move(item));
    }
    *input_failed = false;
    RETURN_IF_ERROR(stream->Write(std::move(message)));
    *input_failed = true;
  }

  // With a limit it is the hash of what was taken, and there is nothing to compare it with.
  if (!options.content_hash.empty() && input.limit == 0 &&
      input_items.reader().ContentHash() != options.content_hash) {
    return absl::InvalidArgumentError(absl::StrCat(
        input.path, " was changed while it was read; nothing was run. Run it again as it is now"));
  }
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
  return HandInResult{*std::move(reply), input_items.reader().stats(),
                      input_items.reader().Warnings()};
}

}  // namespace nightshift
