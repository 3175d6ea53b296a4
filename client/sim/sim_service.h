// What the simulated server does with a call, whatever network brings it: checks, faults, quota,
// time, answer, log.
#ifndef NIGHTSHIFT_CLIENT_SIM_SIM_SERVICE_H_
#define NIGHTSHIFT_CLIENT_SIM_SIM_SERVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "client/sim/call_log.h"
#include "client/sim/fault_plan.h"
#include "client/sim/gpu_runner.h"
#include "client/sim/http_exchange.h"
#include "client/sim/quota.h"
#include "client/sim/render.h"
#include "client/sim/sim_call.h"
#include "client/sim/sim_options.h"
#include "client/sim/sim_producer.h"

namespace nightshift {

struct SimStats {
  int64_t calls = 0;  // POSTs to known endpoints
  int64_t in_flight = 0;
  int64_t in_flight_peak = 0;
  int64_t answered = 0;  // with a whole answer
  int64_t refused = 0;   // with an error
  int64_t dropped = 0;
  int64_t client_gone = 0;
  int64_t repeats = 0;  // calls whose key had been called before; counted only with a log,
                        // fault rates or directives that count
};

// Thread-safe: Handle() runs on the thread of each connection.
class SimService {
 public:
  // `options` are valid. `log` may be null. `clock` outlives this.
  SimService(const SimServerOptions& options, std::unique_ptr<CallLog> log, Clock& clock);
  ~SimService();

  // Answers, or drops the connection on purpose. Returns when that is done or the client has gone.
  void Handle(const HttpCall& call, HttpExchange& exchange);

  SimStats GetStats();
  // Writes out the log.
  void Flush();

 private:
  void AnswerUnknownPath(const HttpCall& call, HttpExchange& exchange) const;
  void HandleGet(const HttpCall& call, HttpExchange& exchange);
  void HandlePost(Endpoint endpoint, const HttpCall& call, HttpExchange& exchange);
  void Conduct(Endpoint endpoint, const HttpCall& call, SimCall& active);

  // The steps of Conduct. The first two return what to refuse the call with.
  std::optional<SimError> CheckAccess(const HttpCall& call) const;
  std::optional<SimError> CheckRequest(const SimRequest& request) const;
  void PlanFaults(SimCall& active);
  std::optional<SimError> TakeQuota(SimCall& active);
  // False when the client has gone.
  bool WaitBefore(SimCall& active);
  void End(const SimCall& active, absl::string_view how);
  void Refuse(SimCall& active, const SimError& error);
  int64_t CountCall(const SimRequest& request);
  std::string Metrics();
  std::string StatsJson();

  const SimServerOptions options_;
  const std::unique_ptr<CallLog> log_;
  Clock& clock_;
  const MonotonicTime started_;
  const std::unique_ptr<GpuRunner> gpu_;  // null with other profiles
  SimProducer producer_;

  Mutex mutex_;
  Quota quota_ ABSL_GUARDED_BY(mutex_);
  SimStats stats_ ABSL_GUARDED_BY(mutex_);
  // Calls by hash of the key; twelve bytes for each key.
  absl::flat_hash_map<uint64_t, uint32_t> calls_by_key_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_SIM_SERVICE_H_
