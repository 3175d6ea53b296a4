#include "coordinator/rpc/change_notifier.h"

#include <algorithm>
#include <utility>

#include "base/thread_name.h"

namespace nightshift {
namespace {

// A busy job changes with every commit; nobody reads faster than this.
constexpr absl::Duration kLookInterval = absl::Milliseconds(10);

}  // namespace

ChangeNotifier::ChangeNotifier(std::function<uint64_t(JobNumber)> change_count, Clock& clock)
    : change_count_(std::move(change_count)), clock_(clock), thread_([this] { Run(); }) {}

ChangeNotifier::~ChangeNotifier() { Shutdown(); }

ChangeNotifier::WaitId ChangeNotifier::Wait(JobNumber job, uint64_t seen, MonotonicTime not_before,
                                            std::function<void()> on_change) {
  MutexLock lock(&mutex_);
  if (stopping_) return 0;
  const WaitId id = next_id_++;
  waiters_.emplace(id, Waiter{job, seen, not_before, std::move(on_change)});
  waiting_.store(static_cast<int>(waiters_.size()));
  // The change may have come between the caller's reading of the count and now.
  look_ = true;
  changed_.Signal();
  return id;
}

void ChangeNotifier::Cancel(WaitId id) {
  std::function<void()> dropped;  // destroyed outside the lock: it may own its caller
  MutexLock lock(&mutex_);
  const auto found = waiters_.find(id);
  if (found == waiters_.end()) return;
  dropped = std::move(found->second.on_change);
  waiters_.erase(found);
  waiting_.store(static_cast<int>(waiters_.size()));
}

void ChangeNotifier::Wake() {
  if (waiting_.load() == 0) return;
  if (woken_.exchange(true)) return;
  MutexLock lock(&mutex_);
  look_ = true;
  changed_.Signal();
}

void ChangeNotifier::Shutdown() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<std::function<void()>> ChangeNotifier::TakeDue(MonotonicTime now, MonotonicTime* next) {
  std::vector<std::function<void()>> due;
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    Waiter& waiter = it->second;
    if (!stopping_) {
      if (change_count_(waiter.job) == waiter.seen) {
        ++it;
        continue;
      }
      if (now < waiter.not_before) {
        *next = std::min(*next, waiter.not_before);
        ++it;
        continue;
      }
    }
    due.push_back(std::move(waiter.on_change));
    it = waiters_.erase(it);
  }
  waiting_.store(static_cast<int>(waiters_.size()));
  return due;
}

void ChangeNotifier::Run() {
  NameThisThread("ns-notifier");
  MonotonicTime due_at = MonotonicTime::Infinite();
  MonotonicTime rested_at{0};
  for (;;) {
    std::vector<std::function<void()>> due;
    {
      MutexLock lock(&mutex_);
      for (;;) {
        if (stopping_) break;
        const MonotonicTime now = clock_.Now();
        const MonotonicTime wanted = look_ ? rested_at : due_at;
        if (wanted <= now) break;
        changed_.WaitFor(&mutex_, wanted.infinite() ? absl::InfiniteDuration() : wanted - now);
      }
      // Whoever changes something from here on wakes us again.
      woken_.store(false);
      look_ = false;
      due_at = MonotonicTime::Infinite();
      const MonotonicTime now = clock_.Now();
      due = TakeDue(now, &due_at);
      rested_at = now + kLookInterval;
      if (stopping_ && due.empty()) return;
    }
    for (std::function<void()>& call : due) call();
  }
}

}  // namespace nightshift
