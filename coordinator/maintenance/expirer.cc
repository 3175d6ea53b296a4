#include "coordinator/maintenance/expirer.h"

#include <utility>

#include "base/log.h"

namespace nightshift {

MaintenanceTask NewExpirer(Dispatcher& dispatcher, CommandSink& committer, Clock& clock) {
  return {"expirer", absl::Seconds(1),
          [&dispatcher, &committer, &clock, told_full = false]() mutable {
            for (const JobNumber job : dispatcher.ExpiredJobs(clock.Now(), clock.WallNow())) {
              const absl::StatusOr<v1::JobRecord> record = dispatcher.GetRecord(job);
              JobCommand command;
              command.kind = JobCommand::Kind::kExpire;
              command.job = job;
              const absl::Status status = committer.Execute(std::move(command));
              if (absl::IsResourceExhausted(status)) {
                if (!std::exchange(told_full, true)) {
                  LogWarning("jobs past their deadline are ended when there is room again: ",
                             status.message());
                }
                return;  // the others would fare no better
              }
              told_full = false;
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
