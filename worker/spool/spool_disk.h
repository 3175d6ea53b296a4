// The slow half of a spool: makes files, syncs them and removes them, on a thread of its own, so
// that the worker's loop waits for none of it. (It does write by itself: that goes into the
// kernel's memory, takes a microsecond, and is what survives the death of the process.)
//
// A sync is what survives a loss of power. It comes only when something written has not been
// forgotten for a while: with a coordinator that answers, nothing is ever synced, and most files
// are removed before the kernel has written them out.
#ifndef NIGHTSHIFT_WORKER_SPOOL_SPOOL_DISK_H_
#define NIGHTSHIFT_WORKER_SPOOL_SPOOL_DISK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace nightshift {

// One file of a spool, open for appending until nobody holds it any more.
struct SpoolFile {
  SpoolFile(std::string path_given, int fd_given) : path(std::move(path_given)), fd(fd_given) {}
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;
  ~SpoolFile();

  const std::string path;
  const int fd;
};

// Whether it is time for a sync. Looks are at least `look_every` apart: what has been there at the
// last one and is still kept is old enough. While one old answer is kept, each look finds it old
// and syncs what is new; so there are never more syncs than looks, however often it is called.
class SyncPolicy {
 public:
  explicit SyncPolicy(absl::Duration look_every) : look_every_(look_every) {}

  // `oldest` is the smallest number that is kept (UINT64_MAX: none), `written` the largest written.
  bool Look(MonotonicTime now, uint64_t oldest, uint64_t written) {
    if (now < next_look_) return false;
    next_look_ = now + look_every_;
    const bool old_enough = oldest <= seen_;
    seen_ = written;
    return old_enough && written > synced_;
  }
  void Synced(uint64_t through) { synced_ = through; }
  MonotonicTime next_look() const { return next_look_; }
  // Nothing will come of further looks until something is written.
  bool Idle(uint64_t oldest, uint64_t written) const {
    return oldest == UINT64_MAX || written <= synced_;
  }

 private:
  const absl::Duration look_every_;
  MonotonicTime next_look_;  // the first: at once
  uint64_t seen_ = 0;
  uint64_t synced_ = 0;
};

// Thread-safe.
class SpoolDisk {
 public:
  // The folder must exist. Files are named by numbers from `next_file` on; none may be there yet.
  // Makes the first one at once; errors as MakeFolder.
  static absl::StatusOr<std::unique_ptr<SpoolDisk>> Start(std::string folder, uint64_t next_file,
                                                          absl::Duration sync_after);
  // Syncs what is kept, and ends the thread.
  ~SpoolDisk();

  // An empty file to write to; null when none is ready. Another one is being made from then on.
  std::shared_ptr<SpoolFile> TakeFile();

  // Result `written` and all before it are in their files, the last ones in `file`; `oldest` is the
  // smallest number that is kept (UINT64_MAX: none).
  void Written(const std::shared_ptr<SpoolFile>& file, uint64_t oldest, uint64_t written);
  void Remove(std::string path);

  // A sync that has failed: what it should have saved may be gone, and no other sync would tell.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::string failure() const;
  int64_t syncs() const;
  // All removals so far have been done. For tests.
  void AwaitRemoved();

 private:
  SpoolDisk(std::string folder, uint64_t next_file, absl::Duration look_every)
      : folder_(std::move(folder)), next_file_(next_file), policy_(look_every) {}

  absl::StatusOr<std::shared_ptr<SpoolFile>> MakeFile();
  void Run();
  void MakeSpare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveFiles() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Sync() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  uint64_t next_file_;  // before the thread starts, and then its own
  std::atomic<bool> failed_{false};

  mutable Mutex mutex_;  // never held while a file is touched
  CondVar changed_;      // something for the thread
  CondVar removed_;      // the thread has removed all that it was told to
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;  // the thread, without an end
  bool told_ ABSL_GUARDED_BY(mutex_) = false;     // that no file can be made
  std::shared_ptr<SpoolFile> spare_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> to_remove_ ABSL_GUARDED_BY(mutex_);
  bool removing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<SpoolFile>> unsynced_ ABSL_GUARDED_BY(mutex_);  // in order, each once
  uint64_t oldest_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
  uint64_t written_ ABSL_GUARDED_BY(mutex_) = 0;
  SyncPolicy policy_ ABSL_GUARDED_BY(mutex_);
  int64_t syncs_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string failure_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_SPOOL_SPOOL_DISK_H_
