// Takes the time that an answer takes, and sends it: whole or as a stream, in the pace of the
// profile.
#ifndef NIGHTSHIFT_CLIENT_SIM_SIM_PRODUCER_H_
#define NIGHTSHIFT_CLIENT_SIM_SIM_PRODUCER_H_

#include <cstdint>

#include "absl/time/time.h"
#include "base/clock.h"
#include "client/sim/gpu_runner.h"
#include "client/sim/render.h"
#include "client/sim/sim_call.h"
#include "client/sim/sim_options.h"

namespace nightshift {

// Thread-safe.
class SimProducer {
 public:
  // `gpu` is null with other profiles. All outlive this.
  SimProducer(const SimServerOptions& options, GpuRunner* gpu, Clock& clock);

  // Returns when the answer is sent, cut off on purpose, or the client has gone; `active` says
  // which.
  void Produce(SimCall& active);

 private:
  void ProduceOnGpu(SimCall& active);
  void ProduceStream(SimCall& active, const SimTimeInfo& time);
  void SendWhole(SimCall& active, const SimTimeInfo* time);
  // The next three return false when the stream is over before its end; `active` says how.
  bool StreamTokens(SimCall& active, const SimStream& stream, absl::Duration per_token);
  // In the pace of the engine.
  bool StreamGpuTokens(SimCall& active, const SimStream& stream, uint64_t call);
  bool SendDelta(SimCall& active, const SimStream& stream, int64_t begin, int64_t end);

  const SimServerOptions& options_;
  GpuRunner* const gpu_;
  Clock& clock_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_SIM_PRODUCER_H_
