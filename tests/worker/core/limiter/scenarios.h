// The servers on which limiters are compared, and what the best fixed level makes of each.
#ifndef NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_SCENARIOS_H_
#define NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_SCENARIOS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/worker/core/limiter/closed_loop.h"
#include "tests/worker/core/limiter/server_model.h"
#include "worker/core/limiter.h"

namespace nightshift {

struct Scenario {
  std::string name;
  ServerSpec server;
  LoadSpec load;
  LoadSpec other_load;     // of a share of the requests
  double other_share = 0;  // 0 to 1

  Load MakeLoad(uint64_t seed) const { return Load(seed, load, other_load, other_share); }
};

// Eight kinds of server, each in its own regime:
//   A  a small model on a big GPU: 256 slots, throughput grows up to the last of them
//   B  a large model: the KV cache is full at about 110 requests, long before the slots are
//   C  eight slots
//   D  long prompts, short answers: working off prompts is all it does
//   E  long answers: a call takes a minute
//   F  a CPU: throughput hardly depends on the level
//   G  more slots than calls
//   H  like B, but what the full cache throws out is dear to work off again: too many in flight
//      cost half of the throughput
std::vector<Scenario> NamedScenarios(double noise);
Scenario Named(char letter, double noise);

// A server and a load drawn from wide ranges; two in five have requests of two kinds.
Scenario RandomScenario(uint64_t seed, double noise);

LoopResult RunScenario(const Scenario& scenario, Limiter& limiter, uint64_t seed, double seconds);

struct BestFixed {
  int level = 0;
  double per_second = 0;
};
// The best of a sweep of fixed levels, each from the first third of `seconds` on.
BestFixed Sweep(const Scenario& scenario, double seconds);

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_SCENARIOS_H_
