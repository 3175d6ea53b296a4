// How much room a file system has.
#ifndef NIGHTSHIFT_BASE_DISK_SPACE_H_
#define NIGHTSHIFT_BASE_DISK_SPACE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace nightshift {

struct DiskSpace {
  uint64_t free_bytes = 0;  // for this user: what is reserved for root does not count
  uint64_t total_bytes = 0;
};

// Of the file system that holds `path`. Unavailable when it cannot be asked. Quick on local file
// systems; thread-safe.
absl::StatusOr<DiskSpace> DiskSpaceOf(const std::string& path);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_DISK_SPACE_H_
