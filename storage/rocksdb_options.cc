// Which of RocksDB's options are set, and why. The figures are for one to a hundred million rows of
// 0.2 to 8 kB beside a whole coordinator and worker in 300 MB.
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "storage/rocksdb_internal.h"
#include "storage/write_set.h"

namespace nightshift {
namespace {

// What a crash has to replay at most, and so what a start waits for: a second or two.
constexpr uint64_t kWalBytesMax = uint64_t{256} << 20;
constexpr size_t kInfoLogBytesMax = size_t{4} << 20;
constexpr size_t kInfoLogFilesMax = 3;
// Tables beyond these are opened when they are read.
constexpr int kOpenFilesMax = 512;
// One flush and up to three compactions. Eight or more would allow flushes side by side, which this
// version of RocksDB can order wrongly after one of them failed.
constexpr int kBackgroundJobsMax = 4;
constexpr size_t kTableBlockBytes = size_t{16} << 10;
constexpr uint64_t kSyncBackgroundWritesEvery = uint64_t{1} << 20;
constexpr size_t kFamilyBufferBytesMin = size_t{64} << 10;
// A burst of submits makes tables of level 0 faster than two cores merge them. They hardly overlap
// (keys come nearly in order), so letting them pile up costs a lookup little, and a stalled commit
// would cost every worker.
constexpr int kLevel0SlowdownFiles = 48;
constexpr int kLevel0StopFiles = 96;
constexpr size_t kProtectionBytesPerKey = 8;

class BackgroundErrorListener final : public rocksdb::EventListener {
 public:
  explicit BackgroundErrorListener(std::shared_ptr<HealthLatch> health)
      : health_(std::move(health)) {}

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    // A compaction that found no space has lost nothing and is tried again by RocksDB.
    if (reason == rocksdb::BackgroundErrorReason::kCompaction && error->IsNoSpace()) {
      LogWarning("the disk is too full to compact the store; nothing is lost, but free some space");
      return;
    }
    health_->Fail(FromRocksDb(*error, "writing the store in the background"));
  }

 private:
  const std::shared_ptr<HealthLatch> health_;
};

}  // namespace

rocksdb::DBOptions MakeDbOptions(const RocksDbStoreOptions& options,
                                 std::shared_ptr<HealthLatch> health) {
  rocksdb::DBOptions db;
  db.create_if_missing = true;
  db.paranoid_checks = true;
  // The torn record that a crash leaves at the end of a log is cut off; damage before it refuses to
  // open, where the default would silently drop all that was acknowledged after it.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Several logs are alive at once. One that lost its end would be taken for torn, and the commits
  // in later ones applied over the hole; so the sizes of finished logs are written down. (This
  // version of RocksDB can raise false alarms after SyncWAL(), which is not used here.)
  db.track_and_verify_wals_in_manifest = true;
  db.max_total_wal_size = kWalBytesMax;
  db.db_write_buffer_size = options.write_buffer_bytes;
  db.max_background_jobs = kBackgroundJobsMax;
  db.max_open_files = kOpenFilesMax;
  // Keeps dirty pages of background writes few, so that a commit's sync does not wait for them.
  db.bytes_per_sync = kSyncBackgroundWritesEvery;
  db.max_log_file_size = kInfoLogBytesMax;
  db.keep_log_file_num = kInfoLogFilesMax;
  db.stats_persist_period_sec = 0;
  db.listeners.push_back(std::make_shared<BackgroundErrorListener>(std::move(health)));
  return db;
}

FamilyOptionsMaker::FamilyOptionsMaker(const RocksDbStoreOptions& options)
    : write_buffer_bytes_(options.write_buffer_bytes) {
  rocksdb::BlockBasedTableOptions table;
  rocksdb::LRUCacheOptions cache;
  cache.capacity = options.cache_bytes;
  cache.num_shard_bits = 4;
  table.block_cache = rocksdb::NewLRUCache(cache);
  table.block_size = kTableBlockBytes;
  table.format_version = 5;
  // Inside the cache, indexes count against its bound instead of growing with the store.
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  // No filter: whether a row is there is known before it is asked for.
  tables_.reset(rocksdb::NewBlockBasedTableFactory(table));
}

rocksdb::ColumnFamilyOptions FamilyOptionsMaker::Make(const std::string& name) const {
  const absl::string_view family = name;
  rocksdb::ColumnFamilyOptions cf;
  cf.table_factory = tables_;
  size_t share = 16;
  if (family == FamilyName(Family::kRequests) || family == FamilyName(Family::kResponses)) {
    share = 4;
  } else if (family == FamilyName(Family::kOutcomes) || family == FamilyName(Family::kOrder)) {
    share = 8;
  }
  cf.write_buffer_size = std::max(write_buffer_bytes_ / share, kFamilyBufferBytesMin);
  cf.max_write_buffer_number = 3;
  cf.compression = rocksdb::kLZ4Compression;
  cf.bottommost_compression = rocksdb::kDisableCompressionOption;  // the same
  cf.level_compaction_dynamic_level_bytes = true;
  cf.level0_slowdown_writes_trigger = kLevel0SlowdownFiles;
  cf.level0_stop_writes_trigger = kLevel0StopFiles;
  cf.memtable_protection_bytes_per_key = kProtectionBytesPerKey;
  return cf;
}

absl::Status FromRocksDb(const rocksdb::Status& status, absl::string_view doing) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat(doing, ": ", status.ToString());
  if (status.IsNotFound()) return absl::NotFoundError(text);
  // A file that should be there and is not is as gone as one that cannot be understood.
  if (status.IsCorruption() || status.IsPathNotFound()) return absl::DataLossError(text);
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

absl::Status HealthLatch::Get() const {
  MutexLock lock(&mutex_);
  return status_;
}

void HealthLatch::Fail(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    // A full disk that RocksDB met itself is as bad as a broken one: a torn write may be behind it.
    status_ = absl::IsDataLoss(status) ? status : absl::UnavailableError(status.message());
  }
  LogError("the store can no longer be trusted: ", status.message());
}

}  // namespace nightshift
