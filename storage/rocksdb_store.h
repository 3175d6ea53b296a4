// The Store on RocksDB.
#ifndef NIGHTSHIFT_STORAGE_ROCKSDB_STORE_H_
#define NIGHTSHIFT_STORAGE_ROCKSDB_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/backup.h"
#include "storage/store.h"

namespace nightshift {

struct RocksDbStoreOptions {
  // The folder; made (with its parents) when absent. Local file systems only: the lock that keeps a
  // second coordinator out does not hold on every network file system.
  std::string path;
  // Memory for all write buffers together, bytes. Less flushes more often; more is lost to nobody,
  // only replayed after a crash.
  size_t write_buffer_bytes = size_t{64} << 20;
  // Memory for cached blocks, bytes.
  size_t cache_bytes = size_t{32} << 20;
};

// A store that can be copied while it is in use.
class DiskStore : public Store {
 public:
  // Makes a backup of the store as it is at some moment of the call, verifies it, and returns it;
  // after an error there is none. Commits go on meanwhile. ResourceExhausted: a disk is full.
  // FailedPrecondition: the folder is in use or holds something else. DataLoss: it could not be
  // read back. Takes as long as reading and writing what earlier backups in the folder do not have,
  // and reading all of it once more.
  virtual absl::StatusOr<StoreBackup> CreateBackup(const BackupOptions& options) = 0;
};

// FailedPrecondition when another process has the folder open (the text names it and says what to
// do), PermissionDenied or NotFound when it cannot be written, DataLoss when what is there is
// damaged beyond an ordinary crash.
absl::StatusOr<std::unique_ptr<DiskStore>> OpenRocksDbStore(const RocksDbStoreOptions& options);

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_ROCKSDB_STORE_H_
