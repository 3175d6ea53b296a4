// Stops taking work before the disk is full.
//
// There are two marks. Below the low-water mark, which is watched here, no new job is taken and no
// request goes out; what workers have already is recorded as ever, which is what the room below the
// mark is for. Below the store's own mark (Store::CheckRoom) nothing is written at all. Work goes
// on by itself when there is clearly room again.
#ifndef NIGHTSHIFT_COORDINATOR_MAINTENANCE_DISK_WATCHER_H_
#define NIGHTSHIFT_COORDINATOR_MAINTENANCE_DISK_WATCHER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/disk_space.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/maintenance/maintenance.h"

namespace nightshift {

// Free bytes to keep on a volume of that size: a twentieth of it, but at most 1 GiB, which holds
// the answers of any fleet's calls in flight and a compaction, and at least 160 MiB, twice what the
// store keeps for itself.
uint64_t LowWaterMark(uint64_t total_bytes);
// Free bytes at which work goes on: a quarter more, so that a disk at the mark does not make jobs
// stop and go every second.
uint64_t GoOnMark(uint64_t total_bytes);

// A volume has to be at least as large as this, which leaves 56 MiB to jobs: on a smaller one work
// that was once held could hardly go on, or never.
inline constexpr uint64_t kVolumeBytesMin = uint64_t{256} << 20;

// FailedPrecondition, with a line for a person, when the volume of `path` is smaller than that.
absl::Status CheckVolume(const std::string& path, uint64_t total_bytes);

// Every second. `space` tells how much room there is around `path` (DiskSpaceOf); while it cannot,
// all stays as it was. The dispatcher must outlive the task.
MaintenanceTask NewDiskWatcher(Dispatcher& dispatcher, std::string path,
                               std::function<absl::StatusOr<DiskSpace>(const std::string&)> space);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_MAINTENANCE_DISK_WATCHER_H_
