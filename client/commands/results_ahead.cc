#include "client/commands/results_ahead.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "base/thread_name.h"

namespace nightshift {
namespace {

// How often a waiting Finish asks whether it has been cancelled.
constexpr absl::Duration kCancelLook = absl::Milliseconds(100);

std::unique_ptr<OutputStream> Open(JobClient& client, const std::string& job_id) {
  v1::ReadOutputRequest request;
  request.set_job(job_id);
  request.set_kind(v1::ReadOutputRequest::RESULTS);
  request.set_follow(true);
  request.set_in_order(true);
  return client.ReadOutput(request);
}

}  // namespace

ResultsAhead::ResultsAhead(JobClient& client, const std::string& job_id,
                           std::unique_ptr<LineSink> file)
    : file_(std::move(file)), stream_(Open(client, job_id)), thread_([this] {
        NameThisThread("ns-results");
        absl::StatusOr<int64_t> lines = Copy();
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
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<v1::OutputChunk> chunk, stream_->Next());
    if (!chunk.has_value()) return lines;
    lines += chunk->count();
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
