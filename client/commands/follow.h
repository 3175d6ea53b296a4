// Following a job to its end with progress on the screen: what `run`, `watch` and `submit --wait`
// have in common.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_FOLLOW_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_FOLLOW_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/commands/command.h"
#include "client/output/progress.h"
#include "client/rpc/job_client.h"

namespace nightshift {

// The progress of one job, wired to the console (which takes the painted line away before it writes
// anything else) and to SIGUSR1. Unwired and finished by the destructor.
class JobProgress {
 public:
  explicit JobProgress(CommandContext& context);
  ~JobProgress();

  void Update(const v1::JobStatus& job, absl::string_view phase = "");
  void PrintNow() { progress_->PrintNow(); }
  void Finish();

 private:
  CommandContext& context_;
  std::unique_ptr<Progress> progress_;
};

// Set by the signal thread, waited for by the main one. Thread-safe.
class StopSwitch {
 public:
  void Set(int signal);
  int signal() const;  // 0 = none yet
  bool set() const { return signal() != 0; }

 private:
  friend class Follower;
  mutable Mutex mutex_;
  CondVar changed_;
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;
};

struct FollowOptions {
  std::string job;
  absl::Duration timeout = absl::InfiniteDuration();
  // How long to go on trying when the coordinator is gone; zero where it cannot be.
  absl::Duration reconnect = absl::ZeroDuration();
  std::string where;  // of the coordinator, for notes
};

struct FollowResult {
  enum class End {
    kOver,     // `job` is what it came to
    kStopped,  // the switch was set
    kTimeout,
    kFailed,  // `status`: Unavailable after `reconnect`, NotFound, …
  };
  End end = End::kFailed;
  v1::JobStatus job;  // the last that is known
  absl::Status status;
};

FollowResult Follow(JobClient& client, const FollowOptions& options, Console& console,
                    JobProgress& progress, StopSwitch& stop);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_FOLLOW_H_
