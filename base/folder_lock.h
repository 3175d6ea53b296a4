// Keeps a second process, or a second user in this process, out of a folder that only one may write
// (a store, a spool), and can say who is in it.
//
// `flag` is the option that names the folder: what the messages tell a person to change.
//
// The lock is an flock() on DIR/nightshift.lock, which holds the owner's process id; the kernel
// gives it up when the process ends, however it ends, so there is never a stale one.
#ifndef NIGHTSHIFT_BASE_FOLDER_LOCK_H_
#define NIGHTSHIFT_BASE_FOLDER_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

inline constexpr absl::string_view kDataDirFlag = "--data-dir";

// Movable; held while the object lives. Thread-compatible.
class FolderLock {
 public:
  // Never waits. FailedPrecondition, naming the process, when the lock is taken or when this file
  // system has no locks; otherwise as MakeFolder.
  static absl::StatusOr<FolderLock> Acquire(const std::string& folder,
                                            absl::string_view flag = kDataDirFlag);

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
absl::Status MakeFolder(const std::string& folder, absl::string_view flag = kDataDirFlag);

// Makes new and removed entries of the folder last through a loss of power. Errors as above.
absl::Status SyncFolder(const std::string& folder, absl::string_view flag = kDataDirFlag);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_FOLDER_LOCK_H_
