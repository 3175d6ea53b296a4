#include "coordinator/maintenance/disk_watcher.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/units.h"

namespace nightshift {
namespace {

constexpr uint64_t kLowWaterMin = uint64_t{160} << 20;
constexpr uint64_t kLowWaterMax = uint64_t{1} << 30;

std::string Size(uint64_t bytes) { return HumanSize(static_cast<int64_t>(bytes)); }

class DiskWatcher {
 public:
  DiskWatcher(Dispatcher& dispatcher, std::string path,
              std::function<absl::StatusOr<DiskSpace>(const std::string&)> space)
      : dispatcher_(dispatcher), path_(std::move(path)), space_(std::move(space)) {}

  void Run() {
    const absl::StatusOr<DiskSpace> space = space_(path_);
    if (!space.ok()) return;
    if (!held_ && space->free_bytes < LowWaterMark(space->total_bytes)) {
      held_ = true;
      const std::string why =
          absl::StrCat("the disk of ", path_, " is nearly full: less than ",
                       Size(LowWaterMark(space->total_bytes)),
                       " are free. Nothing is lost; work goes on by itself when ",
                       Size(GoOnMark(space->total_bytes)), " are free");
      LogWarning(why, ". Until then no new job is taken and no request goes out");
      dispatcher_.HoldForDisk(why);
    } else if (held_ && space->free_bytes >= GoOnMark(space->total_bytes)) {
      held_ = false;
      LogInfo("the disk of ", path_, " has room again, ", Size(space->free_bytes),
              ": work goes on");
      dispatcher_.HoldForDisk("");
    }
  }

 private:
  Dispatcher& dispatcher_;
  const std::string path_;
  const std::function<absl::StatusOr<DiskSpace>(const std::string&)> space_;
  bool held_ = false;
};

}  // namespace

uint64_t LowWaterMark(uint64_t total_bytes) {
  return std::clamp(total_bytes / 20, kLowWaterMin, kLowWaterMax);
}

uint64_t GoOnMark(uint64_t total_bytes) {
  const uint64_t low = LowWaterMark(total_bytes);
  return low + low / 4;
}

absl::Status CheckVolume(const std::string& path, uint64_t total_bytes) {
  if (total_bytes >= kVolumeBytesMin) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the volume of ", path, " is too small: it has ", Size(total_bytes),
                   ", and a coordinator needs one of at least ", Size(kVolumeBytesMin)));
}

MaintenanceTask NewDiskWatcher(Dispatcher& dispatcher, std::string path,
                               std::function<absl::StatusOr<DiskSpace>(const std::string&)> space) {
  return {"disk watcher", absl::Seconds(1),
          [watcher = std::make_shared<DiskWatcher>(dispatcher, std::move(path), std::move(space))] {
            watcher->Run();
          }};
}

}  // namespace nightshift
