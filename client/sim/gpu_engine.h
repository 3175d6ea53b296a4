// A model of an inference server with continuous batching, as vLLM and its like: all requests in
// the batch advance by one token per step, and a step takes
//
//   base + per_call * running + per_1k_kv * KV tokens / 1000 + per_1k * prefilled tokens / 1000
//
// Requests wait first come, first served for a slot and for room in the KV cache. When the cache
// overflows, the youngest running request gives its room up, goes back to the head of the queue,
// and computes prompt and answer so far anew when it returns. So throughput rises with the calls in
// flight up to a knee (the slots, or the cache), and beyond it only the queue grows, or worse.
//
// Pure: no threads, and time is an argument that never goes back. Not modelled: prefix caching,
// chunked prefill.
#ifndef NIGHTSHIFT_CLIENT_SIM_GPU_ENGINE_H_
#define NIGHTSHIFT_CLIENT_SIM_GPU_ENGINE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "client/sim/sim_options.h"

namespace nightshift {

// Not thread-safe.
class GpuEngine {
 public:
  GpuEngine(const SimGpuOptions& options, uint64_t seed);

  // Queues a request. False when the queue is full. A request that can never fit the cache runs
  // alone, as far as the cache is concerned; refuse it before.
  // `id` is the caller's, unique among those in the engine; `output_tokens` at least 1.
  bool Submit(uint64_t id, int64_t prompt_tokens, int64_t output_tokens, MonotonicTime now);

  // Takes a request out wherever it is (its client is gone). Unknown ids are ignored.
  void Cancel(uint64_t id);

  // When the step that runs now ends; Infinite when nothing runs.
  MonotonicTime NextEvent() const { return step_end_; }

  struct Event {
    uint64_t id;
    int64_t generated;  // tokens so far
    bool finished;
    MonotonicTime at;
  };
  // Carries out all steps that end at or before `now`, and appends what happened: one event per
  // running request and step.
  void Advance(MonotonicTime now, std::vector<Event>& events);

  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t kv_tokens() const { return kv_tokens_; }
  int64_t preemptions() const { return preemptions_; }
  int64_t generated_tokens() const { return generated_tokens_; }

 private:
  struct Call {
    uint64_t id;
    int64_t prompt_tokens;
    int64_t output_tokens;
    int64_t generated = 0;
    int64_t kv() const { return prompt_tokens + generated; }
  };

  void BeginStep(MonotonicTime start);
  void EndStep(std::vector<Event>& events);
  // Returns the tokens to prefill.
  int64_t Admit();
  void PreemptUntilItFits();
  double WanderingSpeed();

  const SimGpuOptions options_;
  Random random_;
  double log_speed_ = 0;
  std::deque<Call> waiting_;
  std::vector<Call> running_;  // oldest admission first
  int64_t kv_tokens_ = 0;
  int64_t preemptions_ = 0;
  int64_t generated_tokens_ = 0;
  MonotonicTime step_end_ = MonotonicTime::Infinite();
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_GPU_ENGINE_H_
