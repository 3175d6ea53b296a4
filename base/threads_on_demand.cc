#include "base/threads_on_demand.h"

#include <httplib.h>
#include <pthread.h>

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace nightshift {
namespace {

// True on the accepting thread while it turns a connection away.
thread_local bool turns_away = false;

class ThreadsOnDemand final : public httplib::TaskQueue {
 public:
  ThreadsOnDemand(size_t threads_max, size_t stack_bytes, std::function<bool()> make_room)
      : threads_max_(threads_max), stack_bytes_(stack_bytes), make_room_(std::move(make_room)) {}

  void enqueue(std::function<void()> task) override {
    if (HasThread() || (make_room_ && make_room_())) {
      MutexLock lock(&mutex_);
      tasks_.push_back(std::move(task));
      changed_.Signal();
      return;
    }
    turns_away = true;
    task();
    turns_away = false;
  }

  void shutdown() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
    }
    // No thread is added any more: enqueue() is called by the thread that calls this.
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

 private:
  // Whether one more task finds a thread. Stays so until this thread, which alone adds tasks, does.
  bool HasThread() {
    MutexLock lock(&mutex_);
    return tasks_.size() < idle_ || AddThread();
  }

  // False at the maximum, and when the system gives no more threads.
  bool AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (threads_.size() >= threads_max_) return false;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes_);
    pthread_t thread;
    const int error = pthread_create(
        &thread, &attributes,
        [](void* self) -> void* {
          static_cast<ThreadsOnDemand*>(self)->Run();
          return nullptr;
        },
        this);
    pthread_attr_destroy(&attributes);
    if (error != 0) return false;
    threads_.push_back(thread);
    return true;
  }

  void Run() {
    while (true) {
      std::function<void()> task;
      {
        MutexLock lock(&mutex_);
        ++idle_;
        while (tasks_.empty() && !stopping_) changed_.Wait(&mutex_);
        --idle_;
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  const size_t threads_max_;
  const size_t stack_bytes_;
  const std::function<bool()> make_room_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<pthread_t> threads_;  // added to under mutex_, by the accepting thread alone
};

}  // namespace

httplib::TaskQueue* NewThreadsOnDemand(size_t threads_max, size_t stack_bytes,
                                       std::function<bool()> make_room) {
  return new ThreadsOnDemand(threads_max, stack_bytes, std::move(make_room));
}

bool TurnsAway() { return turns_away; }

}  // namespace nightshift
