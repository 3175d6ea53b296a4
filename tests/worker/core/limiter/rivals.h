// Limiters to compare with, each after its original.
#ifndef NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_RIVALS_H_
#define NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_RIVALS_H_

#include <memory>

#include "worker/core/limiter.h"

namespace nightshift {

// Additive increase, multiplicative decrease on refusals and on a mean latency over `timeout`; one
// decision a second.
std::unique_ptr<Limiter> NewAimdLimiter(absl::Duration timeout);
// TCP Vegas on the lowest latency seen (Netflix concurrency-limits, VegasLimit).
std::unique_ptr<Limiter> NewVegasLimiter();
// The ratio of a long and a short mean of latency (Netflix concurrency-limits, Gradient2Limit).
std::unique_ptr<Limiter> NewGradient2Limiter();

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_WORKER_CORE_LIMITER_RIVALS_H_
