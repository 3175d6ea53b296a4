#include "client/sim/gpu_runner.h"

#include <sys/eventfd.h>

#include "base/thread_name.h"

namespace nightshift {

GpuRunner::GpuRunner(const SimGpuOptions& options, uint64_t seed, Clock& clock)
    : clock_(clock), engine_(options, seed), thread_([this] { Run(); }) {}

GpuRunner::~GpuRunner() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

std::optional<uint64_t> GpuRunner::Submit(int64_t prompt_tokens, int64_t output_tokens,
                                          bool every_token, int event_fd) {
  MutexLock lock(&mutex_);
  const uint64_t call = next_call_++;
  const bool idle = engine_.NextEvent().infinite();
  if (!engine_.Submit(call, prompt_tokens, output_tokens, clock_.Now())) return std::nullopt;
  calls_[call] = {{}, every_token, event_fd};
  prompt_tokens_ += prompt_tokens;
  if (idle) changed_.Signal();
  return call;
}

GpuRunner::Progress GpuRunner::Get(uint64_t call) {
  MutexLock lock(&mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? Progress{} : found->second.progress;
}

void GpuRunner::Remove(uint64_t call) {
  MutexLock lock(&mutex_);
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  if (!found->second.progress.finished) engine_.Cancel(call);
  calls_.erase(found);
}

GpuRunner::Gauges GpuRunner::GetGauges() {
  MutexLock lock(&mutex_);
  return {engine_.running(),     engine_.waiting(), engine_.kv_tokens(),
          engine_.preemptions(), prompt_tokens_,    engine_.generated_tokens()};
}

void GpuRunner::Run() {
  NameThisThread("ns-sim-engine");
  std::vector<GpuEngine::Event> events;
  MutexLock lock(&mutex_);
  while (!stopping_) {
    const MonotonicTime next = engine_.NextEvent();
    if (next.infinite()) {
      changed_.Wait(&mutex_);
      continue;
    }
    const MonotonicTime now = clock_.Now();
    if (next > now) {
      changed_.WaitFor(&mutex_, next - now);
      continue;
    }
    events.clear();
    engine_.Advance(now, events);
    Deliver(events);
  }
}

// Under the mutex, so that Remove() can promise that no write follows it; writing to an eventfd
// does not wait.
void GpuRunner::Deliver(const std::vector<GpuEngine::Event>& events) {
  for (const GpuEngine::Event& event : events) {
    const auto found = calls_.find(event.id);
    if (found == calls_.end()) continue;
    Call& call = found->second;
    call.progress = {event.generated, event.finished};
    if (call.every_token || event.finished) eventfd_write(call.event_fd, 1);
  }
}

}  // namespace nightshift
