#include "coordinator/http/batch_object.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/endpoint.h"
#include "base/units.h"
#include "coordinator/core/job_state.h"
#include "coordinator/http/batch_table.h"
#include "coordinator/http/output_files.h"
#include "proto/words.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMillisPerSecond = 1000;

Json SecondsOrNull(int64_t ms) { return ms > 0 ? Json(ms / kMillisPerSecond) : Json(nullptr); }
Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// Names and ids of people may be no UTF-8; a reply always is.
std::string Print(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json ErrorsOf(const BatchView& view) {
  Json data = Json::array();
  for (const v1::BatchError& error : view.errors.errors()) {
    data.push_back({{"code", error.code()},
                    {"message", error.message()},
                    {"param", TextOrNull(error.param())},
                    {"line", error.line() > 0 ? Json(error.line()) : Json(nullptr)}});
  }
  if (view.has_job) {
    // Stopped by its own error policy: its input was good.
    data.push_back({{"code", "job_stopped"},
                    {"message", view.job.state_detail()},
                    {"param", nullptr},
                    {"line", nullptr}});
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

Json UsageOf(const v1::JobStatus& job) {
  return {{"input_tokens", job.prompt_tokens()},
          {"input_tokens_details", {{"cached_tokens", 0}}},
          {"output_tokens", job.completion_tokens()},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", job.prompt_tokens() + job.completion_tokens()}};
}

Json CountsOf(const BatchView& view) {
  const v1::Counts& counts = view.job.counts();
  return {
      {"total", counts.total()}, {"completed", counts.succeeded()}, {"failed", counts.failed()}};
}

Json MetadataOf(const BatchView& view) {
  if (!view.has_record || view.record.metadata().empty()) return nullptr;
  Json metadata = Json::object();
  for (const auto& [key, value] : view.record.metadata()) metadata[key] = value;
  return metadata;
}

// What the Batch API has no word for.
Json OwnPart(const BatchView& view) {
  Json own = Json::object();
  if (view.has_job) {
    const v1::JobStatus& job = view.job;
    own["job_id"] = job.id();
    own["state"] = JobStateWord(job.state());
    own["reason"] = TextOrNull(PauseReasonWord(job.reason()));
    own["waiting_for"] = TextOrNull(job.waiting_for());
    own["cancelled"] = job.counts().cancelled();
    own["expired"] = job.counts().expired();
    own["cost_usd"] = job.cost_known() ? Json(job.cost_usd()) : Json(nullptr);
  }
  // All of them are counted, the first are listed.
  if (view.errors.count() > 0) own["bad_lines"] = view.errors.count();
  return own;
}

Json OutputId(const BatchView& view, bool errors) {
  if (!view.has_job || !JobStateInfo(view.job.state()).terminal) return nullptr;
  const v1::Counts& counts = view.job.counts();
  const int64_t lines = errors ? counts.total() - counts.succeeded() : counts.succeeded();
  if (lines == 0) return nullptr;
  return OutputFileId({view.job.id(), errors, view.job_record.run()});
}

Json ModelOf(const BatchView& view) {
  const auto& models = view.job_record.models();
  return view.has_job && models.size() == 1 ? Json(models[0]) : Json(nullptr);
}

// As it was written; for jobs of the command line as a duration, or "none".
std::string WindowOf(const BatchView& view) {
  if (view.has_record) return view.record.completion_window();
  const int64_t ms = view.job.options().deadline_ms();
  return ms > 0 ? HumanDuration(absl::Milliseconds(ms)) : "none";
}

int64_t ExpiresAtMs(const BatchView& view) {
  return view.has_record ? view.record.created_at_ms() + view.record.window_ms()
                         : view.job.deadline_at_ms();
}

}  // namespace

std::string BatchStatusOf(const BatchView& view) {
  if (!view.has_job) {
    if (view.record.phase() == v1::BATCH_PHASE_FAILED) return "failed";
    if (view.record.phase() == v1::BATCH_PHASE_CANCELLED) return "cancelled";
    return view.record.cancelling_at_ms() > 0 ? "cancelling" : "validating";
  }
  switch (view.job.state()) {
    case v1::JOB_STATE_VALIDATING:
      return "validating";
    case v1::JOB_STATE_FINALIZING:
      return "finalizing";
    case v1::JOB_STATE_COMPLETED:
      return "completed";
    case v1::JOB_STATE_FAILED:
      return "failed";
    case v1::JOB_STATE_CANCELLING:
      return "cancelling";
    case v1::JOB_STATE_CANCELLED:
      return "cancelled";
    case v1::JOB_STATE_EXPIRED:
      return "expired";
    default:
      // A pause is the operator's; for the client the batch goes on.
      return "in_progress";
  }
}

int64_t BatchCreatedAtMs(const BatchView& view) {
  return view.has_record ? view.record.created_at_ms() : view.job.created_at_ms();
}

int64_t OutputExpiresAtMs(const BatchView& view) {
  const int64_t chosen = view.has_record ? view.record.output_expires_after_s() : 0;
  return view.job.finished_at_ms() +
         (chosen > 0 ? chosen : kOutputLifetimeSeconds) * kMillisPerSecond;
}

std::string BatchObject(const BatchView& view) {
  const std::string status = BatchStatusOf(view);
  const int64_t finished = view.has_job ? view.job.finished_at_ms() : view.record.ended_at_ms();
  const auto at_end = [&](absl::string_view which) {
    return status == which ? SecondsOrNull(finished) : Json(nullptr);
  };
  const bool cancels = status == "cancelling" || status == "cancelled";
  const int64_t cancelling = view.record.cancelling_at_ms() > 0 ? view.record.cancelling_at_ms()
                                                                : view.job.finished_at_ms();
  Json batch;
  batch["id"] = view.has_record ? view.record.id() : BatchIdOfJob(view.job.id());
  batch["object"] = "batch";
  batch["endpoint"] = std::string(EndpointPath(
      static_cast<Endpoint>(view.has_record ? view.record.endpoint() : view.job_endpoint)));
  batch["model"] = ModelOf(view);
  batch["errors"] = status == "failed" ? ErrorsOf(view) : Json(nullptr);
  batch["input_file_id"] = view.record.input_file_id();
  batch["completion_window"] = WindowOf(view);
  batch["status"] = status;
  batch["output_file_id"] = OutputId(view, /*errors=*/false);
  batch["error_file_id"] = OutputId(view, /*errors=*/true);
  batch["created_at"] = BatchCreatedAtMs(view) / kMillisPerSecond;
  batch["in_progress_at"] = view.has_job ? SecondsOrNull(view.job.created_at_ms()) : Json(nullptr);
  batch["expires_at"] = SecondsOrNull(ExpiresAtMs(view));
  // It lasts one commit: the end is near enough.
  batch["finalizing_at"] = at_end("completed");
  batch["completed_at"] = at_end("completed");
  batch["failed_at"] = at_end("failed");
  batch["expired_at"] = at_end("expired");
  batch["cancelling_at"] = cancels ? SecondsOrNull(cancelling) : Json(nullptr);
  batch["cancelled_at"] = at_end("cancelled");
  batch["request_counts"] = CountsOf(view);
  batch["usage"] = view.has_job ? UsageOf(view.job) : Json(nullptr);
  batch["metadata"] = MetadataOf(view);
  batch["nightshift"] = OwnPart(view);
  return Print(batch);
}

std::string FileObject(const v1::FileRecord& record) {
  Json file;
  file["id"] = record.id();
  file["object"] = "file";
  file["bytes"] = record.bytes();
  file["created_at"] = record.created_at_ms() / kMillisPerSecond;
  if (record.expires_at_ms() > 0) file["expires_at"] = record.expires_at_ms() / kMillisPerSecond;
  file["filename"] = record.filename();
  file["purpose"] = record.purpose();
  file["status"] = "processed";
  file["status_details"] = nullptr;
  return Print(file);
}

}  // namespace nightshift
