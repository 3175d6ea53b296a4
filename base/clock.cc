#include "base/clock.h"

#include <ctime>

#include "absl/time/clock.h"

namespace nightshift {
namespace {

class RealClock final : public Clock {
 public:
  MonotonicTime Now() const override {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return MonotonicTime{int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec};
  }
  absl::Time WallNow() const override { return absl::Now(); }
};

}  // namespace

Clock& Clock::Real() {
  static RealClock* const clock = new RealClock;
  return *clock;
}

MonotonicTime FakeClock::Now() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return now_;
}

absl::Time FakeClock::WallNow() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return wall_;
}

void FakeClock::Advance(absl::Duration d) {
  std::lock_guard<std::mutex> lock(mutex_);
  now_ = now_ + d;
  wall_ += d;
}

void FakeClock::JumpWall(absl::Duration d) {
  std::lock_guard<std::mutex> lock(mutex_);
  wall_ += d;
}

}  // namespace nightshift
