// The parts of RocksDbStore: options, error words, and the way in for tests that put a faulty disk
// under it. Not for use outside storage/ and tests/.
#ifndef NIGHTSHIFT_STORAGE_ROCKSDB_INTERNAL_H_
#define NIGHTSHIFT_STORAGE_ROCKSDB_INTERNAL_H_

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "storage/backup.h"
#include "storage/rocksdb_store.h"

namespace nightshift {

// The first failure after which the store cannot be trusted. Thread-safe.
class HealthLatch {
 public:
  absl::Status Get() const;
  // Later failures change nothing: the first one is the cause.
  void Fail(const absl::Status& status);

 private:
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// What a test may put in place of the machine's own.
struct RocksDbDisk {
  // Borrowed; must outlive the store. Null: the machine's.
  rocksdb::Env* env = nullptr;
  // Free bytes for this user on the file system of `path`. Null: statvfs().
  std::function<absl::StatusOr<uint64_t>(const std::string& path)> free_bytes;
};

absl::StatusOr<std::unique_ptr<DiskStore>> OpenRocksDbStoreOn(const RocksDbStoreOptions& options,
                                                              const RocksDbDisk& disk);

// DiskStore::CreateBackup, on the disk of `db`.
absl::StatusOr<StoreBackup> CreateBackupOf(rocksdb::DB& db, const BackupOptions& options);

// RestoreBackup, reading and writing through `disk`.
absl::StatusOr<StoreBackup> RestoreBackupOn(const std::string& folder, uint32_t number,
                                            const std::string& path, const RocksDbDisk& disk);

// `health` hears of background errors; the options keep it alive.
rocksdb::DBOptions MakeDbOptions(const RocksDbStoreOptions& options,
                                 std::shared_ptr<HealthLatch> health);

struct FamilyOptionsMaker {
  explicit FamilyOptionsMaker(const RocksDbStoreOptions& options);
  // `name` is a column family's, known to this program or not.
  rocksdb::ColumnFamilyOptions Make(const std::string& name) const;

 private:
  size_t write_buffer_bytes_;
  std::shared_ptr<rocksdb::TableFactory> tables_;  // one, so that the block cache is shared
};

// NotFound, DataLoss (damage, a missing file), ResourceExhausted (disk full), otherwise
// Unavailable.
absl::Status FromRocksDb(const rocksdb::Status& status, absl::string_view doing);

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_ROCKSDB_INTERNAL_H_
