#include <nlohmann/json.hpp>
#include <utility>

#include "client/commands/job_text.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

Json Seconds(int64_t ms) { return ms == 0 ? Json() : Json(ms / 1000); }
Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

// Null for what the server does not tell.
Json LoadJson(const v1::ServerLoad& load) {
  const auto figure = [](bool told, double value) { return told ? Json(value) : Json(); };
  Json out;
  out["running"] = figure(load.has_running(), load.running());
  out["waiting"] = figure(load.has_waiting(), load.waiting());
  out["slots"] = figure(load.has_slots(), load.slots());
  out["cache_used"] = figure(load.has_cache_used(), load.cache_used());
  out["cache_hits"] = figure(load.has_cache_hits(), load.cache_hits());
  out["tokens_per_second"] = figure(load.has_tokens_per_second(), load.tokens_per_second());
  out["gpu_used"] = figure(load.has_gpu_used(), load.gpu_used());
  out["gpu_memory_used"] = figure(load.has_gpu_memory_used(), load.gpu_memory_used());
  out["power_watts"] = figure(load.has_power_watts(), load.power_watts());
  return out;
}

Json CountsJson(const v1::Counts& counts) {
  Json out;
  out["total"] = counts.total();
  out["succeeded"] = counts.succeeded();
  out["failed"] = counts.failed();
  out["cancelled"] = counts.cancelled();
  out["expired"] = counts.expired();
  out["pending"] = counts.pending();
  out["in_flight"] = counts.in_flight();
  out["retrying"] = counts.retrying();
  return out;
}

}  // namespace

std::string Dump(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json JobJson(const v1::JobStatus& job) {
  Json out;
  out["id"] = job.id();
  out["name"] = TextOrNull(job.name());
  out["state"] = JobStateWord(job.state());
  out["reason"] = TextOrNull(PauseReasonWord(job.reason()));
  out["state_detail"] = TextOrNull(job.state_detail());
  out["created_at"] = Seconds(job.created_at_ms());
  out["started_at"] = Seconds(job.started_at_ms());
  out["finished_at"] = Seconds(job.finished_at_ms());
  out["deadline_at"] = Seconds(job.deadline_at_ms());
  out["counts"] = CountsJson(job.counts());
  out["tokens"]["prompt"] = job.prompt_tokens();
  out["tokens"]["completion"] = job.completion_tokens();
  out["cost_usd"] = job.cost_known() ? Json(job.cost_usd()) : Json();
  out["requests_per_second"] = job.requests_per_second();
  out["tokens_per_second"] = job.tokens_per_second();
  out["eta_seconds"] = job.eta_low_seconds() < 0 || job.eta_high_seconds() < 0
                           ? Json()
                           : Json::array({job.eta_low_seconds(), job.eta_high_seconds()});
  out["waiting_for"] = TextOrNull(job.waiting_for());
  out["at_risk"] = TextOrNull(job.at_risk());
  out["answer_retries"]["truncated"] = job.truncated_retries();
  out["answer_retries"]["empty"] = job.empty_retries();
  out["moved"] = job.moved();
  out["failed_by_class"] = Json::object();
  for (const auto& [number, count] : job.failed_by_class())
    out["failed_by_class"][ErrorClassWord(static_cast<v1::ErrorClass>(number))] = count;
  out["labels"] = Json::object();
  for (const auto& [key, value] : job.options().labels()) out["labels"][key] = value;
  return out;
}

Json WorkerJson(const v1::WorkerStatus& worker) {
  Json out;
  out["name"] = worker.name();
  out["session"] = worker.session();
  out["version"] = worker.version();
  out["state"] = worker.state();
  out["connected_at"] = Seconds(worker.connected_at_ms());
  out["last_seen_seconds"] = worker.last_seen_seconds();
  out["leased"] = worker.leased();
  out["backends"] = Json::array();
  for (const v1::WorkerBackendStatus& backend : worker.backends()) {
    Json one;
    one["name"] = backend.name();
    one["kind"] = backend.kind();
    one["url"] = backend.url();
    one["models"] = Json::array();
    for (const std::string& model : backend.models()) one["models"].push_back(model);
    one["state"] = backend.state();
    one["detail"] = TextOrNull(backend.detail());
    one["limit"] = backend.limit();
    one["in_flight"] = backend.in_flight();
    one["buffered"] = backend.buffered();
    one["requests_per_second"] = backend.requests_per_second();
    one["tokens_per_second"] = backend.tokens_per_second();
    one["latency_seconds"] = backend.latency_seconds();
    one["waiting_for"] = TextOrNull(backend.waiting_for());
    one["explain"] = TextOrNull(backend.explain());
    one["load"] = backend.has_load() ? LoadJson(backend.load()) : Json();
    out["backends"].push_back(std::move(one));
  }
  return out;
}

Json AuditJson(const v1::AuditReply& audit, const std::vector<v1::JobRepair>* repairs) {
  Json out;
  out["agrees"] = audit.agrees();
  out["jobs"] = Json::array();
  for (const v1::JobAudit& job : audit.jobs()) {
    Json one;
    one["id"] = job.id();
    one["agrees"] = job.agrees();
    one["findings"] = Json::array();
    for (const std::string& finding : job.findings()) one["findings"].push_back(finding);
    one["counts"] = CountsJson(job.counts());
    out["jobs"].push_back(std::move(one));
  }
  if (repairs == nullptr) return out;
  out["repairs"] = Json::array();
  for (const v1::JobRepair& repair : *repairs) {
    Json one;
    one["id"] = repair.id();
    one["done"] = repair.done();
    one["left"] = repair.left();
    out["repairs"].push_back(std::move(one));
  }
  return out;
}

Json BackupJson(const v1::BackupInfo& backup, const std::string& folder) {
  Json out;
  out["id"] = backup.number();
  out["state"] = backup.damaged() ? "damaged" : "whole";
  out["folder"] = folder;
  out["created_at"] = Seconds(backup.created_at_ms());
  const auto known = [&backup](auto value) { return backup.damaged() ? Json() : Json(value); };
  out["bytes"] = known(backup.bytes());
  out["files"] = known(backup.files());
  out["jobs"] = known(backup.jobs());
  out["unfinished_jobs"] = known(backup.unfinished_jobs());
  out["store"] = TextOrNull(backup.store());
  out["schema_version"] = known(backup.schema_version());
  return out;
}

}  // namespace nightshift
