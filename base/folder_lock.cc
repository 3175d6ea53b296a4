#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;

absl::Status FolderError(int error, const std::string& path, absl::string_view doing,
                         absl::string_view flag) {
  const std::string text = absl::StrCat("cannot ", doing, " ", path, ": ", std::strerror(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(absl::StrCat(
          text, ". Give this user the right to write there, or use another ", flag, "."));
    case ENOENT:
      return absl::NotFoundError(absl::StrCat(text, ". Use another ", flag, "."));
    case ENOTDIR:
    case EEXIST:
      return absl::FailedPreconditionError(
          absl::StrCat(text, ": a file stands where a folder is needed. Use another ", flag, "."));
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, ". Free some space, then start again."));
    default:
      return absl::UnavailableError(text);
  }
}

std::string ParentOf(const std::string& folder) {
  const size_t slash = folder.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : folder.substr(0, slash);
}

// The process that holds the lock, or 0 when it has not written its id (yet).
int64_t ReadOwner(int fd) {
  char text[32];
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  int64_t pid = 0;
  if (size <= 0 ||
      !absl::SimpleAtoi(
          absl::StripAsciiWhitespace(absl::string_view(text, static_cast<size_t>(size))), &pid)) {
    return 0;
  }
  return pid;
}

void WriteOwner(int fd, const std::string& path) {
  const std::string text = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    // The lock holds all the same; only the message to a second process is poorer.
    LogWarning("cannot write this process's id to ", path, ": ", std::strerror(errno));
  }
}

absl::Status Taken(const std::string& folder, int64_t pid, absl::string_view flag) {
  if (pid == getpid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this nightshift process (pid ", pid, ") has ", folder, " open already"));
  }
  if (pid <= 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another nightshift process has ", folder,
                     " open: wait until it has ended or stop it, or use another ", flag));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "another nightshift process (pid ", pid, ") has ", folder,
      " open: wait until it has ended or stop it (kill ", pid, "), or use another ", flag));
}

}  // namespace

absl::Status SyncFolder(const std::string& folder, absl::string_view flag) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FolderError(errno, folder, "open", flag);
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  // Some file systems have no sync of folders; they order entries by themselves.
  if (error != 0 && error != EINVAL) return FolderError(error, folder, "sync", flag);
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& given, absl::string_view flag) {
  std::string folder = given;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  struct stat info;
  if (stat(folder.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) return FolderError(ENOTDIR, folder, "use", flag);
    return absl::OkStatus();
  }
  if (errno != ENOENT) return FolderError(errno, folder, "use", flag);
  const std::string parent = ParentOf(folder);
  if (parent != folder) RETURN_IF_ERROR(MakeFolder(parent, flag));
  if (mkdir(folder.c_str(), kFolderMode) != 0) {
    // Somebody else may have made it in between.
    if (errno != EEXIST || stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
      return FolderError(errno, folder, "make the folder", flag);
    }
  }
  return SyncFolder(parent, flag);
}

absl::StatusOr<FolderLock> FolderLock::Acquire(const std::string& folder, absl::string_view flag) {
  RETURN_IF_ERROR(MakeFolder(folder, flag));
  const std::string path = absl::StrCat(folder, "/nightshift.lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode);
  if (fd < 0) return FolderError(errno, path, "write", flag);
  FolderLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Taken(folder, ReadOwner(fd), flag);
    return absl::FailedPreconditionError(
        absl::StrCat("cannot lock ", path, ": ", std::strerror(errno),
                     ". A local file system with locks is needed; use another ", flag, "."));
  }
  WriteOwner(fd, path);
  return lock;
}

FolderLock::~FolderLock() {
  // Closing gives the lock up. The file stays: removing it would race with the next owner.
  if (fd_ >= 0) close(fd_);
}

}  // namespace nightshift
