// Copies of a store in a folder of their own: made while the store is in use, verified, and put
// back where no store is.
//
// The folder is RocksDB's backup engine's: tables that several backups share are in it once, so
// that the next backup costs what has changed. A backup is listed only when all its files are there
// in their sizes; its checksums are verified when it is made and again when it is restored.
#ifndef NIGHTSHIFT_STORAGE_BACKUP_H_
#define NIGHTSHIFT_STORAGE_BACKUP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "nightshift/v1/record.pb.h"

namespace nightshift {

inline constexpr absl::string_view kBackupDirFlag = "--backup-dir";

// Of the copying, so that commits keep most of the disk. A restore is not held back: nobody works
// on the store yet.
inline constexpr uint64_t kBackupBytesPerSecondMax = uint64_t{100} << 20;

struct BackupOptions {
  // Made when absent. One that holds other files than backups is refused.
  std::string folder;
  // What the backup says of itself, to be read without opening it.
  v1::BackupRecord record;
  // How many of the newest, this one included, stay; the others are removed once this one has been
  // verified. 0: all.
  int keep = 0;
  // Given up before the volume of `folder` has less than this.
  uint64_t free_bytes_min = 0;
  // Asked every few MiB, from another thread; when it is not OK the backup is given up and that
  // status returned.
  std::function<absl::Status()> go_on;
};

struct StoreBackup {
  uint32_t number = 0;  // rises within a folder
  absl::Time created_at;
  // Of all its files, also of those that it shares with other backups.
  uint64_t bytes = 0;
  uint32_t files = 0;
  v1::BackupRecord record;
};

struct BackupList {
  std::vector<StoreBackup> whole;  // oldest first
  std::vector<uint32_t> damaged;   // a file is missing or has another size
};

// NotFound when the folder is absent or holds no backups.
absl::StatusOr<BackupList> ListBackups(const std::string& folder);

// Where a restore into `path` works until all is there.
std::string UnfinishedRestorePath(absl::string_view path);

// Puts backup `number` (0: the newest that is whole) back as a store at `path`, where nothing may
// be yet. The store gets an id of its own, since it hands out job numbers that the original has
// handed out. At `path` there is the whole store or nothing, whenever the power goes; what an
// earlier try has left at UnfinishedRestorePath is replaced.
//
// NotFound: no such backup. FailedPrecondition: something is at `path`, or the backup is of a newer
// program, or in use. DataLoss: the backup is damaged. ResourceExhausted: the disk is full.
absl::StatusOr<StoreBackup> RestoreBackup(const std::string& folder, uint32_t number,
                                          const std::string& path);

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_BACKUP_H_
