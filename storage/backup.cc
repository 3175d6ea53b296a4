#include "storage/backup.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/utilities/backup_engine.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/disk_space.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "storage/record.h"
#include "storage/rocksdb_internal.h"
#include "storage/schema.h"

namespace nightshift {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLookEveryBytes = uint64_t{4} << 20;
// The key that the checksum of a backup's record is made over.
constexpr absl::string_view kRecordKey = "backup";
// Of the folders that the engine makes, the one in which each backup has its list of files.
constexpr absl::string_view kListsFolder = "meta";

rocksdb::BackupEngineOptions EngineOptions(const std::string& folder, rocksdb::Env* env) {
  rocksdb::BackupEngineOptions options(folder, env);
  options.backup_rate_limit = kBackupBytesPerSecondMax;
  options.callback_trigger_interval_size = kLookEveryBytes;
  return options;
}

// Says that a folder is one of backups: the engine removes what it does not know from its folders,
// so they must not be somebody else's.
constexpr absl::string_view kMarkName = "nightshift.backups";

StoreBackup FromEngine(const rocksdb::BackupInfo& info) {
  StoreBackup backup;
  backup.number = info.backup_id;
  backup.created_at = absl::FromUnixSeconds(info.timestamp);
  backup.bytes = info.size;
  backup.files = info.number_files;
  // One whose record is damaged is listed without it; its files have checksums of their own.
  const absl::Status status = DecodeRecord(kRecordKey, info.app_metadata, &backup.record);
  if (!status.ok()) {
    LogWarning("what backup ", info.backup_id, " says of itself is damaged: ", status.message());
    backup.record.Clear();
  }
  return backup;
}

absl::Status FromEngineStatus(const rocksdb::Status& status, absl::string_view doing,
                              const std::string& folder) {
  const absl::Status from = FromRocksDb(status, absl::StrCat(doing, " in ", folder));
  if (absl::IsResourceExhausted(from)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the disk of ", folder, " is full: no backup was made, and the earlier ones are whole. ",
        "Free some space, or use another ", kBackupDirFlag, ". (", from.message(), ")"));
  }
  return from;
}

// Watches over one backup from the threads that copy it, and stops it.
class Watch {
 public:
  Watch(const BackupOptions& options, rocksdb::BackupEngine& engine)
      : options_(options), engine_(engine) {}

  // Cheap enough for every few MiB.
  void Look() {
    absl::Status status = Check();
    if (status.ok()) return;
    MutexLock lock(&mutex_);
    if (stopped_.ok()) stopped_ = std::move(status);
    engine_.StopBackup();
  }

  absl::Status Check() const {
    if (options_.go_on) RETURN_IF_ERROR(options_.go_on());
    const absl::StatusOr<DiskSpace> space = DiskSpaceOf(options_.folder);
    if (!space.ok() || space->free_bytes >= options_.free_bytes_min) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "the disk of ", options_.folder,
        " is too full for a backup: ", HumanSize(static_cast<int64_t>(space->free_bytes)),
        " free, and ", HumanSize(static_cast<int64_t>(options_.free_bytes_min)),
        " must stay free. No backup was made, and the earlier ones are whole. Free some space, or "
        "use another ",
        kBackupDirFlag, "."));
  }

  absl::Status stopped() const {
    MutexLock lock(&mutex_);
    return stopped_;
  }

 private:
  const BackupOptions& options_;
  rocksdb::BackupEngine& engine_;
  mutable Mutex mutex_;
  absl::Status stopped_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Verify(rocksdb::BackupEngine& engine, uint32_t number, const std::string& folder) {
  const rocksdb::Status verified = engine.VerifyBackup(number, /*verify_with_checksum=*/true);
  if (verified.ok()) return absl::OkStatus();
  engine.DeleteBackup(number).PermitUncheckedError();
  return absl::DataLossError(
      absl::StrCat("the backup could not be read back and was removed: ", verified.ToString(),
                   ". Earlier backups may share the damaged file; make one in another ",
                   kBackupDirFlag, " than ", folder, "."));
}

// --- folders ------------------------------------------------------------------------------------

absl::Status FromFiles(const rocksdb::IOStatus& status, absl::string_view doing) {
  return FromRocksDb(status, doing);
}

absl::Status SyncDirectory(rocksdb::FileSystem& files, const std::string& path) {
  std::unique_ptr<rocksdb::FSDirectory> directory;
  rocksdb::IOStatus status = files.NewDirectory(path, rocksdb::IOOptions(), &directory, nullptr);
  if (status.ok()) status = directory->Fsync(rocksdb::IOOptions(), nullptr);
  return FromFiles(status, absl::StrCat("syncing ", path));
}

absl::Status ChildrenOf(rocksdb::FileSystem& files, const std::string& path,
                        std::vector<std::string>* names) {
  RETURN_IF_ERROR(FromFiles(files.GetChildren(path, rocksdb::IOOptions(), names, nullptr),
                            absl::StrCat("listing ", path)));
  std::erase_if(*names, [](const std::string& name) { return name == "." || name == ".."; });
  return absl::OkStatus();
}

// A flat folder with all that is in it.
absl::Status RemoveDirectory(rocksdb::FileSystem& files, const std::string& path) {
  std::vector<std::string> names;
  RETURN_IF_ERROR(ChildrenOf(files, path, &names));
  for (const std::string& name : names) {
    RETURN_IF_ERROR(
        FromFiles(files.DeleteFile(absl::StrCat(path, "/", name), rocksdb::IOOptions(), nullptr),
                  absl::StrCat("removing ", name)));
  }
  return FromFiles(files.DeleteDir(path, rocksdb::IOOptions(), nullptr),
                   absl::StrCat("removing ", path));
}

// The engine syncs what it copies; that the store's name rests on it is reason enough not to rely
// on that.
absl::Status SyncFiles(rocksdb::FileSystem& files, const std::string& path) {
  std::vector<std::string> names;
  RETURN_IF_ERROR(ChildrenOf(files, path, &names));
  for (const std::string& name : names) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus status = files.ReopenWritableFile(absl::StrCat(path, "/", name),
                                                        rocksdb::FileOptions(), &file, nullptr);
    if (status.ok()) status = file->Fsync(rocksdb::IOOptions(), nullptr);
    if (status.ok()) status = file->Close(rocksdb::IOOptions(), nullptr);
    RETURN_IF_ERROR(FromFiles(status, absl::StrCat("syncing ", name)));
  }
  return SyncDirectory(files, path);
}

// Marks a new folder as one of backups, or finds the mark.
absl::Status PrepareFolder(rocksdb::FileSystem& files, const std::string& folder) {
  std::vector<std::string> names;
  RETURN_IF_ERROR(ChildrenOf(files, folder, &names));
  if (std::find(names.begin(), names.end(), kMarkName) != names.end()) return absl::OkStatus();
  std::erase(names, "nightshift.lock");
  std::erase(names, absl::StrCat(kMarkName, ".tmp"));
  if (!names.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " holds other files than backups (", names[0],
                     "): nothing was written. Use another ", kBackupDirFlag,
                     ", an empty folder or one that has backups."));
  }
  const std::string mark = absl::StrCat(folder, "/", kMarkName);
  const std::string temporary = absl::StrCat(mark, ".tmp");
  rocksdb::IOStatus status =
      rocksdb::WriteStringToFile(&files, "1\n", temporary, /*should_sync=*/true);
  if (status.ok()) status = files.RenameFile(temporary, mark, rocksdb::IOOptions(), nullptr);
  RETURN_IF_ERROR(FromEngineStatus(status, "preparing the folder", folder));
  return SyncDirectory(files, folder);
}

absl::StatusOr<std::unique_ptr<rocksdb::BackupEngineReadOnly>> OpenToRead(const std::string& folder,
                                                                          rocksdb::Env* env) {
  std::error_code error;
  if (!fs::is_directory(fs::path(folder) / std::string(kListsFolder), error)) {
    return absl::NotFoundError(absl::StrCat(folder, " holds no backups"));
  }
  rocksdb::BackupEngineReadOnly* engine = nullptr;
  const rocksdb::Status status =
      rocksdb::BackupEngineReadOnly::Open(EngineOptions(folder, env), env, &engine);
  if (!status.ok()) return FromRocksDb(status, absl::StrCat("reading the backups in ", folder));
  return std::unique_ptr<rocksdb::BackupEngineReadOnly>(engine);
}

// --- restoring ----------------------------------------------------------------------------------

absl::StatusOr<StoreBackup> Choose(const rocksdb::BackupEngineReadOnly& engine, uint32_t number,
                                   const std::string& folder) {
  rocksdb::BackupInfo info;
  const rocksdb::Status status =
      number == 0 ? engine.GetLatestBackupInfo(&info) : engine.GetBackupInfo(number, &info);
  if (status.IsNotFound()) {
    return absl::NotFoundError(number == 0
                                   ? absl::StrCat(folder, " holds no backup that is whole")
                                   : absl::StrCat("there is no backup ", number, " in ", folder));
  }
  if (!status.ok()) {
    return FromRocksDb(status, absl::StrCat("backup ", number, " in ", folder));
  }
  StoreBackup backup = FromEngine(info);
  if (backup.record.schema_version() > kSchemaVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("backup ", backup.number, " has version ", backup.record.schema_version(),
                     ", this program knows versions up to ", kSchemaVersion,
                     ": nothing was restored. Use the newer nightshift that made it."));
  }
  return backup;
}

// Copies the files and makes a store of its own of them.
absl::Status FillFolder(const rocksdb::BackupEngineReadOnly& engine, uint32_t number,
                        const std::string& path, const RocksDbDisk& disk) {
  const rocksdb::Status copied =
      engine.RestoreDBFromBackup(rocksdb::RestoreOptions(), number, path, path);
  if (!copied.ok()) return FromRocksDb(copied, absl::StrCat("restoring backup ", number));
  RocksDbStoreOptions options;
  options.path = path;
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenRocksDbStoreOn(options, disk));
  RETURN_IF_ERROR(PrepareSchema(*store));
  Random random = Random::FromSystem();
  return RenewStoreId(*store, random).status();
}

absl::Status CheckAbsent(rocksdb::FileSystem& files, const std::string& path) {
  const rocksdb::IOStatus there = files.FileExists(path, rocksdb::IOOptions(), nullptr);
  if (there.IsNotFound()) return absl::OkStatus();
  if (!there.ok()) return FromFiles(there, absl::StrCat("looking for ", path));
  return absl::FailedPreconditionError(
      absl::StrCat(path,
                   " is there already: nothing was restored. A backup is restored only where "
                   "no store is; move it away, or use another ",
                   kDataDirFlag, "."));
}

}  // namespace

std::string UnfinishedRestorePath(absl::string_view path) {
  return absl::StrCat(path, ".restoring");
}

absl::StatusOr<StoreBackup> CreateBackupOf(rocksdb::DB& db, const BackupOptions& options) {
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Acquire(options.folder, kBackupDirFlag));
  rocksdb::Env* const env = db.GetEnv();
  RETURN_IF_ERROR(PrepareFolder(*env->GetFileSystem(), options.folder));
  rocksdb::BackupEngine* opened = nullptr;
  RETURN_IF_ERROR(FromEngineStatus(
      rocksdb::BackupEngine::Open(EngineOptions(options.folder, env), env, &opened),
      "opening the backups", options.folder));
  const std::unique_ptr<rocksdb::BackupEngine> engine(opened);

  Watch watch(options, *engine);
  RETURN_IF_ERROR(watch.Check());
  rocksdb::CreateBackupOptions create;
  // So that the backup is tables, which the next ones can share, and hardly any log.
  create.flush_before_backup = true;
  create.progress_callback = [&watch] { watch.Look(); };
  create.decrease_background_thread_cpu_priority = true;
  create.background_thread_cpu_priority = rocksdb::CpuPriority::kLow;
  rocksdb::BackupID number = 0;
  const rocksdb::Status created = engine->CreateNewBackupWithMetadata(
      create, &db, EncodeRecord(kRecordKey, options.record), &number);
  if (!created.ok()) {
    // What was copied takes up room. If this fails too, the next backup does it.
    engine->GarbageCollect().PermitUncheckedError();
    RETURN_IF_ERROR(watch.stopped());
    return FromEngineStatus(created, "making a backup", options.folder);
  }
  RETURN_IF_ERROR(Verify(*engine, number, options.folder));
  rocksdb::BackupInfo info;
  RETURN_IF_ERROR(FromEngineStatus(engine->GetBackupInfo(number, &info), "reading the new backup",
                                   options.folder));
  if (options.keep > 0) {
    const rocksdb::Status purged = engine->PurgeOldBackups(static_cast<uint32_t>(options.keep));
    // The new backup is whole all the same.
    if (!purged.ok()) {
      LogWarning("old backups in ", options.folder, " could not be removed: ", purged.ToString());
    }
  }
  return FromEngine(info);
}

absl::StatusOr<BackupList> ListBackups(const std::string& folder) {
  ASSIGN_OR_RETURN(const auto engine, OpenToRead(folder, rocksdb::Env::Default()));
  std::vector<rocksdb::BackupInfo> infos;
  engine->GetBackupInfo(&infos);
  BackupList list;
  for (const rocksdb::BackupInfo& info : infos) list.whole.push_back(FromEngine(info));
  std::sort(list.whole.begin(), list.whole.end(),
            [](const StoreBackup& a, const StoreBackup& b) { return a.number < b.number; });
  engine->GetCorruptedBackups(&list.damaged);
  std::sort(list.damaged.begin(), list.damaged.end());
  return list;
}

absl::StatusOr<StoreBackup> RestoreBackupOn(const std::string& folder, uint32_t number,
                                            const std::string& path, const RocksDbDisk& disk) {
  rocksdb::Env* const env = disk.env != nullptr ? disk.env : rocksdb::Env::Default();
  rocksdb::FileSystem& files = *env->GetFileSystem();
  ASSIGN_OR_RETURN(const auto engine, OpenToRead(folder, env));
  // Against a backup that is made with --keep meanwhile. On a volume that cannot be written nobody
  // makes one.
  absl::StatusOr<FolderLock> backups_lock = FolderLock::Acquire(folder, kBackupDirFlag);
  if (absl::IsFailedPrecondition(backups_lock.status())) return backups_lock.status();
  ASSIGN_OR_RETURN(const StoreBackup backup, Choose(*engine, number, folder));

  const std::string parent = fs::path(path).parent_path().string();
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Acquire(parent));
  RETURN_IF_ERROR(CheckAbsent(files, path));
  const std::string unfinished = UnfinishedRestorePath(path);
  RETURN_IF_ERROR(MakeFolder(unfinished));
  absl::Status status = FillFolder(*engine, backup.number, unfinished, disk);
  if (status.ok()) status = SyncFiles(files, unfinished);
  if (status.ok()) {
    status = FromFiles(files.RenameFile(unfinished, path, rocksdb::IOOptions(), nullptr),
                       absl::StrCat("naming the store ", path));
  }
  if (!status.ok()) {
    // Left where it cannot be removed: it has not the name of a store, and the next try replaces
    // it.
    RemoveDirectory(files, unfinished).IgnoreError();
    return status;
  }
  RETURN_IF_ERROR(SyncDirectory(files, parent));
  return backup;
}

absl::StatusOr<StoreBackup> RestoreBackup(const std::string& folder, uint32_t number,
                                          const std::string& path) {
  return RestoreBackupOn(folder, number, path, RocksDbDisk{});
}

}  // namespace nightshift
