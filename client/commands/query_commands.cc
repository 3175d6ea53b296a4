// The commands that ask and print: jobs, status, workers, audit.
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_text.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

int JobsCommand(CommandContext& context) {
  Failure failure;
  const auto connection = Connection::Open(context.settings, Connection::Kind::kAny, &failure);
  if (connection == nullptr) return context.console.Fail(failure);
  const absl::StatusOr<std::vector<v1::JobStatus>> jobs = connection->client().ListAllJobs();
  if (!jobs.ok()) return context.console.Fail(CallFailure(jobs.status(), *connection));
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
  const absl::StatusOr<v1::JobStatus> job =
      connection->client().GetJob(std::string(context.argument()));
  if (!job.ok()) return context.console.Fail(CallFailure(job.status(), *connection));
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
  const auto connection = Connection::Open(context.settings, Connection::Kind::kAny, &failure);
  if (connection == nullptr) return context.console.Fail(failure);
  const absl::StatusOr<v1::AuditReply> audit =
      connection->client().Audit(std::string(context.argument()));
  if (!audit.ok()) return context.console.Fail(CallFailure(audit.status(), *connection));
  context.console.Out(context.console.json() ? Dump(AuditJson(*audit)) + "\n" : AuditText(*audit));
  return audit->agrees() ? 0 : static_cast<int>(ExitCode::kInternal);
}

}  // namespace nightshift
