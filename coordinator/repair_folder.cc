#include "coordinator/repair_folder.h"

#include <memory>

#include "base/status_macros.h"
#include "coordinator/data_dir.h"
#include "coordinator/jobs/repair.h"
#include "storage/rocksdb_store.h"
#include "storage/schema.h"

namespace nightshift {

absl::StatusOr<std::vector<v1::JobRepair>> RepairDataDir(const std::string& data_dir,
                                                         const std::string& job) {
  RocksDbStoreOptions options;
  options.path = StoreDirOf(data_dir);
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenRocksDbStore(options));
  RETURN_IF_ERROR(PrepareSchema(*store));
  return RepairJobs(*store, job);
}

}  // namespace nightshift
