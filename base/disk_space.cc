#include "base/disk_space.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace nightshift {

absl::StatusOr<DiskSpace> DiskSpaceOf(const std::string& path) {
  struct statvfs info;
  if (statvfs(path.c_str(), &info) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot ask for the free space of ", path, ": ", std::strerror(errno)));
  }
  const uint64_t block = info.f_frsize;
  return DiskSpace{uint64_t{info.f_bavail} * block, uint64_t{info.f_blocks} * block};
}

}  // namespace nightshift
