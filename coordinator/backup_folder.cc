#include "coordinator/backup_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/folder_lock.h"
#include "base/status_macros.h"
#include "coordinator/backup_maker.h"
#include "coordinator/data_dir.h"
#include "storage/backup.h"

namespace nightshift {
namespace {

namespace fs = std::filesystem;

// Absolute, with links resolved as far as they exist, and without a slash at the end.
std::string Plain(const std::string& folder) {
  std::error_code error;
  std::string plain = fs::weakly_canonical(fs::absolute(folder, error), error).string();
  if (error) plain = fs::path(folder).lexically_normal().string();
  while (plain.size() > 1 && plain.back() == '/') plain.pop_back();
  return plain;
}

// Nothing but what a restore leaves behind.
absl::Status CheckEmpty(const std::string& data_dir) {
  const std::string unfinished = fs::path(UnfinishedRestorePath(StoreDirOf(data_dir))).filename();
  std::error_code error;
  if (!fs::exists(data_dir, error) && !error) return absl::OkStatus();
  for (const auto& entry : fs::directory_iterator(data_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name == unfinished || name == "nightshift.lock") continue;
    return absl::AlreadyExistsError(absl::StrCat(data_dir, " is not empty (it holds ", name,
                                                 "): nothing was restored. Move it away, or use "
                                                 "another ",
                                                 kDataDirFlag, "."));
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot list ", data_dir, ": ", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string DefaultBackupFolder(const std::string& data_dir) {
  return absl::StrCat(Plain(data_dir), "-backups");
}

absl::Status CheckApart(const std::string& folder, const std::string& data_dir) {
  const std::string outer = Plain(data_dir);
  const std::string inner = Plain(folder);
  if (inner != outer && !absl::StartsWith(inner, outer == "/" ? outer : absl::StrCat(outer, "/"))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " lies in the data folder ", data_dir,
                   ": a backup there would be lost with it. Use another ", kBackupDirFlag, "."));
}

absl::StatusOr<v1::ListBackupsReply> ListBackupsIn(const std::string& folder) {
  v1::ListBackupsReply reply;
  reply.set_folder(Plain(folder));
  const absl::StatusOr<BackupList> list = ListBackups(folder);
  if (absl::IsNotFound(list.status())) return reply;
  RETURN_IF_ERROR(list.status());
  for (const StoreBackup& backup : list->whole) *reply.add_backups() = ToInfo(backup);
  for (const uint32_t number : list->damaged) {
    v1::BackupInfo* const info = reply.add_backups();
    info->set_number(number);
    info->set_damaged(true);
  }
  std::sort(
      reply.mutable_backups()->begin(), reply.mutable_backups()->end(),
      [](const v1::BackupInfo& a, const v1::BackupInfo& b) { return a.number() < b.number(); });
  return reply;
}

absl::StatusOr<v1::BackupInfo> RestoreDataDir(const std::string& folder, int64_t number,
                                              const std::string& data_dir) {
  if (number < 0 || number > UINT32_MAX) {
    return absl::NotFoundError(absl::StrCat("there is no backup ", number, " in ", folder));
  }
  // It would mean the root of the file system.
  if (data_dir.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(kDataDirFlag, " names no folder"));
  }
  RETURN_IF_ERROR(CheckEmpty(data_dir));
  ASSIGN_OR_RETURN(const StoreBackup backup,
                   RestoreBackup(folder, static_cast<uint32_t>(number), StoreDirOf(data_dir)));
  return ToInfo(backup);
}

absl::Status CheckNoUnfinishedRestore(const std::string& data_dir) {
  const std::string unfinished = UnfinishedRestorePath(StoreDirOf(data_dir));
  std::error_code error;
  if (!fs::exists(unfinished, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("a restore into ", data_dir,
                   " has not finished: run `nightshift backup restore` again, or "
                   "remove ",
                   unfinished, " to begin without it"));
}

}  // namespace nightshift
