#include "coordinator/maintenance/expirer.h"

#include <utility>

#include "base/log.h"

namespace nightshift {

MaintenanceTask NewExpirer(Dispatcher& dispatcher, CommandSink& committer, Clock& clock) {
  return {"expirer", absl::Seconds(1), [&dispatcher, &committer, &clock] {
            for (const JobNumber job : dispatcher.ExpiredJobs(clock.WallNow())) {
              const absl::StatusOr<v1::JobRecord> record = dispatcher.GetRecord(job);
              JobCommand command;
              command.kind = JobCommand::Kind::kExpire;
              command.job = job;
              const absl::Status status = committer.Execute(std::move(command));
              if (!record.ok()) continue;
              if (status.ok()) {
                LogInfo(record->id(),
                        " has passed its deadline; what was not done is recorded as expired");
              } else if (!absl::IsFailedPrecondition(status) && !absl::IsNotFound(status)) {
                LogError(record->id(),
                         " has passed its deadline and could not be ended: ", status.message());
              }
            }
          }};
}

}  // namespace nightshift
