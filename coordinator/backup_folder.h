// Backups seen from outside a coordinator: where they are by default, which there are, and putting
// one back into an empty data folder.
#ifndef NIGHTSHIFT_COORDINATOR_BACKUP_FOLDER_H_
#define NIGHTSHIFT_COORDINATOR_BACKUP_FOLDER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nightshift/v1/jobs.pb.h"

namespace nightshift {

// Beside the data folder, so that losing that one loses no backup: "DIR-backups", absolute.
std::string DefaultBackupFolder(const std::string& data_dir);

// InvalidArgument when `folder` lies in `data_dir` and would be lost with it.
absl::Status CheckApart(const std::string& folder, const std::string& data_dir);

// All backups in `folder`, oldest first, the damaged ones among them. A folder that is absent has
// none.
absl::StatusOr<v1::ListBackupsReply> ListBackupsIn(const std::string& folder);

// Makes `data_dir`, which must be absent or empty, the data folder that backup `number` (0: the
// newest that is whole) was made of. What an interrupted restore has left there is no hindrance.
// AlreadyExists: the folder is not empty. InvalidArgument: it has no name. Otherwise as
// RestoreBackup (storage/backup.h).
absl::StatusOr<v1::BackupInfo> RestoreDataDir(const std::string& folder, int64_t number,
                                              const std::string& data_dir);

// FailedPrecondition when a restore into `data_dir` was interrupted: to begin with nothing there
// would look like a success.
absl::Status CheckNoUnfinishedRestore(const std::string& data_dir);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_BACKUP_FOLDER_H_
