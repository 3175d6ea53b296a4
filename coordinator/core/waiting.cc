#include "coordinator/core/waiting.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
#include "coordinator/core/job_state.h"

namespace nightshift {
namespace {

// Names shown in one sentence; the rest is counted.
constexpr size_t kNamesShownMax = 5;

std::string Names(const std::set<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kNamesShownMax) {
      shown.push_back(absl::StrCat(names.size() - kNamesShownMax, " more"));
      break;
    }
    shown.push_back(name);
  }
  return absl::StrJoin(shown, ", ");
}

std::string Paused(const Job& job) {
  std::string why;
  switch (job.record.reason()) {
    case v1::PAUSE_REASON_BUDGET:
      why = "budget";
      break;
    case v1::PAUSE_REASON_ERRORS:
      why = "errors";
      break;
    default:
      why = absl::StrCat("by the user; nightshift resume ", job.record.id(), " goes on");
      break;
  }
  if (!job.record.state_detail().empty()) absl::StrAppend(&why, ": ", job.record.state_detail());
  return absl::StrCat("paused: ", why);
}

// No worker can take anything: why.
std::string NoWorker(const WorkerRegistry& registry, MonotonicTime now) {
  const Worker* silent = nullptr;
  const Worker* draining = nullptr;
  for (const auto& [number, worker] : registry.all()) {
    if (worker.state == WorkerState::kSilent) silent = &worker;
    if (worker.state == WorkerState::kDraining) draining = &worker;
  }
  if (silent != nullptr) {
    return absl::StrCat("worker ", silent->name, " has not been heard of for ",
                        HumanDuration(std::max(now - silent->last_heard, absl::ZeroDuration())),
                        ", and no other is connected");
  }
  if (draining != nullptr) {
    return absl::StrCat("worker ", draining->name, " is draining, and no other is connected");
  }
  return "no worker is connected; nightshift worker starts one";
}

std::string NoBackend(const std::vector<const Backend*>& backends,
                      const std::vector<std::string>& models) {
  std::set<std::string> served;
  for (const Backend* backend : backends) {
    served.insert(backend->models.begin(), backend->models.end());
  }
  const std::set<std::string> wanted(models.begin(), models.end());
  if (backends.empty()) return "no connected worker has a backend";
  return absl::StrCat("no connected backend serves model ", Names(wanted), " (they serve ",
                      Names(served), ")");
}

std::string Held(const Backend& backend) {
  if (!backend.waiting_for.empty()) {
    return absl::StrCat("backend ", backend.name, ": ", backend.waiting_for);
  }
  return absl::StrCat("backend ", backend.name, " is ",
                      backend.state.empty() ? "not ready" : backend.state,
                      backend.detail.empty() ? "" : ": ", backend.detail);
}

}  // namespace

std::string WaitingFor(const Job& job, const WorkerRegistry& registry, const ModelSets& sets,
                       MonotonicTime now) {
  if (job.ended()) return "";
  if (job.record.state() == v1::JOB_STATE_PAUSED) return Paused(job);
  if (!JobStateInfo(job.record.state()).runnable) return "";

  bool connected = false;
  std::vector<const Backend*> backends;
  for (const auto& [number, worker] : registry.all()) {
    if (worker.state != WorkerState::kConnected) continue;
    connected = true;
    for (const Backend& backend : worker.backends) backends.push_back(&backend);
  }
  if (!connected) return NoWorker(registry, now);

  const Backend* held_up = nullptr;
  bool one_serves = false;
  bool one_works = false;
  for (const Backend* backend : backends) {
    if (!sets.Serves(backend->models, job.model_set)) continue;
    one_serves = true;
    // Before its first report nothing is known against it.
    const bool works = !backend->reported || (backend->limit > 0 && backend->waiting_for.empty());
    one_works |= works;
    if (!works && (held_up == nullptr || held_up->waiting_for.empty())) held_up = backend;
  }
  if (!one_serves) return NoBackend(backends, sets.models(job.model_set));
  if (!one_works) return Held(*held_up);

  const PendingQueue& queue = *job.queue;
  if (queue.in_lanes() > 0 && queue.in_lanes() == queue.available() &&
      queue.leased() + queue.committing() == 0) {
    return absl::StrCat(WithCommas(static_cast<int64_t>(queue.in_lanes())),
                        " requests wait for a backend of the job's route; none of those named "
                        "takes any now");
  }
  const uint64_t accused = queue.available(Caution::kAccused);
  if (queue.leased() + queue.committing() + queue.available() > accused) return "";
  if (accused > 0) {
    return absl::StrCat(WithCommas(static_cast<int64_t>(accused)),
                        " requests were held by two or more workers that died: each waits to be "
                        "tried alone, by a worker that has been up for a while and is free");
  }
  const absl::Duration wait = std::max(queue.NextDue() - now, absl::ZeroDuration());
  if (queue.unclaimed() > 0) {
    return absl::StrCat(WithCommas(static_cast<int64_t>(queue.unclaimed())),
                        " requests were out when the coordinator stopped: their workers have ",
                        HumanDuration(wait), " to come back");
  }
  return absl::StrCat(WithCommas(static_cast<int64_t>(queue.retrying())),
                      " requests wait for their next attempt, the first in ", HumanDuration(wait));
}

}  // namespace nightshift
