#include "coordinator/grant_loop.h"

#include <utility>

#include "base/thread_name.h"

namespace nightshift {

GrantLoop::GrantLoop(Store& store, Dispatcher& dispatcher, CommandSink& committer,
                     WorkerStreams& streams, Clock& clock, std::function<void(int)> on_lease)
    : clock_(clock),
      sender_(store, dispatcher, committer, streams, clock, std::move(on_lease)),
      thread_([this] { Run(); }) {}

GrantLoop::~GrantLoop() { Stop(); }

void GrantLoop::Wake() {
  if (woken_.exchange(true)) return;
  MutexLock lock(&mutex_);
  look_ = true;
  changed_.Signal();
}

void GrantLoop::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void GrantLoop::Run() {
  NameThisThread("ns-grants");
  MonotonicTime due = MonotonicTime::Infinite();
  for (;;) {
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && !look_) {
        const MonotonicTime now = clock_.Now();
        if (due <= now) break;
        changed_.WaitFor(&mutex_, due.infinite() ? absl::InfiniteDuration() : due - now);
      }
      if (stopping_) return;
      look_ = false;
    }
    // Before planning: what changes from here on wakes the loop again.
    woken_.store(false);
    const LeaseSender::Next next = sender_.PlanAndSend();
    due = next.due;
    if (next.rest > absl::ZeroDuration()) {
      Rest(next.rest);
      due = clock_.Now();
    }
  }
}

void GrantLoop::Rest(absl::Duration time) {
  const MonotonicTime until = clock_.Now() + time;
  MutexLock lock(&mutex_);
  for (MonotonicTime now = clock_.Now(); !stopping_ && now < until; now = clock_.Now()) {
    changed_.WaitFor(&mutex_, until - now);
  }
}

}  // namespace nightshift
