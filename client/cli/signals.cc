#include "client/cli/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread_name.h"

namespace nightshift {
namespace {

// SIGUSR2 wakes the thread up for its own end.
sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&set, signal);
  // Waiting for a signal brings it also where it is ignored.
  struct sigaction hangup;
  if (sigaction(SIGHUP, nullptr, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
    sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

ExitCode ExitCodeOfSignal(int signal) {
  if (signal == SIGHUP) return ExitCode::kHungUp;
  return signal == SIGTERM ? ExitCode::kTerminated : ExitCode::kInterrupted;
}

void SignalThread::Block() {
  const sigset_t set = Watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

struct SignalThread::Impl {
  Mutex mutex;
  std::function<void(int, int)> stop ABSL_GUARDED_BY(mutex);
  std::function<void()> usr1 ABSL_GUARDED_BY(mutex);
  std::function<void()> last_words ABSL_GUARDED_BY(mutex);
  bool ending ABSL_GUARDED_BY(mutex) = false;
  Mutex calling;  // held during a call; before `mutex`
  int count = 0;  // only on the thread
  std::thread thread;

  void Run() {
    NameThisThread("ns-signals");
    const sigset_t set = Watched();
    while (true) {
      siginfo_t info;
      const int signal = sigwaitinfo(&set, &info);
      if (signal < 0) continue;  // EINTR
      MutexLock call(&calling);
      std::function<void(int, int)> call_stop;
      std::function<void()> call_usr1, call_last;
      {
        MutexLock lock(&mutex);
        if (signal == SIGUSR2) {
          if (ending) return;
          continue;
        }
        call_stop = stop;
        call_usr1 = usr1;
        call_last = last_words;
      }
      if (signal == SIGUSR1) {
        if (call_usr1) call_usr1();
      } else if (call_stop) {
        if (signal != SIGHUP || count == 0) call_stop(signal, ++count);
      } else {
        if (call_last) call_last();
        _exit(static_cast<int>(ExitCodeOfSignal(signal)));
      }
    }
  }
};

SignalThread::SignalThread() : impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

SignalThread::~SignalThread() {
  {
    MutexLock lock(&impl_->mutex);
    impl_->ending = true;
  }
  pthread_kill(impl_->thread.native_handle(), SIGUSR2);
  impl_->thread.join();
}

void SignalThread::SetHandlers(std::function<void(int, int)> stop, std::function<void()> usr1) {
  MutexLock call(&impl_->calling);
  MutexLock lock(&impl_->mutex);
  impl_->stop = std::move(stop);
  impl_->usr1 = std::move(usr1);
}

void SignalThread::SetLastWords(std::function<void()> last_words) {
  MutexLock lock(&impl_->mutex);
  impl_->last_words = std::move(last_words);
}

}  // namespace nightshift
