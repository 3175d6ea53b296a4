#include "coordinator/http/batches_api.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/http/api_reply.h"
#include "coordinator/http/batch_events.h"
#include "coordinator/http/batch_request.h"
#include "coordinator/jobs/open_jobs.h"
#include "coordinator/jobs/output_reader.h"

namespace nightshift {
namespace {

constexpr int kListDefault = 20;
constexpr int kListMax = 100;
constexpr int kResultsDefault = 1000;
constexpr int kResultsMax = 10'000;
// Of one reply, about; a single longer line is sent alone.
constexpr size_t kResultsBytesMax = size_t{1} << 20;
// Where the next reply goes on, and whether anything can come after this one.
constexpr char kAfterHeader[] = "nightshift-after";
constexpr char kAtEndHeader[] = "nightshift-at-end";

// Some clients count how often they have sent the same request.
bool IsRetry(const HttpRequest& request) {
  const std::string* const count = request.Header("x-stainless-retry-count");
  int number = 0;
  return count != nullptr && absl::SimpleAtoi(*count, &number) && number > 0;
}

HttpReply CannotDo(absl::string_view what, const std::string& status) {
  ApiError error;
  error.status = 409;
  error.message = absl::StrCat("Cannot ", what, " a batch with status '", status, "'.");
  // Clients would send it twice more.
  error.may_retry = false;
  return ErrorReply(error);
}

}  // namespace

HttpReply BatchesApi::Create(HttpRequest& request) const {
  std::string body;
  const absl::Status read = request.body->Read(kBatchRequestBytesMax, [&](absl::string_view bytes) {
    body.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  });
  if (!read.ok()) return ErrorReply(read);
  v1::BatchRecord record;
  HttpReply refusal;
  if (!ParseBatchRequest(body, &record, &refusal)) return refusal;
  if (const std::string* const key = request.Header("idempotency-key");
      key != nullptr && !key->empty() && !SetIdempotencyKey(*key, &record, &refusal)) {
    return refusal;
  }
  if (const absl::Status room = parts_.dispatcher->TakesNewJobs(); !room.ok()) {
    return ErrorReply(room);
  }
  record.set_tenant(request.caller.tenant);
  const absl::StatusOr<v1::FileRecord> file = parts_.files->Find(record.input_file_id());
  if (file.ok() && request.caller.Sees(file->tenant())) {
    // Who sees all tenants makes the batch where its file is.
    record.set_tenant(file->tenant());
    if (record.options().name().empty()) record.mutable_options()->set_name(file->filename());
  }
  bool created = false;
  const absl::StatusOr<v1::BatchRecord> batch = parts_.batches->Create(
      std::move(record), IsRetry(request), &created, [&] { return CheckOpenJobs(request.caller); });
  if (!batch.ok()) return ErrorReply(batch.status());
  if (created) parts_.maker->Add(batch->id());
  return Get(request, batch->id());
}

// With the batches whose input is still being looked at, which have no job yet.
absl::Status BatchesApi::CheckOpenJobs(const Caller& caller) const {
  if (!parts_.access->limits_open_jobs(caller)) return absl::OkStatus();
  const OpenJobs open = CountOpenJobs(*parts_.dispatcher, caller.tenant, parts_.clock->Now());
  int64_t validating = 0;
  for (const BatchTable::Summary& batch : parts_.batches->List()) {
    if (batch.phase == v1::BATCH_PHASE_VALIDATING && batch.tenant == caller.tenant &&
        !parts_.dispatcher->FindJob(JobIdOfBatch(batch.id)).ok()) {
      ++validating;
    }
  }
  return parts_.access->CheckOpenJobs(caller, open.count + validating, open.first_end);
}

HttpReply BatchesApi::List(const HttpRequest& request) const {
  std::map<std::string, ListEntry> batches;
  for (BatchTable::Summary& summary : parts_.batches->List()) {
    if (!request.caller.Sees(summary.tenant)) continue;
    batches[summary.id] = {summary.created_at_ms, summary.id};
  }
  for (const Dispatcher::JobHead& head : parts_.dispatcher->ListHeads()) {
    if (!request.caller.Sees(head.tenant)) continue;
    const std::string id = BatchIdOfJob(head.id);
    batches.try_emplace(id, ListEntry{head.created_at_ms, id});
  }
  std::vector<ListEntry> entries;
  entries.reserve(batches.size());
  for (auto& [id, entry] : batches) entries.push_back(std::move(entry));
  Page page;
  HttpReply refusal;
  if (!TakePage(request, std::move(entries), kListDefault, kListMax, &page, &refusal)) {
    return refusal;
  }
  std::vector<std::string> objects;
  for (const ListEntry& entry : page.entries) {
    const absl::StatusOr<BatchView> view = LoadBatch(parts_, request.caller, entry.id);
    if (view.ok()) {
      objects.push_back(BatchObject(*view));
    } else if (!absl::IsNotFound(view.status())) {
      return ErrorReply(view.status());
    }
  }
  return ListReply(objects, page);
}

HttpReply BatchesApi::Get(const HttpRequest& request, const std::string& id) const {
  const absl::StatusOr<BatchView> view = LoadBatch(parts_, request.caller, id);
  return view.ok() ? JsonReply(BatchObject(*view)) : ErrorReply(view.status());
}

HttpReply BatchesApi::Cancel(const HttpRequest& request, const std::string& id) const {
  const absl::StatusOr<BatchView> view = LoadBatch(parts_, request.caller, id);
  if (!view.ok()) return ErrorReply(view.status());
  const std::string status = BatchStatusOf(*view);
  if (status == "cancelling" || status == "cancelled") return Get(request, id);
  if (status == "completed" || status == "failed" || status == "expired") {
    return CannotDo("cancel", status);
  }
  if (view->has_record) {
    // Kept before the job hears of it: what is still being validated ends by this note.
    const absl::StatusOr<v1::BatchRecord> noted =
        parts_.batches->Update(id, [this](v1::BatchRecord& record) {
          record.set_cancelling_at_ms(absl::ToUnixMillis(parts_.clock->WallNow()));
        });
    if (!noted.ok()) return ErrorReply(noted.status());
  }
  // Looked for again: should there be a job by now, its maker may not have seen the note.
  if (parts_.dispatcher->FindJob(JobIdOfBatch(id)).ok()) {
    return Control(request, id, JobCommand::Kind::kCancel);
  }
  return Get(request, id);
}

HttpReply BatchesApi::Results(const HttpRequest& request, const std::string& id) const {
  const absl::StatusOr<BatchView> view = LoadBatch(parts_, request.caller, id);
  if (!view.ok()) return ErrorReply(view.status());
  const std::string* const limit_text = request.Query("limit");
  int limit = kResultsDefault;
  if (limit_text != nullptr &&
      (!absl::SimpleAtoi(*limit_text, &limit) || limit < 1 || limit > kResultsMax)) {
    return BadParameter("limit", "invalid_value",
                        absl::StrCat("Invalid 'limit': expected 1 to ", kResultsMax, "."));
  }
  const std::string* const kind = request.Query("kind");
  if (kind != nullptr && *kind != "output" && *kind != "error") {
    return BadParameter("kind", "invalid_value",
                        "Invalid 'kind': supported values are 'output' and 'error'.");
  }
  HttpReply reply;
  reply.content_type = "application/jsonl";
  const std::string* const after = request.Query("after");
  std::string next = after == nullptr ? "" : *after;
  // Without a job there is nothing yet, or nothing ever.
  const std::string status = BatchStatusOf(*view);
  bool at_end = !view->has_job && status != "validating" && status != "cancelling";
  if (view->has_job) {
    v1::ReadOutputRequest read;
    read.set_job(view->job.id());
    read.set_kind(kind != nullptr && *kind == "error" ? v1::ReadOutputRequest::ERRORS
                                                      : v1::ReadOutputRequest::RESULTS);
    read.set_cursor(next);
    // In input order a place is a few bytes; in the order of finishing it could be very long.
    read.set_follow(true);
    read.set_in_order(true);
    read.set_limit(limit);
    const auto reader = OutputReader::Create(*parts_.store, *parts_.dispatcher, read);
    if (absl::IsInvalidArgument(reader.status())) {
      return BadParameter("after", "invalid_value",
                          "Invalid 'after': it is not what an earlier reply of this batch said.");
    }
    if (!reader.ok()) return ErrorReply(reader.status());
    absl::StatusOr<v1::OutputChunk> chunk = (*reader)->Next(kResultsBytesMax);
    if (!chunk.ok()) return ErrorReply(chunk.status());
    reply.body = std::move(*chunk->mutable_lines());
    next = chunk->cursor();
    // With a full reply the reader has reached its limit, not the end.
    at_end = (*reader)->AtEnd() && chunk->count() < limit;
  }
  reply.headers.emplace_back(kAfterHeader, next);
  reply.headers.emplace_back(kAtEndHeader, at_end ? "true" : "false");
  return reply;
}

HttpReply BatchesApi::Events(const HttpRequest& request, const std::string& id) const {
  const std::string* place = request.Header("last-event-id");
  if (place == nullptr) place = request.Query("after");
  absl::StatusOr<std::shared_ptr<BatchEvents>> events = BatchEvents::Create(
      parts_, request.caller, id, place == nullptr ? "" : *place, event_streams_);
  if (absl::IsInvalidArgument(events.status())) {
    return BadParameter("after", "invalid_value",
                        "Invalid 'after' (or Last-Event-ID): it is no id of this batch's events.");
  }
  if (absl::IsResourceExhausted(events.status())) {
    ApiError error;
    error.status = 503;
    error.message = std::string(events.status().message());
    error.code = "too_many_streams";
    error.retry_after_s = 5;
    return ErrorReply(error);
  }
  if (!events.ok()) return ErrorReply(events.status());
  HttpReply reply;
  reply.content_type = "text/event-stream";
  // A proxy must not wait for more.
  reply.headers.emplace_back("Cache-Control", "no-cache");
  reply.headers.emplace_back("X-Accel-Buffering", "no");
  reply.source = *std::move(events);
  reply.source_bytes = HttpReply::kUnknownBytes;
  return reply;
}

HttpReply BatchesApi::Control(const HttpRequest& request, const std::string& id,
                              JobCommand::Kind kind) const {
  const absl::StatusOr<BatchView> view = LoadBatch(parts_, request.caller, id);
  if (!view.ok()) return ErrorReply(view.status());
  const absl::string_view what = kind == JobCommand::Kind::kCancel  ? "cancel"
                                 : kind == JobCommand::Kind::kPause ? "pause"
                                                                    : "resume";
  const absl::StatusOr<JobNumber> job = parts_.dispatcher->FindJob(JobIdOfBatch(id));
  if (!job.ok()) return CannotDo(what, BatchStatusOf(*view));
  JobCommand command;
  command.kind = kind;
  command.job = *job;
  if (kind == JobCommand::Kind::kPause) command.reason = v1::PAUSE_REASON_USER;
  const absl::Status status = parts_.committer->Execute(std::move(command));
  if (absl::IsFailedPrecondition(status)) {
    const absl::StatusOr<BatchView> now = LoadBatch(parts_, request.caller, id);
    return now.ok() ? CannotDo(what, BatchStatusOf(*now)) : ErrorReply(now.status());
  }
  return status.ok() ? Get(request, id) : ErrorReply(status);
}

}  // namespace nightshift
