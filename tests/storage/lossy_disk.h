// A disk under RocksDB that keeps only what was synced when the power goes.
//
// What is written can be read back at once, as from a page cache, and is on the disk only after a
// Sync or Fsync of the file; that a file was made, renamed or removed is on the disk only after a
// sync of its folder. (A new folder itself is on the disk at once.) When the power goes, each file
// keeps what was synced and some part of what was appended since (often none), and the folder some
// part of the changes since it was synced, in their order. The program notices nothing: the disk
// goes on working for it, in a world of its own, until Restore() puts the folder back to what
// survived. So nothing here depends on how RocksDB takes errors.
//
// Torn ends are prefixes. That blocks of one unsynced append survive out of order is not modelled:
// to a log's reader a wrong checksum is the end just as a short record is.
#ifndef NIGHTSHIFT_TESTS_STORAGE_LOSSY_DISK_H_
#define NIGHTSHIFT_TESTS_STORAGE_LOSSY_DISK_H_

#include <rocksdb/env.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"

namespace nightshift {

struct LossyDiskOptions {
  // The power goes with this operation (a write, a sync, a change of the folder), counted from 1.
  int64_t cut_at = INT64_MAX;
  uint64_t seed = 0;
  // A disk that lies: it says that it has synced, and has not.
  bool syncs_lie = false;
  bool folder_syncs_lie = false;
};

// One life of one folder, with those in it, between two power cuts. Thread-safe.
class LossyDisk {
 public:
  // What is in `folder` now is on the disk. The folder must be there.
  LossyDisk(std::string folder, const LossyDiskOptions& options);
  ~LossyDisk();

  rocksdb::Env* env() { return env_.get(); }

  // Whether the power has gone: what the program was told since then does not count.
  bool off() const { return off_; }
  void Cut();
  // The power goes with the n-th operation from now, instead of the options' moment.
  void CutIn(int64_t n);
  int64_t operations() const;

  // Cuts the power, unless that has been done, and puts the folder back to what survived. Nobody
  // may have files of it open any more.
  void Restore();

  // --- for the file system in the source file ----------------------------------------------------
  struct Content {
    std::string bytes;
    size_t synced = 0;
  };
  using File = std::shared_ptr<Content>;
  // One operation: cuts the power if its time has come.
  void OnCreate(const std::string& path, File* file);
  void OnReopen(const std::string& path, File* file);
  void OnAppend(Content& file, const char* data, size_t size);
  void OnTruncate(Content& file, size_t size);
  void OnSync(Content& file);
  void OnRename(const std::string& from, const std::string& to);
  void OnDelete(const std::string& path);
  void OnFolderSync(const std::string& path);

 private:
  using Entries = std::map<std::string, File>;  // by path in the folder
  // Happens as a whole: a folder that is renamed takes its files along.
  struct Change {
    std::vector<std::string> removed;
    std::vector<std::pair<std::string, File>> added;
    std::vector<std::string> folders;  // whose entries it changes; syncing one makes it last
  };

  // False when the operation no longer matters, or the path is not one that is looked after.
  bool Counts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CutLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The path within the folder; empty for a file that is not looked after.
  std::string NameOf(const std::string& path) const;
  static void Apply(const Change& change, Entries& entries);
  void Make(Change change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  const LossyDiskOptions options_;
  std::atomic<bool> off_{false};

  mutable Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  int64_t cut_at_ ABSL_GUARDED_BY(mutex_);
  int64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  Entries entries_ ABSL_GUARDED_BY(mutex_);              // as the program sees them
  Entries on_disk_ ABSL_GUARDED_BY(mutex_);              // as of the folders' last syncs
  std::vector<Change> changes_ ABSL_GUARDED_BY(mutex_);  // since then
  std::map<std::string, std::string> survivors_ ABSL_GUARDED_BY(mutex_);  // once off

  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_STORAGE_LOSSY_DISK_H_
