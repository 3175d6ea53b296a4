#include "coordinator/backup_maker.h"

#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "base/disk_space.h"
#include "base/folder_lock.h"
#include "base/status_macros.h"
#include "coordinator/backup_folder.h"
#include "coordinator/core/job_state.h"
#include "coordinator/maintenance/disk_watcher.h"
#include "storage/schema.h"

namespace nightshift {

v1::BackupInfo ToInfo(const StoreBackup& backup) {
  v1::BackupInfo info;
  info.set_number(backup.number);
  info.set_created_at_ms(absl::ToUnixMillis(backup.created_at));
  info.set_bytes(static_cast<int64_t>(backup.bytes));
  info.set_files(backup.files);
  info.set_schema_version(backup.record.schema_version());
  info.set_store(backup.record.store());
  info.set_jobs(backup.record.jobs());
  info.set_unfinished_jobs(backup.record.unfinished_jobs());
  return info;
}

BackupMaker::BackupMaker(DiskStore& store, const Dispatcher& dispatcher, std::string store_id,
                         std::string data_dir, std::string folder)
    : store_(store),
      dispatcher_(dispatcher),
      store_id_(std::move(store_id)),
      data_dir_(std::move(data_dir)),
      folder_(std::move(folder)) {}

absl::StatusOr<v1::CreateBackupReply> BackupMaker::Create(const v1::CreateBackupRequest& request,
                                                          std::function<absl::Status()> go_on) {
  BackupOptions options;
  options.folder = request.folder().empty() ? folder_ : request.folder();
  options.keep = request.keep();
  options.go_on = std::move(go_on);
  RETURN_IF_ERROR(CheckApart(options.folder, data_dir_));
  RETURN_IF_ERROR(MakeFolder(options.folder, kBackupDirFlag));
  // A backup on the store's own volume must not be what stops the jobs.
  ASSIGN_OR_RETURN(const DiskSpace space, DiskSpaceOf(options.folder));
  options.free_bytes_min = LowWaterMark(space.total_bytes);
  options.record.set_schema_version(kSchemaVersion);
  options.record.set_store(store_id_);
  for (const JobNumber job : dispatcher_.ListJobs()) {
    const absl::StatusOr<v1::JobRecord> record = dispatcher_.GetRecord(job);
    if (!record.ok()) continue;  // deleted since
    options.record.set_jobs(options.record.jobs() + 1);
    if (!JobStateInfo(record->state()).terminal) {
      options.record.set_unfinished_jobs(options.record.unfinished_jobs() + 1);
    }
  }
  ASSIGN_OR_RETURN(const StoreBackup backup, store_.CreateBackup(options));
  v1::CreateBackupReply reply;
  reply.set_folder(options.folder);
  *reply.mutable_backup() = ToInfo(backup);
  return reply;
}

absl::StatusOr<v1::ListBackupsReply> BackupMaker::List(
    const v1::ListBackupsRequest& request) const {
  return ListBackupsIn(request.folder().empty() ? folder_ : request.folder());
}

}  // namespace nightshift
