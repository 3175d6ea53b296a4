#include "client/sim/gpu_engine.h"

#include <algorithm>
#include <cmath>

namespace nightshift {
namespace {

// How much of the wandering speed one step keeps: it drifts over some hundred steps.
constexpr double kSpeedMemory = 0.99;

}  // namespace

GpuEngine::GpuEngine(const SimGpuOptions& options, uint64_t seed)
    : options_(options), random_(seed) {}

bool GpuEngine::Submit(uint64_t id, int64_t prompt_tokens, int64_t output_tokens,
                       MonotonicTime now) {
  // What can start with the next step does not count as queued.
  const int64_t free_slots = std::max<int64_t>(0, options_.slots - running());
  if (waiting() >= options_.queue_max + free_slots) return false;
  waiting_.push_back({id, prompt_tokens, std::max<int64_t>(1, output_tokens)});
  if (step_end_.infinite()) BeginStep(now);
  return true;
}

void GpuEngine::Cancel(uint64_t id) {
  const auto is_it = [id](const Call& call) { return call.id == id; };
  if (const auto at = std::find_if(waiting_.begin(), waiting_.end(), is_it); at != waiting_.end()) {
    waiting_.erase(at);
    return;
  }
  if (const auto at = std::find_if(running_.begin(), running_.end(), is_it); at != running_.end()) {
    // The step that runs goes on as long as it would have.
    kv_tokens_ -= at->kv();
    running_.erase(at);
  }
}

void GpuEngine::Advance(MonotonicTime now, std::vector<Event>& events) {
  while (step_end_ <= now && !step_end_.infinite()) EndStep(events);
}

void GpuEngine::EndStep(std::vector<Event>& events) {
  const MonotonicTime at = step_end_;
  for (Call& call : running_) {
    ++call.generated;
    const bool finished = call.generated >= call.output_tokens;
    kv_tokens_ += finished ? 1 - call.kv() : 1;
    events.push_back({call.id, call.generated, finished, at});
  }
  generated_tokens_ += running();
  running_.erase(std::remove_if(running_.begin(), running_.end(),
                                [](const Call& c) { return c.generated >= c.output_tokens; }),
                 running_.end());
  BeginStep(at);
}

void GpuEngine::BeginStep(MonotonicTime start) {
  PreemptUntilItFits();
  const int64_t prefilled = Admit();
  if (running_.empty()) {
    step_end_ = MonotonicTime::Infinite();
    return;
  }
  const absl::Duration step = options_.step_base + options_.step_per_call * running() +
                              options_.step_per_1k_kv * (static_cast<double>(kv_tokens_) / 1000) +
                              options_.prefill_per_1k * (static_cast<double>(prefilled) / 1000);
  step_end_ = start + std::max(step * (1 / WanderingSpeed()), absl::Nanoseconds(1));
}

void GpuEngine::PreemptUntilItFits() {
  while (running() > 1 && kv_tokens_ + running() > options_.kv_tokens) {
    ++preemptions_;
    kv_tokens_ -= running_.back().kv();
    waiting_.push_front(running_.back());
    running_.pop_back();
  }
}

int64_t GpuEngine::Admit() {
  int64_t prefilled = 0;
  while (!waiting_.empty() && running() < options_.slots) {
    const Call& call = waiting_.front();
    // Room for one token of each, or the newcomer would be put out again at once.
    const bool fits = kv_tokens_ + call.kv() + running() + 1 <= options_.kv_tokens;
    if (!fits && !running_.empty()) break;
    prefilled += call.kv();
    kv_tokens_ += call.kv();
    running_.push_back(call);
    waiting_.pop_front();
  }
  return prefilled;
}

double GpuEngine::WanderingSpeed() {
  if (options_.noise <= 0) return 1;
  log_speed_ = kSpeedMemory * log_speed_ +
               options_.noise * std::sqrt(1 - kSpeedMemory * kSpeedMemory) * random_.Gaussian();
  return std::exp(log_speed_);
}

}  // namespace nightshift
