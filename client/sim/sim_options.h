// What a simulated inference server is told. Every field has a flag; sim_flags.h has the table.
#ifndef NIGHTSHIFT_CLIENT_SIM_SIM_OPTIONS_H_
#define NIGHTSHIFT_CLIENT_SIM_SIM_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace nightshift {

enum class SimProfile : uint8_t {
  kInstant,   // answers at once
  kGpu,       // continuous batching as in vLLM: slots, a queue, KV tokens
  kCerebras,  // fast, behind requests and tokens per minute and per day
};

absl::string_view SimProfileName(SimProfile profile);

// Chances per call, each 0 to 1, together at most 1.
struct SimFaultRates {
  double too_many = 0;  // 429 with retry-after: 1
  double internal = 0;  // 500
  double drop = 0;      // the connection ends before or in the middle of the answer
  double hang = 0;      // no answer until the client gives up
  double slow = 0;      // the answer comes `slow_delay` late
  absl::Duration slow_delay = absl::Seconds(10);
};

struct SimGpuOptions {
  int slots = 48;                                         // requests decoded together
  absl::Duration step_base = absl::Milliseconds(8);       // one decode step with nothing in it
  absl::Duration step_per_call = absl::Microseconds(80);  // more for each request in the batch
  absl::Duration step_per_1k_kv = absl::Microseconds(20);
  absl::Duration prefill_per_1k = absl::Milliseconds(20);  // prompt tokens; stalls the whole batch
  int64_t kv_tokens = 120000;                              // of all running requests together
  int64_t queue_max = 100000;                              // beyond: 503
  double noise = 0;  // standard deviation of the logarithm of the speed, which wanders
};

struct SimCerebrasOptions {
  double tokens_per_second = 2000;  // decode speed of one request
  double prompt_tokens_per_second = 50000;
  int64_t requests_per_minute = 1000;  // 0 = no limit, here and below
  int64_t tokens_per_minute = 1000000;
  int64_t requests_per_day = 0;
  int64_t tokens_per_day = 0;
  int64_t in_flight_max = 0;           // beyond: 429 queue_exceeded
  int64_t default_max_tokens = 16384;  // reserved for a request that names no maximum
  bool refund_unused = false;          // give back what was reserved and not used
  bool limit_headers = true;           // tell limits and what is left of them
};

struct SimServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; port 0 picks a free one
  SimProfile profile = SimProfile::kInstant;
  uint64_t seed = 1;
  // One JSON line per call, appended. Empty: none.
  std::string log_path;
  // Models that are served; others are answered 404. Empty: any, and "sim" is listed.
  std::vector<std::string> models;
  // When set, calls must carry it as a bearer token.
  std::string api_key;
  // Obey <<{…}>> in prompts (README.md).
  bool directives = true;
  int64_t context_tokens = 131072;  // prompt and answer together; beyond: 400
  absl::Duration latency;           // before every answer, on top of what the profile takes
  absl::Duration loading;           // after the start: 503 to everything
  int64_t reply_tokens = 100;       // median
  double reply_spread = 0;          // sigma of the logarithm; 0 = all the same
  int connections_max = 2048;       // beyond: 503 and closed
  SimFaultRates faults;
  SimGpuOptions gpu;
  SimCerebrasOptions cerebras;
};

// InvalidArgument names the flag and the value.
absl::Status ValidateSimOptions(const SimServerOptions& options);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_SIM_OPTIONS_H_
