#include "client/commands/follow.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/thread_name.h"
#include "base/units.h"
#include "client/cli/exit_code.h"

namespace nightshift {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(200);
constexpr absl::Duration kTryAgainAfter = absl::Seconds(1);
constexpr int64_t kWatchIntervalMs = 200;

Progress::Options ProgressOptions(const CommandContext& context) {
  Progress::Options options;
  options.interval = context.settings.Span("progress-interval");
  // Checked with the flag.
  options.mode = *ParseProgressMode(context.settings.Text("progress"));
  if (context.console.json()) {
    // The stream that was asked for, unless progress was turned off by name.
    options.fd = STDOUT_FILENO;
    if (options.mode != ProgressMode::kNone) options.mode = ProgressMode::kJson;
  } else if (context.console.quiet()) {
    options.mode = ProgressMode::kNone;
  }
  return options;
}

}  // namespace

JobProgress::JobProgress(CommandContext& context)
    : context_(context), progress_(Progress::Create(ProgressOptions(context), Clock::Real())) {
  context_.console.SetRedraw([progress = progress_.get()] { progress->Clear(); });
  context_.signals.SetLastWords([progress = progress_.get()] { progress->Finish(); });
}

JobProgress::~JobProgress() {
  Finish();
  context_.signals.SetLastWords(nullptr);
}

void JobProgress::Update(const v1::JobStatus& job, absl::string_view phase) {
  ProgressState state = ProgressOf(job);
  if (!phase.empty()) state.phase = std::string(phase);
  progress_->Update(state);
}

void JobProgress::Finish() {
  context_.console.SetRedraw(nullptr);
  progress_->Finish();
}

void StopSwitch::Set(int signal) {
  MutexLock lock(&mutex_);
  if (signal_ == 0) signal_ = signal;
  changed_.SignalAll();
}

int StopSwitch::signal() const {
  MutexLock lock(&mutex_);
  return signal_;
}

// The watching thread puts news into the switch's neighbourhood, so that one wait serves both.
class Follower {
 public:
  Follower(JobClient& client, const FollowOptions& options, Console& console, StopSwitch& stop)
      : client_(client), options_(options), console_(console), stop_(stop) {}

  FollowResult Run(JobProgress& progress) {
    std::thread watcher([this] { Watch(); });
    FollowResult result = Wait(progress);
    {
      MutexLock lock(&stop_.mutex_);
      ending_ = true;
      if (stream_ != nullptr) stream_->Cancel();
      stop_.changed_.SignalAll();
    }
    watcher.join();
    return result;
  }

 private:
  FollowResult Wait(JobProgress& progress) {
    const Clock& clock = Clock::Real();
    const MonotonicTime until = clock.Now() + options_.timeout;
    FollowResult result;
    while (true) {
      {
        MutexLock lock(&stop_.mutex_);
        if (!news_ && !ended_ && stop_.signal_ == 0) stop_.changed_.WaitFor(&stop_.mutex_, kTick);
        news_ = false;
        result.job = latest_;
        if (ended_) result.status = status_;
        result.end = FollowResult::End::kFailed;
        if (ended_ || stop_.signal_ != 0) {
          if (JobIsOver(result.job))
            result.end = FollowResult::End::kOver;
          else if (stop_.signal_ != 0)
            result.end = FollowResult::End::kStopped;
          return result;
        }
      }
      if (!result.job.id().empty()) {
        progress.Update(result.job);
        if (JobIsOver(result.job)) {
          result.end = FollowResult::End::kOver;
          return result;
        }
      }
      if (clock.Now() >= until) {
        result.end = FollowResult::End::kTimeout;
        return result;
      }
    }
  }

  // On the watching thread: streams, one after the other, until the job or the patience is over.
  void Watch() {
    NameThisThread("ns-watch");
    const Clock& clock = Clock::Real();
    MonotonicTime give_up = MonotonicTime::Infinite();  // infinite: connected
    while (true) {
      const absl::Status status = WatchOnce([&] {
        if (!give_up.infinite())
          console_.Note(absl::StrCat("Reached the coordinator at ", options_.where, " again.\n"));
        give_up = MonotonicTime::Infinite();
      });
      MutexLock lock(&stop_.mutex_);
      const bool gone = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
      if (give_up.infinite() && gone) {
        give_up = clock.Now() + options_.reconnect;
        if (options_.reconnect > absl::ZeroDuration() && !ending_) {
          console_.Note(absl::StrCat("Lost the coordinator at ", options_.where, " (",
                                     status.message(), "); trying again for ",
                                     HumanDuration(options_.reconnect), ".\n"));
        }
      }
      if (ending_ || !gone || clock.Now() >= give_up) {
        ended_ = true;
        status_ = status.ok() && !JobIsOver(latest_)
                      ? absl::InternalError("the coordinator stopped telling about the job")
                      : status;
        stop_.changed_.SignalAll();
        return;
      }
      const MonotonicTime again = clock.Now() + kTryAgainAfter;
      while (!ending_ && clock.Now() < again)
        stop_.changed_.WaitFor(&stop_.mutex_, again - clock.Now());
      if (ending_) return;
    }
  }

  template <typename Heard>
  absl::Status WatchOnce(Heard heard) {
    v1::WatchJobRequest request;
    request.set_job(options_.job);
    request.set_interval_ms(kWatchIntervalMs);
    const std::unique_ptr<WatchStream> stream = client_.Watch(request);
    {
      MutexLock lock(&stop_.mutex_);
      if (ending_) return absl::CancelledError("");
      stream_ = stream.get();
    }
    absl::Status status;
    while (true) {
      absl::StatusOr<std::optional<v1::JobStatus>> next = stream->Next();
      if (!next.ok()) status = next.status();
      if (!next.ok() || !next->has_value()) break;
      heard();
      MutexLock lock(&stop_.mutex_);
      latest_ = **std::move(next);
      news_ = true;
      stop_.changed_.SignalAll();
    }
    MutexLock lock(&stop_.mutex_);
    stream_ = nullptr;
    return status;
  }

  JobClient& client_;
  const FollowOptions& options_;
  Console& console_;
  StopSwitch& stop_;

  // Guarded by the switch's mutex.
  WatchStream* stream_ = nullptr;
  v1::JobStatus latest_;
  bool news_ = false;
  bool ending_ = false;  // the main thread wants no more
  bool ended_ = false;   // the watching thread has returned, or is about to
  absl::Status status_;
};

FollowResult Follow(JobClient& client, const FollowOptions& options, Console& console,
                    JobProgress& progress, StopSwitch& stop) {
  return Follower(client, options, console, stop).Run(progress);
}

}  // namespace nightshift
