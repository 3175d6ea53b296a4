// Time as an argument. Code that waits, expires or measures takes a Clock& and never asks the
// system itself, so that tests and the simulation decide what time it is.
//
// Two kinds of time that cannot be mixed up: MonotonicTime measures how long something took or when
// it is due (never jumps; means nothing in another process), absl::Time is the wall clock for
// people and records (may jump; never used to decide that something has expired).
#ifndef NIGHTSHIFT_BASE_CLOCK_H_
#define NIGHTSHIFT_BASE_CLOCK_H_

#include <cstdint>
#include <mutex>

#include "absl/time/time.h"

namespace nightshift {

// A point on the monotonic clock of this process. The origin is unspecified.
struct MonotonicTime {
  int64_t nanos = 0;

  static constexpr MonotonicTime Infinite() { return MonotonicTime{INT64_MAX}; }
  constexpr bool infinite() const { return nanos == INT64_MAX; }

  friend constexpr auto operator<=>(MonotonicTime, MonotonicTime) = default;
};

inline MonotonicTime operator+(MonotonicTime t, absl::Duration d) {
  if (t.infinite() || d == absl::InfiniteDuration()) return MonotonicTime::Infinite();
  int64_t sum = 0;
  const int64_t nanos = absl::ToInt64Nanoseconds(d);  // at the ends where it does not fit
  if (__builtin_add_overflow(t.nanos, nanos, &sum)) {
    return nanos > 0 ? MonotonicTime::Infinite() : MonotonicTime{INT64_MIN};
  }
  return MonotonicTime{sum};
}
inline MonotonicTime operator-(MonotonicTime t, absl::Duration d) { return t + -d; }
inline absl::Duration operator-(MonotonicTime a, MonotonicTime b) {
  return absl::Nanoseconds(a.nanos - b.nanos);
}

// Thread-safe. Outlives everything that holds a reference to it.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime Now() const = 0;
  virtual absl::Time WallNow() const = 0;

  // The clock of this machine; never destroyed.
  static Clock& Real();
};

// A clock that stands still until it is told to move. Thread-safe.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(absl::Time wall = absl::FromUnixSeconds(1790000000)) : wall_(wall) {}

  MonotonicTime Now() const override;
  absl::Time WallNow() const override;

  // Moves both clocks forward by `d` (not negative).
  void Advance(absl::Duration d);
  // Moves only the wall clock, either way, as an administrator or NTP would.
  void JumpWall(absl::Duration d);

 private:
  mutable std::mutex mutex_;
  MonotonicTime now_{1'000'000'000};
  absl::Time wall_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_CLOCK_H_
