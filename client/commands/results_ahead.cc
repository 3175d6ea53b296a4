#include "client/commands/results_ahead.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/disk_space.h"
#include "base/status_macros.h"
#include "base/thread_name.h"

namespace nightshift {
namespace {

// How often a waiting Finish asks whether it has been cancelled.
constexpr absl::Duration kCancelLook = absl::Milliseconds(100);
// How much may be written between two looks at the disk.
constexpr size_t kLookEveryBytes = size_t{8} << 20;
// Room that is left to others: a tenth of the volume, at most 2 GiB, which is twice the mark at
// which the coordinator stops work.
constexpr uint64_t kRoomLeftMax = uint64_t{2} << 30;

bool HasRoom(const std::string& folder) {
  const absl::StatusOr<DiskSpace> space = DiskSpaceOf(folder);
  return !space.ok() || space->free_bytes >= std::min(space->total_bytes / 10, kRoomLeftMax);
}

std::unique_ptr<OutputStream> Open(JobClient& client, const std::string& job_id) {
  v1::ReadOutputRequest request;
  request.set_job(job_id);
  request.set_kind(v1::ReadOutputRequest::RESULTS);
  request.set_follow(true);
  request.set_in_order(true);
  return client.ReadOutput(request);
}

}  // namespace

ResultsAhead::ResultsAhead(JobClient& client, const std::string& job_id, const std::string& path,
                           std::unique_ptr<LineSink> file)
    : folder_(std::filesystem::path(path).parent_path().string()),
      file_(std::move(file)),
      stream_(Open(client, job_id)),
      thread_([this] {
        NameThisThread("ns-results");
        absl::StatusOr<int64_t> lines = Copy();
        if (!lines.ok()) file_.reset();  // gives its room back
        MutexLock lock(&mutex_);
        lines_ = std::move(lines);
        ended_ = true;
        changed_.SignalAll();
      }) {}

ResultsAhead::~ResultsAhead() {
  stream_->Cancel();
  thread_.join();
}

absl::StatusOr<int64_t> ResultsAhead::Copy() {
  int64_t lines = 0;
  size_t bytes = kLookEveryBytes;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<v1::OutputChunk> chunk, stream_->Next());
    if (!chunk.has_value()) return lines;
    lines += chunk->count();
    bytes += chunk->lines().size();
    if (bytes >= kLookEveryBytes) {
      bytes = 0;
      if (!HasRoom(folder_)) return absl::ResourceExhaustedError("the disk has little room left");
    }
    RETURN_IF_ERROR(file_->Append(chunk->lines()));
  }
}

absl::StatusOr<int64_t> ResultsAhead::Finish(const std::function<bool()>& cancelled) {
  {
    MutexLock lock(&mutex_);
    while (!ended_) {
      if (cancelled && cancelled()) return absl::CancelledError("stopped while writing the files");
      changed_.WaitFor(&mutex_, kCancelLook);
    }
    RETURN_IF_ERROR(lines_.status());
  }
  RETURN_IF_ERROR(file_->Commit());
  MutexLock lock(&mutex_);
  return *lines_;
}

}  // namespace nightshift
