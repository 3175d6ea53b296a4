// An event loop on a thread of its own, and calls that wait for their outcome.
#ifndef NIGHTSHIFT_TESTS_WORKER_BACKENDS_LOOP_FIXTURE_H_
#define NIGHTSHIFT_TESTS_WORKER_BACKENDS_LOOP_FIXTURE_H_

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "worker/backends/http_backends.h"

namespace nightshift {

class LoopFixture {
 public:
  explicit LoopFixture(std::vector<BackendSpec> backends, Clock& clock = Clock::Real(),
                       int64_t response_bytes_max = int64_t{32} << 20) {
    absl::StatusOr<std::unique_ptr<EventLoop>> loop = EventLoop::Create(
        {.backends = std::move(backends), .response_bytes_max = response_bytes_max}, clock);
    NIGHTSHIFT_CHECK(loop.ok(), loop.status().ToString());
    loop_ = *std::move(loop);
    loop_->SetOnFinished([this](CallOutcome outcome) {
      MutexLock lock(&mutex_);
      const CallId id = outcome.id;
      outcomes_[id] = std::move(outcome);
      changed_.SignalAll();
    });
    thread_ = std::thread([this] { loop_->Run(); });
  }
  ~LoopFixture() {
    loop_->Stop();
    thread_.join();
  }

  EventLoop& loop() { return *loop_; }

  static BackendSpec Spec(const std::string& base_url) {
    BackendSpec spec;
    spec.name = "test";
    spec.kind = "openai";
    spec.base_url = base_url;
    return spec;
  }

  static CallRequest Chat(std::string body = R"({"model":"m"})") {
    CallRequest request;
    request.endpoint = Endpoint::kChatCompletions;
    request.body = std::move(body);
    return request;
  }

  CallId Start(CallRequest request) {
    request.id = ++last_id_;
    const CallId id = request.id;
    auto shared = std::make_shared<CallRequest>(std::move(request));
    loop_->Post([this, shared] { loop_->Start(std::move(*shared)); });
    return id;
  }
  CallOutcome Wait(CallId id) {
    MutexLock lock(&mutex_);
    while (outcomes_.count(id) == 0) changed_.Wait(&mutex_);
    return outcomes_[id];
  }
  CallOutcome Call(CallRequest request) { return Wait(Start(std::move(request))); }

  // Runs `task` on the loop's thread and waits for it.
  void OnLoop(std::function<void()> task) {
    bool done = false;
    loop_->Post([&] {
      task();
      MutexLock lock(&mutex_);
      done = true;
      changed_.SignalAll();
    });
    MutexLock lock(&mutex_);
    while (!done) changed_.Wait(&mutex_);
  }

  int outcomes() {
    MutexLock lock(&mutex_);
    return static_cast<int>(outcomes_.size());
  }

 private:
  std::unique_ptr<EventLoop> loop_;
  CallId last_id_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::map<CallId, CallOutcome> outcomes_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_WORKER_BACKENDS_LOOP_FIXTURE_H_
