#include "client/commands/run_stop.h"

#include <unistd.h>

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/shell_quote.h"

namespace nightshift {
namespace {

constexpr absl::Duration kInterruptGrace = absl::Seconds(60);
// SIGTERM comes from a supervisor that kills after 30 s or so; a terminal goes away when its
// machine is shut down, or with a person who wants to be rid of it.
constexpr absl::Duration kTerminateGrace = absl::Seconds(20);
// After the second signal the main thread has this long to end in order.
constexpr absl::Duration kAbortGrace = absl::Milliseconds(800);

}  // namespace

RunStop::RunStop(CommandContext& context) : context_(context) {
  context_.signals.SetHandlers([this](int signal, int count) { OnSignal(signal, count); },
                               [this] {
                                 // Under the lock: what it prints goes when the work is left.
                                 MutexLock lock(&mutex_);
                                 if (print_now_) print_now_();
                               });
}

RunStop::~RunStop() {
  Ended();
  context_.signals.ClearHandlers();
}

absl::Duration RunStop::DrainGrace(int signal) {
  return signal == SIGINT ? kInterruptGrace : kTerminateGrace;
}

void RunStop::EnterWork(Worker* worker, std::function<void()> print_now) {
  MutexLock lock(&mutex_);
  stage_ = Stage::kWork;
  worker_ = worker;
  print_now_ = std::move(print_now);
}

void RunStop::LeaveWork() {
  MutexLock lock(&mutex_);
  stage_ = Stage::kFiles;
  unsaved_ = worker_ == nullptr || stop_.signal() == 0 ? 0 : worker_->leftovers().undelivered;
  worker_ = nullptr;
  print_now_ = nullptr;
  moved_.SignalAll();
}

void RunStop::EnterFiles() {
  MutexLock lock(&mutex_);
  stage_ = Stage::kFiles;
  unsaved_ = 0;  // the job is over: what is unacknowledged is recorded, or not needed
}

void RunStop::Ended() {
  MutexLock lock(&mutex_);
  stage_ = Stage::kEnded;
  moved_.SignalAll();
}

void RunStop::StoreBroken(const absl::Status& status) {
  if (broken_.exchange(true)) return;
  context_.console.Say(absl::StrCat(
      "error: the data folder can no longer be written: ", status.message(),
      "\nEverything answered and saved before stays; what is in flight is lost.\n", ResumeText()));
  stop_.Set(SIGTERM);
}

void RunStop::OnSignal(int signal, int count) {
  Stage stage;
  int64_t unsaved = 0;
  {
    MutexLock lock(&mutex_);
    stage = stage_;
    unsaved = unsaved_;
  }
  switch (stage) {
    case Stage::kBefore:
      context_.console.Say(absl::StrCat("Stopped before the first call was made.\n", ResumeText()));
      _exit(static_cast<int>(ExitCodeOfSignal(signal)));
    case Stage::kWork:
      return OnWorkSignal(signal, count);
    case Stage::kFiles:
      stop_.Set(signal);
      if (count > 1) EndNow(signal, unsaved);
      return;
    case Stage::kEnded:
      return;
  }
}

void RunStop::OnWorkSignal(int signal, int count) {
  MutexLock lock(&mutex_);
  if (count == 1) {
    const int in_flight = worker_ == nullptr ? 0 : worker_->in_flight();
    context_.console.Say(absl::StrCat(
        "Stopping: ", in_flight, in_flight == 1 ? " call" : " calls", " in flight, waiting up to ",
        absl::ToInt64Seconds(DrainGrace(signal)), " s. Ctrl-C again drops them.\n"));
    stop_.Set(signal);
    return;
  }
  if (worker_ != nullptr) worker_->Abort();
  const MonotonicTime until = Clock::Real().Now() + kAbortGrace;
  while (stage_ != Stage::kEnded && Clock::Real().Now() < until)
    moved_.WaitFor(&mutex_, until - Clock::Real().Now());
  // What is left (a last commit, closing the store) can be done without.
  if (stage_ == Stage::kWork)
    EndNow(signal, worker_ == nullptr ? 0 : worker_->leftovers().undelivered);
  if (stage_ != Stage::kEnded) _exit(static_cast<int>(ExitCodeOfSignal(signal)));
}

void RunStop::EndNow(int signal, int64_t unsaved) {
  const std::string saved =
      unsaved == 0 ? "All answers so far are saved."
                   : absl::StrCat(WithCommas(unsaved), unsaved == 1 ? " result" : " results",
                                  " may not be saved; if so, their requests will be called again.");
  context_.console.Say(absl::StrCat("Stopped. ", saved, "\n", ResumeText()));
  _exit(static_cast<int>(ExitCodeOfSignal(signal)));
}

std::string RunStop::ResumeText() const {
  return absl::StrCat("Resume with:\n  ", ShellCommand(context_.invocation.words), "\n");
}

}  // namespace nightshift
