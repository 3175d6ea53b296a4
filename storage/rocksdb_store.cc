#include "storage/rocksdb_store.h"

#include <dirent.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/disk_space.h"
#include "base/folder_lock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "storage/log_tail.h"
#include "storage/manifest_mark.h"
#include "storage/rocksdb_internal.h"

namespace nightshift {
namespace {

constexpr size_t kBatchProtectionBytesPerKey = 8;
// Free space that a commit leaves alone, beside what the memory tables will need when they are
// flushed: for the manifest, the info log and the start of a compaction.
constexpr uint64_t kFreeBytesReserve = uint64_t{16} << 20;
// Free space without which a store is not opened, beside what its logs become.
constexpr uint64_t kFreeBytesToOpen = uint64_t{4} << 20;

rocksdb::Slice ToSlice(absl::string_view view) { return {view.data(), view.size()}; }
absl::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

absl::StatusOr<uint64_t> MachineFreeBytes(const std::string& path) {
  ASSIGN_OR_RETURN(const DiskSpace space, DiskSpaceOf(path));
  return space.free_bytes;
}

// The open database. Shared with iterators, so that whichever goes last closes it.
struct Database {
  FolderLock lock;  // given up last
  std::shared_ptr<HealthLatch> health = std::make_shared<HealthLatch>();
  std::shared_ptr<ManifestMarker> marker = std::make_shared<ManifestMarker>();
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;  // all that exist, ours and strangers
  std::array<rocksdb::ColumnFamilyHandle*, kFamilyCount> families{};

  ~Database() {
    if (db == nullptr) return;
    rocksdb::CancelAllBackgroundWork(db.get(), /*wait=*/true);
    // RocksDB tells no listener of what it finishes while it shuts down.
    marker->Mark(*db);
    for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
    // All that was acknowledged is synced already: an error here takes nothing away.
    db->Close().PermitUncheckedError();
  }
};

class RocksDbIterator final : public StoreIterator {
 public:
  RocksDbIterator(std::shared_ptr<const Database> database, Family family, absl::string_view begin,
                  absl::string_view end, const ScanOptions& options)
      : database_(std::move(database)), begin_(begin), end_(end), end_slice_(end_) {
    // RocksDB does not promise what bounds that cross do.
    empty_ = !end_.empty() && begin_ >= end_;
    if (empty_) return;
    rocksdb::ReadOptions read;
    read.readahead_size = options.readahead_bytes;
    read.fill_cache = options.fill_cache;
    if (!end_.empty()) read.iterate_upper_bound = &end_slice_;
    rows_.reset(database_->db->NewIterator(read, database_->families[static_cast<size_t>(family)]));
    rows_->Seek(begin_);
  }

  bool Valid() const override { return !empty_ && rows_->Valid(); }
  absl::string_view key() const override { return ToView(rows_->key()); }
  absl::string_view value() const override { return ToView(rows_->value()); }
  void Next() override { rows_->Next(); }
  void Seek(absl::string_view key) override {
    if (!empty_) rows_->Seek(key < begin_ ? rocksdb::Slice(begin_) : ToSlice(key));
  }
  absl::Status status() const override {
    return empty_ ? absl::OkStatus() : FromRocksDb(rows_->status(), "reading the store");
  }

 private:
  const std::shared_ptr<const Database> database_;
  const std::string begin_;
  const std::string end_;
  const rocksdb::Slice end_slice_;  // RocksDB keeps its address
  bool empty_ = false;
  std::unique_ptr<rocksdb::Iterator> rows_;
};

class RocksDbStore final : public DiskStore {
 public:
  RocksDbStore(std::shared_ptr<Database> database, const RocksDbStoreOptions& options,
               const RocksDbDisk& disk)
      : database_(std::move(database)),
        path_(options.path),
        reserve_bytes_(options.write_buffer_bytes + kFreeBytesReserve),
        free_bytes_(disk.free_bytes ? disk.free_bytes : MachineFreeBytes) {}

  // Conditions are checked and the set written under one mutex, so that of two conditional commits
  // the second sees what the first wrote. Sets without conditions do not take it and are synced in
  // groups by RocksDB; a row that they write must not be one that another set sets conditions on
  // at the same time.
  absl::Status Commit(WriteSet writes) override {
    RETURN_IF_ERROR(Health());
    if (writes.conditions().empty()) return Write(writes);
    MutexLock lock(&conditional_mutex_);
    RETURN_IF_ERROR(CheckConditions(writes));
    return Write(writes);
  }

  absl::Status CheckRoom(size_t bytes) const override {
    ASSIGN_OR_RETURN(const uint64_t free, free_bytes_(path_));
    const uint64_t needed = 2 * uint64_t{bytes} + reserve_bytes_;
    if (free >= needed) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("the disk of ", path_, " is full: ", HumanSize(static_cast<int64_t>(free)),
                     " free, a commit needs ", HumanSize(static_cast<int64_t>(needed)),
                     ". Nothing was written and nothing is lost; free some space."));
  }

  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const override {
    std::string value;
    const rocksdb::Status status =
        database_->db->Get(rocksdb::ReadOptions(), Handle(family), ToSlice(key), &value);
    if (status.ok()) return value;
    if (status.IsNotFound()) return absl::NotFoundError("no such row");
    return FromRocksDb(status, "reading the store");
  }

  std::unique_ptr<StoreIterator> Scan(Family family, absl::string_view begin, absl::string_view end,
                                      const ScanOptions& options) const override {
    return std::make_unique<RocksDbIterator>(database_, family, begin, end, options);
  }

  absl::Status Health() const override { return database_->health->Get(); }

  absl::StatusOr<StoreBackup> CreateBackup(const BackupOptions& options) override {
    RETURN_IF_ERROR(Health());
    // It begins with a flush.
    RETURN_IF_ERROR(CheckRoom(0));
    absl::StatusOr<StoreBackup> backup = CreateBackupOf(*database_->db, options);
    RETURN_IF_ERROR(Health());
    return backup;
  }

 private:
  rocksdb::ColumnFamilyHandle* Handle(Family family) const {
    return database_->families[static_cast<size_t>(family)];
  }

  absl::Status CheckConditions(const WriteSet& writes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(conditional_mutex_) {
    rocksdb::PinnableSlice value;
    for (const WriteSet::Condition& condition : writes.conditions()) {
      value.Reset();
      const rocksdb::Status status = database_->db->Get(
          rocksdb::ReadOptions(), Handle(condition.family), condition.key, &value);
      if (!status.ok() && !status.IsNotFound()) {
        return Broken(FromRocksDb(status, "checking a condition in the store"));
      }
      const bool holds =
          condition.present ? status.ok() && value == condition.value : status.IsNotFound();
      if (!holds) {
        return absl::AbortedError(
            absl::StrCat("a condition on family ", FamilyName(condition.family), " does not hold"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Write(const WriteSet& writes) {
    if (writes.writes().empty()) return absl::OkStatus();
    // A disk that fills up under RocksDB can end in a torn log or an abort, so a commit that might
    // fill it is refused while that is still harmless.
    if (absl::Status room = CheckRoom(writes.byte_size()); !room.ok()) {
      return absl::IsResourceExhausted(room) ? room : Broken(room);
    }
    rocksdb::WriteBatch batch(writes.byte_size() + 16 * writes.writes().size(), /*max_bytes=*/0,
                              kBatchProtectionBytesPerKey, /*default_cf_ts_sz=*/0);
    for (const WriteSet::Write& write : writes.writes()) {
      const rocksdb::Status status = Add(write, batch);
      if (!status.ok()) return FromRocksDb(status, "collecting a commit");
    }
    rocksdb::WriteOptions options;
    options.sync = true;
    const rocksdb::Status status = database_->db->Write(options, &batch);
    if (status.ok()) return absl::OkStatus();
    return Broken(FromRocksDb(status, "writing the store"));
  }

  rocksdb::Status Add(const WriteSet::Write& write, rocksdb::WriteBatch& batch) const {
    rocksdb::ColumnFamilyHandle* const handle = Handle(write.family);
    switch (write.kind) {
      case WriteSet::Write::Kind::kPut:
        return batch.Put(handle, write.key, write.value);
      case WriteSet::Write::Kind::kDelete:
        return batch.Delete(handle, write.key);
      case WriteSet::Write::Kind::kDeleteRange:
        if (write.key >= write.value) return rocksdb::Status::OK();
        return batch.DeleteRange(handle, write.key, write.value);
    }
    NIGHTSHIFT_CHECK(false, "a kind of write that this program does not know");
  }

  // Marks the store as untrustworthy and returns what to tell the caller of Commit.
  absl::Status Broken(const absl::Status& status) {
    database_->health->Fail(status);
    return Health();
  }

  const std::shared_ptr<Database> database_;
  const std::string path_;
  const uint64_t reserve_bytes_;
  const std::function<absl::StatusOr<uint64_t>(const std::string&)> free_bytes_;

  // Held across a synced write: the one lock here that waits for the disk, and for nothing else.
  Mutex conditional_mutex_;
};

struct FolderContents {
  bool current = false;    // RocksDB's entry point
  bool data = false;       // tables or logs
  uint64_t log_bytes = 0;  // of the logs
};

absl::StatusOr<FolderContents> Look(const std::string& path) {
  DIR* const folder = opendir(path.c_str());
  if (folder == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot list ", path, ": ", std::strerror(errno)));
  }
  FolderContents contents;
  while (const dirent* entry = readdir(folder)) {
    const absl::string_view name = entry->d_name;
    if (name == "CURRENT") contents.current = true;
    if (absl::EndsWith(name, ".sst") || absl::EndsWith(name, ".log")) contents.data = true;
    struct stat info {};
    if (absl::EndsWith(name, ".log") && fstatat(dirfd(folder), entry->d_name, &info, 0) == 0) {
      contents.log_bytes += static_cast<uint64_t>(info.st_size);
    }
  }
  closedir(folder);
  return contents;
}

// Opening writes what the logs hold into tables, and files of its own. RocksDB aborts the process
// when some of these writes fail, so a disk without room is told before.
absl::Status CheckRoomToOpen(const std::string& path, const RocksDbDisk& disk) {
  ASSIGN_OR_RETURN(const FolderContents contents, Look(path));
  ASSIGN_OR_RETURN(const uint64_t free,
                   disk.free_bytes ? disk.free_bytes(path) : MachineFreeBytes(path));
  const uint64_t needed = contents.log_bytes + kFreeBytesToOpen;
  if (free >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the disk of ", path, " is full: ", HumanSize(static_cast<int64_t>(free)),
                   " free, opening it needs ", HumanSize(static_cast<int64_t>(needed))));
}

// What a newer program may have added is opened too, so that the version of the schema can be read
// and the refusal can name it.
struct FamilyNames {
  std::vector<std::string> present;  // in the store: ours and strangers
  std::vector<std::string> missing;  // ours that are not there yet
};

absl::StatusOr<FamilyNames> FamiliesOf(const rocksdb::DBOptions& db_options,
                                       const std::string& path) {
  FamilyNames names;
  ASSIGN_OR_RETURN(const FolderContents contents, Look(path));
  if (contents.current) {
    const rocksdb::Status status =
        rocksdb::DB::ListColumnFamilies(db_options, path, &names.present);
    if (!status.ok()) return FromRocksDb(status, "listing its families");
  } else if (contents.data) {
    // RocksDB would start an empty store here and remove the files of the old one.
    return absl::DataLossError("the file CURRENT is missing, but the files of a store are there");
  } else {
    names.present = {rocksdb::kDefaultColumnFamilyName};
  }
  for (int i = 0; i < kFamilyCount; ++i) {
    std::string name(FamilyName(static_cast<Family>(i)));
    if (absl::c_linear_search(names.present, name)) continue;
    names.missing.push_back(std::move(name));
  }
  return names;
}

absl::Status OpenError(const absl::Status& status, const std::string& path) {
  const std::string text = absl::StrCat("cannot open the store in ", path, ": ", status.message());
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
      return absl::DataLossError(
          absl::StrCat(text,
                       ". This is more than an ordinary crash leaves; nothing was changed. "
                       "Restore a backup, or use another --data-dir."));
    case absl::StatusCode::kResourceExhausted:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, ". Nothing is lost; free some space, then start again."));
    default:
      return absl::Status(status.code(), text);
  }
}

absl::Status OpenDatabase(const RocksDbStoreOptions& options, const RocksDbDisk& disk,
                          Database& database) {
  rocksdb::DBOptions db_options = MakeDbOptions(options, database.health);
  if (disk.env != nullptr) db_options.env = disk.env;
  db_options.listeners.push_back(database.marker);
  RETURN_IF_ERROR(CheckLogTails(options.path));
  RETURN_IF_ERROR(CheckManifestMark(*db_options.env->GetFileSystem(), options.path));
  RETURN_IF_ERROR(CheckRoomToOpen(options.path, disk));
  ASSIGN_OR_RETURN(const FamilyNames names, FamiliesOf(db_options, options.path));
  const FamilyOptionsMaker maker(options);
  const auto described = [&](const std::vector<std::string>& some) {
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const std::string& name : some) descriptors.emplace_back(name, maker.Make(name));
    return descriptors;
  };
  rocksdb::DB* db = nullptr;
  rocksdb::Status status =
      rocksdb::DB::Open(db_options, options.path, described(names.present), &database.handles, &db);
  if (!status.ok()) return FromRocksDb(status, "opening it");
  database.db.reset(db);
  if (!names.missing.empty()) {
    // Together: left to Open, each would write a file of all options and sync it.
    std::vector<rocksdb::ColumnFamilyHandle*> made;
    status = db->CreateColumnFamilies(described(names.missing), &made);
    database.handles.insert(database.handles.end(), made.begin(), made.end());
    if (!status.ok()) return FromRocksDb(status, "making its families");
  }
  database.marker->Mark(*db);
  for (int i = 0; i < kFamilyCount; ++i) {
    const absl::string_view name = FamilyName(static_cast<Family>(i));
    database.families[static_cast<size_t>(i)] = *absl::c_find_if(
        database.handles, [&](const auto* handle) { return handle->GetName() == name; });
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskStore>> OpenRocksDbStoreOn(const RocksDbStoreOptions& options,
                                                              const RocksDbDisk& disk) {
  auto database = std::make_shared<Database>();
  ASSIGN_OR_RETURN(database->lock, FolderLock::Acquire(options.path));
  const absl::Status opened = OpenDatabase(options, disk, *database);
  if (!opened.ok()) return OpenError(opened, options.path);
  return std::make_unique<RocksDbStore>(std::move(database), options, disk);
}

absl::StatusOr<std::unique_ptr<DiskStore>> OpenRocksDbStore(const RocksDbStoreOptions& options) {
  return OpenRocksDbStoreOn(options, RocksDbDisk{});
}

}  // namespace nightshift
