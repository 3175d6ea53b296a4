#include "client/input/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

class FileSource final : public ByteSource {
 public:
  // Owns `fd` unless it is standard input.
  FileSource(int fd, std::string name, std::function<bool()> cancelled)
      : fd_(fd), name_(std::move(name)), cancelled_(std::move(cancelled)) {}
  ~FileSource() override {
    if (fd_ != STDIN_FILENO) close(fd_);
  }

  absl::StatusOr<size_t> Read(char* to, size_t max) override {
    while (true) {
      if (cancelled_ && cancelled_()) return absl::CancelledError("reading was interrupted");
      const ssize_t got = read(fd_, to, max);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {  // another program has left standard input in that mode
        pollfd wait = {fd_, POLLIN, 0};
        poll(&wait, 1, -1);
        continue;
      }
      return absl::InternalError(absl::StrCat("cannot read ", name_, ": ", std::strerror(errno)));
    }
  }

 private:
  const int fd_;
  const std::string name_;
  const std::function<bool()> cancelled_;
};

absl::Status OpenError(const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot open ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat("there is no file ", path));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    case EMFILE:
    case ENFILE:
      return absl::InternalError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

}  // namespace

std::string SourceName(const std::string& path) { return path == "-" ? "standard input" : path; }

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path,
                                                           std::function<bool()> cancelled) {
  if (path.empty()) return absl::InvalidArgumentError("the input has no name");
  if (path == "-") {
    if (isatty(STDIN_FILENO) != 0) {
      return absl::InvalidArgumentError(
          "\"-\" reads standard input, but that is a terminal; name a file, or send one in with "
          "< FILE");
    }
    return std::make_unique<FileSource>(STDIN_FILENO, SourceName(path), std::move(cancelled));
  }
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return OpenError(path, errno);
  auto source = std::make_unique<FileSource>(fd, path, std::move(cancelled));
  struct stat info {};
  if (fstat(fd, &info) != 0) return OpenError(path, errno);
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a folder; name a file in it"));
  }
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return source;
}

absl::StatusOr<size_t> MemorySource::Read(char* to, size_t max) {
  const size_t count = std::min(max, rest_.size());
  if (count > 0) std::memcpy(to, rest_.data(), count);
  rest_.remove_prefix(count);
  return count;
}

absl::StatusOr<size_t> HashingSource::Read(char* to, size_t max) {
  ASSIGN_OR_RETURN(const size_t got, inner_->Read(to, max));
  hash_->Update(absl::string_view(to, got));
  return got;
}

absl::StatusOr<absl::string_view> PeekSource::Peek(size_t count) {
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(start_));
  start_ = 0;
  while (ahead_.size() < count) {
    const size_t had = ahead_.size();
    ahead_.resize(count);
    const absl::StatusOr<size_t> got = inner_->Read(ahead_.data() + had, count - had);
    ahead_.resize(had + (got.ok() ? *got : 0));
    if (!got.ok()) return got.status();
    if (*got == 0) break;
  }
  return absl::string_view(ahead_.data(), ahead_.size());
}

absl::StatusOr<size_t> PeekSource::Read(char* to, size_t max) {
  NIGHTSHIFT_CHECK(start_ <= ahead_.size(), "dropped more than was looked at");
  if (start_ == ahead_.size()) return inner_->Read(to, max);
  const size_t count = std::min(max, ahead_.size() - start_);
  std::memcpy(to, ahead_.data() + start_, count);
  start_ += count;
  return count;
}

}  // namespace nightshift
