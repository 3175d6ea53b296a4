// The commands that ask and print: jobs, status, workers, audit.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_text.h"
#include "coordinator/repair_folder.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

// False with the failure. What was repaired until then stays so; it can be run again.
bool Repair(CommandContext& context, std::vector<v1::JobRepair>* repairs, Failure* failure) {
  const Settings& settings = context.settings;
  const std::string data_dir = settings.Text("data-dir");
  if (settings.Chosen("coordinator") && !Connection::FolderChosen(settings)) {
    *failure = UsageFailure("--repair works on a data folder that nobody has open",
                            "stop the coordinator, then nightshift audit --repair --data-dir DIR");
    return false;
  }
  if (!HasStore(data_dir)) {
    *failure = UsageFailure(absl::StrCat(data_dir, " holds no jobs"),
                            "--data-dir names the folder to repair");
    return false;
  }
  absl::StatusOr<std::vector<v1::JobRepair>> done =
      RepairDataDir(data_dir, std::string(context.argument()));
  if (done.ok()) {
    *repairs = *std::move(done);
    return true;
  }
  const bool unknown = absl::IsNotFound(done.status()) || absl::IsInvalidArgument(done.status());
  *failure = unknown ? FailureFrom(done.status()) : StoreFailure(done.status());
  if (absl::IsNotFound(done.status())) failure->code = "unknown_job";
  if (absl::IsFailedPrecondition(done.status()))
    failure->hint = "--repair needs the folder for itself: stop whoever has it open";
  return false;
}

// A folder that had to be opened is one that no process works on; the coordinator that looks into
// it for us would say that it waits for a worker.
void SayNobodyWorks(const Connection& connection, v1::JobStatus* job) {
  if (!connection.folder() ||
      (job->state() != v1::JOB_STATE_QUEUED && job->state() != v1::JOB_STATE_RUNNING))
    return;
  job->set_waiting_for(
      "no process has this data folder open; the run command that began the job, or a coordinator, "
      "goes on with it");
}

}  // namespace

int JobsCommand(CommandContext& context) {
  Failure failure;
  const auto connection = Connection::Open(context.settings, Connection::Kind::kAny, &failure);
  if (connection == nullptr) return context.console.Fail(failure);
  absl::StatusOr<std::vector<v1::JobStatus>> jobs = connection->client().ListAllJobs();
  if (!jobs.ok()) return context.console.Fail(CallFailure(jobs.status(), *connection));
  for (v1::JobStatus& job : *jobs) SayNobodyWorks(*connection, &job);
  if (context.console.json()) {
    Json document = Json::array();
    for (const v1::JobStatus& job : *jobs) document.push_back(JobJson(job));
    context.console.Out(Dump(document) + "\n");
  } else {
    context.console.Out(JobTable(*jobs, absl::Now()));
  }
  return 0;
}

int StatusCommand(CommandContext& context) {
  Failure failure;
  const auto connection = Connection::Open(context.settings, Connection::Kind::kAny, &failure);
  if (connection == nullptr) return context.console.Fail(failure);
  absl::StatusOr<v1::JobStatus> job = connection->client().GetJob(std::string(context.argument()));
  if (!job.ok()) return context.console.Fail(CallFailure(job.status(), *connection));
  SayNobodyWorks(*connection, &*job);
  context.console.Out(context.console.json() ? Dump(JobJson(*job)) + "\n"
                                             : JobText(*job, absl::Now()));
  return 0;
}

int WorkersCommand(CommandContext& context) {
  Failure failure;
  const auto connection = Connection::Open(context.settings, Connection::Kind::kAny, &failure);
  if (connection == nullptr) return context.console.Fail(failure);
  const absl::StatusOr<std::vector<v1::WorkerStatus>> workers = connection->client().ListWorkers();
  if (!workers.ok()) return context.console.Fail(CallFailure(workers.status(), *connection));
  if (context.console.json()) {
    Json document = Json::array();
    for (const v1::WorkerStatus& worker : *workers) document.push_back(WorkerJson(worker));
    context.console.Out(Dump(document) + "\n");
  } else {
    context.console.Out(WorkerTable(*workers));
  }
  return 0;
}

int AuditCommand(CommandContext& context) {
  Failure failure;
  std::vector<v1::JobRepair> repairs;
  const bool repair = context.settings.On("repair");
  if (repair && !Repair(context, &repairs, &failure)) return context.console.Fail(failure);
  const auto connection = Connection::Open(
      context.settings, repair ? Connection::Kind::kFolder : Connection::Kind::kAny, &failure);
  if (connection == nullptr) {
    // What could not be repaired is most likely why.
    if (!repairs.empty()) context.console.Say(RepairText(repairs));
    return context.console.Fail(failure);
  }
  const absl::StatusOr<v1::AuditReply> audit =
      connection->client().Audit(std::string(context.argument()));
  if (!audit.ok()) return context.console.Fail(CallFailure(audit.status(), *connection));
  context.console.Out(context.console.json()
                          ? Dump(AuditJson(*audit, repair ? &repairs : nullptr)) + "\n"
                          : RepairText(repairs) + AuditText(*audit));
  return audit->agrees() ? 0 : static_cast<int>(ExitCode::kInternal);
}

}  // namespace nightshift
