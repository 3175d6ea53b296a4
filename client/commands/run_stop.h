// What Ctrl-C, SIGTERM and a terminal that goes away (SIGHUP) do to a run. The first asks for an
// end: no new calls, those in flight are waited for. The second drops them, and the process is gone
// within a second.
//
//   before the job is handed in   the process ends at once; nothing is lost, nothing has run
//   while it works                as above
//   while files are written       they are left as they were
//
// The handlers run on the signal thread; the rest on the main one.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_RUN_STOP_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_RUN_STOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/commands/command.h"
#include "client/commands/follow.h"
#include "worker/worker.h"

namespace nightshift {

class RunStop {
 public:
  explicit RunStop(CommandContext& context);
  ~RunStop();

  // `worker` must live until LeaveWork; `print_now` serves SIGUSR1.
  void EnterWork(Worker* worker, std::function<void()> print_now);
  void LeaveWork();
  void EnterFiles();
  // The last thing that may take time is over.
  void Ended();

  // From the coordinator's threads: what the run does from now on would not be kept.
  void StoreBroken(const absl::Status& status);
  bool broken() const { return broken_.load(); }

  StopSwitch& stop() { return stop_; }
  int signal() const { return stop_.signal(); }

  // How long to wait for the calls in flight.
  static absl::Duration DrainGrace(int signal);

  // "Resume with:" and the command, as bash takes it back.
  std::string ResumeText() const;

 private:
  enum class Stage { kBefore, kWork, kFiles, kEnded };

  void OnSignal(int signal, int count);
  void OnWorkSignal(int signal, int count);
  [[noreturn]] void EndNow(int signal, int64_t unsaved);

  CommandContext& context_;
  StopSwitch stop_;
  std::atomic<bool> broken_{false};

  Mutex mutex_;
  CondVar moved_;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kBefore;
  Worker* worker_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Results that were not acknowledged when the stopped work was left.
  int64_t unsaved_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void()> print_now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_RUN_STOP_H_
