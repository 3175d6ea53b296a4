// How many calls may be in flight at one backend. One instance per backend; pure: it is told what
// happens and asked for the number.
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

// Every call that started ends in exactly one of OnFinish, OnReject and OnDrop. `now` never goes
// backwards.
class Limiter {
 public:
  virtual ~Limiter() = default;
  virtual void OnStart(MonotonicTime now) = 0;
  // A call that was answered, whatever the answer says about the request itself.
  virtual void OnFinish(const FinishSample& sample, MonotonicTime now) = 0;
  // The backend said "too much" to a call that began at `started`: 429 that is no quota, 503,
  // refused connection, timeout. `in_flight`: after this one ended.
  virtual void OnReject(MonotonicTime started, int in_flight, MonotonicTime now) = 0;
  // A call that began at `started` ended in a way that tells nothing about the backend's room:
  // aborted, broken off, refused for another reason.
  virtual void OnDrop(MonotonicTime started, MonotonicTime now) = 0;
  // At least 1. May change with each of the above, and only with them.
  virtual int limit() const = 0;
  // The level that has proved itself, worth beginning with the next time; 0: none has.
  virtual int settled() const { return 0; }
  // Why the limit is what it is, in words for a person.
  virtual std::string Explain() const = 0;
};

inline constexpr int kFirstLimit = 32;

// Stays at `limit`.
std::unique_ptr<Limiter> NewFixedLimiter(int limit);

// Seeks throughput, between 1 and 1024: worker/core/limiter/fill_limiter.h. `first` is where it
// begins: the level of an earlier run where one is known.
std::unique_ptr<Limiter> NewFillLimiter(int first = kFirstLimit);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_LIMITER_H_
