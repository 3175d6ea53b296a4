// Keeps a second process, or a second store of this process, out of a store's folder, and can say
// who is in it. RocksDB's own LOCK does the first but not the second.
//
// The lock is an flock() on DIR/nightshift.lock, which holds the owner's process id; the kernel
// gives it up when the process ends, however it ends, so there is never a stale one.
#ifndef NIGHTSHIFT_STORAGE_FOLDER_LOCK_H_
#define NIGHTSHIFT_STORAGE_FOLDER_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nightshift {

// Movable; held while the object lives. Thread-compatible.
class FolderLock {
 public:
  // Never waits. FailedPrecondition, naming the process, when the lock is taken or when this file
  // system has no locks; otherwise as MakeFolder.
  static absl::StatusOr<FolderLock> Acquire(const std::string& folder);

  FolderLock() = default;
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}

  int fd_ = -1;
};

// Makes `folder` and what is missing above it, readable by the owner alone, and syncs each new
// entry. PermissionDenied, NotFound, ResourceExhausted (disk full), FailedPrecondition (a file
// stands there) or Unavailable, in words that name the folder.
absl::Status MakeFolder(const std::string& folder);

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_FOLDER_LOCK_H_
