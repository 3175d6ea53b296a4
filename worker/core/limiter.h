// How many calls may be in flight at one backend. One instance per backend and model; pure: it is
// told what happens and asked for the number.
//
// Not thread-safe: it lives on the worker's loop thread.
#ifndef NIGHTSHIFT_WORKER_CORE_LIMITER_H_
#define NIGHTSHIFT_WORKER_CORE_LIMITER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"

namespace nightshift {

struct FinishSample {
  absl::Duration latency;
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int in_flight = 0;     // after this one ended
  bool starved = false;  // there was nothing to put in the free slots
};

class Limiter {
 public:
  virtual ~Limiter() = default;
  virtual void OnStart(MonotonicTime now) = 0;
  // A call that was answered, whatever the answer says about the request itself.
  virtual void OnFinish(const FinishSample& sample, MonotonicTime now) = 0;
  // The backend said "too much": 429 that is no quota, 503, refused connection, timeout.
  virtual void OnReject(int in_flight, MonotonicTime now) = 0;
  // At least 1.
  virtual int limit() const = 0;
  // Why the limit is what it is, for `nightshift workers`.
  virtual std::string Explain() const = 0;
};

// Stays at `limit`.
std::unique_ptr<Limiter> NewFixedLimiter(int limit);

// Additive increase, multiplicative decrease on refusals: starts at 32, adds one per window (as
// many answers as the limit) in which nothing was refused and the limit was in use, halves on the
// first refusal of a window; 1 to 1024.
std::unique_ptr<Limiter> NewAimdLimiter();

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_LIMITER_H_
