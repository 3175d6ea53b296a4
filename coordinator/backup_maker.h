// Backups of the store of a coordinator that runs.
#ifndef NIGHTSHIFT_COORDINATOR_BACKUP_MAKER_H_
#define NIGHTSHIFT_COORDINATOR_BACKUP_MAKER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/core/dispatcher.h"
#include "nightshift/v1/jobs.pb.h"
#include "storage/backup.h"
#include "storage/rocksdb_store.h"

namespace nightshift {

v1::BackupInfo ToInfo(const StoreBackup& backup);

// Thread-safe; a second backup into the same folder meanwhile is refused.
class BackupMaker {
 public:
  // `folder` is where backups go unless a request names another. The references must outlive it.
  BackupMaker(DiskStore& store, const Dispatcher& dispatcher, std::string store_id,
              std::string data_dir, std::string folder);

  // Takes as long as the copying does; `go_on` is asked now and then and may end it. Errors as
  // DiskStore::CreateBackup, and InvalidArgument for a folder inside the data folder.
  absl::StatusOr<v1::CreateBackupReply> Create(const v1::CreateBackupRequest& request,
                                               std::function<absl::Status()> go_on);
  absl::StatusOr<v1::ListBackupsReply> List(const v1::ListBackupsRequest& request) const;

 private:
  DiskStore& store_;
  const Dispatcher& dispatcher_;
  const std::string store_id_;
  const std::string data_dir_;
  const std::string folder_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_BACKUP_MAKER_H_
