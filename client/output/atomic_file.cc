#include "client/output/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
// Names that are tried; two processes would have to draw the same 64 bits.
constexpr int kNamesMax = 10;

absl::Status Error(int code, const std::string& path, absl::string_view what) {
  const std::string message = absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(code));
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    case EISDIR:
    case ENAMETOOLONG:
    case EINVAL:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
  }
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Where a chain of symbolic links ends; the path itself when that cannot be told.
std::string Resolved(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? path : resolved;
}

std::string TemporaryName(const std::string& folder) {
  static constexpr char kDigits[] = "0123456789abcdef";
  Random random = Random::FromSystem();
  std::string name = folder + "/.nightshift-";
  for (int i = 0; i < 16; ++i) name.push_back(kDigits[random.Below(16)]);
  return name + ".tmp";
}

class PosixAtomicFile final : public AtomicFile {
 public:
  PosixAtomicFile(std::string path, std::string target)
      : path_(std::move(path)), target_(std::move(target)) {}

  ~PosixAtomicFile() override {
    if (fd_ >= 0) close(fd_);
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }

  absl::Status Open() {
    struct stat info {};
    const bool exists = stat(target_.c_str(), &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " is a folder; name a file in it"));
    }
    if (exists && !S_ISREG(info.st_mode)) {
      fd_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
      direct_ = true;
      return fd_ < 0 ? Error(errno, path_, "write") : absl::OkStatus();
    }
    if (exists && access(target_.c_str(), W_OK) != 0) return Error(errno, path_, "replace");
    const std::string folder = FolderOf(target_);
    if (stat(folder.c_str(), &info) != 0) {
      return Annotate(Error(errno, folder, "find the folder"),
                      absl::StrCat("cannot write ", path_));
    }
    RETURN_IF_ERROR(OpenIn(folder));
    // A file that is replaced keeps its permissions.
    if (exists && stat(target_.c_str(), &info) == 0) fchmod(fd_, info.st_mode & 0777);
    buffer_.reserve(kBufferBytes);
    return absl::OkStatus();
  }

  absl::Status Append(absl::string_view bytes) override {
    bytes_ += static_cast<int64_t>(bytes.size());
    if (buffer_.size() + bytes.size() > kBufferBytes) {
      RETURN_IF_ERROR(Flush());
      if (bytes.size() >= kBufferBytes) return Write(bytes);
    }
    buffer_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    NIGHTSHIFT_CHECK(fd_ >= 0, "Commit twice");
    RETURN_IF_ERROR(Flush());
    if (direct_) return Close();
    if (fsync(fd_) != 0) return Error(errno, path_, "make durable");
    if (temporary_.empty()) RETURN_IF_ERROR(GiveName());
    RETURN_IF_ERROR(Close());
    if (rename(temporary_.c_str(), target_.c_str()) != 0) return Error(errno, path_, "write");
    temporary_.clear();
    return SyncFolder();
  }

  int64_t bytes() const override { return bytes_; }
  const std::string& path() const override { return path_; }
  const std::string& temporary_path() const override { return temporary_; }

 private:
  absl::Status OpenIn(const std::string& folder) {
    // Without a name nothing is left behind, however the process ends. It gets one by way of /proc.
    fd_ = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd_ >= 0 && access(ProcName().c_str(), F_OK) == 0) return absl::OkStatus();
    if (fd_ >= 0) close(fd_);
    for (int i = 0; i < kNamesMax; ++i) {
      const std::string name = TemporaryName(folder);
      fd_ = open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
      if (fd_ >= 0) {
        temporary_ = name;
        return absl::OkStatus();
      }
      if (errno != EEXIST) break;
    }
    return Error(errno, path_, "write");
  }

  std::string ProcName() const { return absl::StrCat("/proc/self/fd/", fd_); }

  absl::Status GiveName() {
    for (int i = 0; i < kNamesMax; ++i) {
      const std::string name = TemporaryName(FolderOf(target_));
      if (linkat(AT_FDCWD, ProcName().c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        temporary_ = name;
        return absl::OkStatus();
      }
      if (errno != EEXIST) break;
    }
    return Error(errno, path_, "write");
  }

  absl::Status Flush() {
    RETURN_IF_ERROR(Write(buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }

  absl::Status Write(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t wrote = write(fd_, bytes.data(), bytes.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return Error(errno, path_, "write");
      bytes.remove_prefix(static_cast<size_t>(wrote));
    }
    return absl::OkStatus();
  }

  absl::Status Close() {
    const int result = close(std::exchange(fd_, -1));
    // Network file systems report here what they could not write.
    return result == 0 || errno == EINTR ? absl::OkStatus() : Error(errno, path_, "write");
  }

  absl::Status SyncFolder() {
    const int folder = open(FolderOf(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return Error(errno, path_, "make durable");
    // Some file systems cannot sync a folder and need not.
    const bool failed = fsync(folder) != 0 && errno != EINVAL && errno != ENOTSUP;
    const int code = errno;
    close(folder);
    return failed ? Error(code, path_, "make durable") : absl::OkStatus();
  }

  const std::string path_;    // as the caller named it
  const std::string target_;  // behind symbolic links
  std::string temporary_;
  int fd_ = -1;
  bool direct_ = false;
  std::string buffer_;
  int64_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the output file has no name");
  auto file = std::make_unique<PosixAtomicFile>(path, Resolved(path));
  RETURN_IF_ERROR(file->Open());
  return file;
}

}  // namespace nightshift
