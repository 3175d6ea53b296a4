#include "tests/sim/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace nightshift::sim {

struct Thread {
  Thread(ProcessPtr process_in, std::function<void()> body)
      : process(std::move(process_in)), fiber(std::move(body)) {}

  const ProcessPtr process;
  Fiber fiber;
  uint64_t wait = 0;  // number of the present wait, so that a late wake-up is known as such
  bool timed_out = false;
};

namespace {

constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.at != b.at ? a.at > b.at : a.number > b.number;
};

}  // namespace

void Scheduler::Push(Event event) {
  events_.push_back(std::move(event));
  std::push_heap(events_.begin(), events_.end(), kLater);
}

void Scheduler::After(absl::Duration delay, ProcessPtr process, std::function<void()> task) {
  Push({Now() + std::max(delay, absl::ZeroDuration()), ++last_number_, std::move(process),
        std::move(task)});
}

bool Scheduler::RunNext(MonotonicTime end) {
  while (!events_.empty() && events_.front().at <= end) {
    std::pop_heap(events_.begin(), events_.end(), kLater);
    Event event = std::move(events_.back());
    events_.pop_back();
    if (event.process != nullptr) {
      if (!event.process->alive) continue;
      if (event.process->stopped_until > event.at) {
        event.at = event.process->stopped_until;
        Push(std::move(event));  // keeps its number, and so the order
        continue;
      }
    }
    if (event.at > Now()) clock_.Advance(event.at - Now());
    ++events_run_;
    event.task();
    return true;
  }
  if (end > Now()) clock_.Advance(end - Now());
  return false;
}

void Scheduler::Spawn(ProcessPtr process, std::function<void()> body) {
  auto thread = std::make_shared<Thread>(process, std::move(body));
  threads_.push_back(thread);
  After(absl::ZeroDuration(), process, [this, thread] { Resume(thread, 0); });
}

void Scheduler::Resume(const std::shared_ptr<Thread>& thread, uint64_t wait) {
  if (!thread->fiber.ended() && thread->wait == wait) Run(thread);
}

void Scheduler::Run(const std::shared_ptr<Thread>& thread) {
  running_ = thread;
  thread->fiber.Resume();
  running_.reset();
  if (thread->fiber.ended()) std::erase(threads_, thread);
}

void Scheduler::Sleep(absl::Duration time) {
  const std::shared_ptr<Thread> self = running_;
  NIGHTSHIFT_CHECK(self != nullptr, "a wait outside of any thread");
  if (!self->process->alive) return;
  const uint64_t wait = ++self->wait;
  After(time, self->process, [this, self, wait] { Resume(self, wait); });
  Fiber::Yield();
}

void Scheduler::Kill(const ProcessPtr& process) {
  NIGHTSHIFT_CHECK(running_ == nullptr, "a thread kills a process");
  process->alive = false;
  const std::vector<std::shared_ptr<Thread>> all = threads_;
  for (const std::shared_ptr<Thread>& thread : all) {
    if (thread->process != process) continue;
    ++thread->wait;
    Run(thread);
    NIGHTSHIFT_CHECK(thread->fiber.ended(), "a thread goes on in a dead process");
  }
}

bool Scheduler::Condition::Wait(absl::Duration timeout) {
  const std::shared_ptr<Thread> self = scheduler_.running_;
  NIGHTSHIFT_CHECK(self != nullptr, "a wait outside of any thread");
  if (!self->process->alive) return true;
  const uint64_t wait = ++self->wait;
  self->timed_out = false;
  waiting_.push_back(self);
  if (timeout != absl::InfiniteDuration()) {
    scheduler_.After(timeout, self->process, [scheduler = &scheduler_, self, wait] {
      if (self->wait != wait) return;
      self->timed_out = true;
      scheduler->Resume(self, wait);
    });
  }
  Fiber::Yield();
  return !self->timed_out;
}

void Scheduler::Condition::NotifyAll() {
  for (const std::weak_ptr<Thread>& weak : std::exchange(waiting_, {})) {
    const std::shared_ptr<Thread> thread = weak.lock();
    if (thread == nullptr) continue;
    scheduler_.After(absl::ZeroDuration(), thread->process,
                     [scheduler = &scheduler_, thread, wait = thread->wait] {
                       scheduler->Resume(thread, wait);
                     });
  }
}

}  // namespace nightshift::sim
