// Runs a GpuEngine in real time: one thread that sleeps until the step that runs now is over.
#ifndef NIGHTSHIFT_CLIENT_SIM_GPU_RUNNER_H_
#define NIGHTSHIFT_CLIENT_SIM_GPU_RUNNER_H_

#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "client/sim/gpu_engine.h"

namespace nightshift {

// Thread-safe. Callers wait on an eventfd of their own, beside their connection, so that a call
// whose client has gone leaves the engine at once.
class GpuRunner {
 public:
  GpuRunner(const SimGpuOptions& options, uint64_t seed, Clock& clock);
  ~GpuRunner();

  // Returns the number of the call, or nullopt when the queue is full. `event_fd` is written to
  // when the call has finished, and with `every_token` after each of its steps; it must stay open
  // until Remove().
  std::optional<uint64_t> Submit(int64_t prompt_tokens, int64_t output_tokens, bool every_token,
                                 int event_fd);

  struct Progress {
    int64_t generated = 0;
    bool finished = false;
  };
  Progress Get(uint64_t call);

  // Takes the call out of the engine if it is still there, and forgets it. After this, nothing
  // writes to its eventfd.
  void Remove(uint64_t call);

  struct Gauges {
    int64_t running;
    int64_t waiting;
    int64_t kv_tokens;
    int64_t preemptions;
    int64_t prompt_tokens;  // of all calls so far
    int64_t generated_tokens;
  };
  Gauges GetGauges();

 private:
  struct Call {
    Progress progress;
    bool every_token;
    int event_fd;
  };

  void Run();
  void Deliver(const std::vector<GpuEngine::Event>& events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  GpuEngine engine_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mutex_);
  int64_t prompt_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_call_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_GPU_RUNNER_H_
