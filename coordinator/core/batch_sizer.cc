#include "coordinator/core/batch_sizer.h"

#include <algorithm>
#include <cmath>

namespace nightshift {
namespace {

// Recalling and sending anew costs a few round trips.
constexpr double kRecallGain = 1.25;
constexpr double kRecallSeconds = 0.2;

int64_t Buffer(const BackendLoad& load) {
  if (load.rate <= 0) return std::min(load.limit, kBufferMax);
  const double wanted = std::ceil(kBufferSeconds * load.rate);
  return static_cast<int64_t>(std::clamp(wanted, 1.0, static_cast<double>(kBufferMax)));
}

int64_t LowWater(const BackendLoad& load) { return load.limit + (Buffer(load) + 1) / 2; }

int64_t HeldMax(const BackendLoad& load, double fair) {
  const auto limit = static_cast<double>(load.limit);
  // Far above any target: keeps the cast below in range.
  fair = std::min(fair, 1e15);
  if (fair <= limit) return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(fair)));
  return load.limit + static_cast<int64_t>((fair - limit) / 2);
}

}  // namespace

double SpeedOf(int64_t limit, int64_t in_flight, int64_t buffered, double rate, double latency) {
  const bool paced = in_flight < limit && buffered > 0;
  if (latency <= 0 || (paced && rate > 0)) return rate;
  return static_cast<double>(limit) / latency;
}

bool PastCutOff(double latency, double spread, double seconds, double other_latency) {
  return latency * spread > seconds + other_latency;
}

int64_t RequestsToRecall(int64_t held, int64_t in_flight, double speed, double done_in) {
  if (speed <= 0 || held <= in_flight) return 0;
  if (static_cast<double>(held) / speed < kRecallGain * done_in + kRecallSeconds) return 0;
  const double keeps = std::min(1e15, speed * done_in);
  return held - std::max(in_flight, static_cast<int64_t>(std::ceil(keeps)));
}

int64_t TargetHeld(const BackendLoad& load) {
  return load.limit <= 0 ? 0 : load.limit + Buffer(load);
}

bool WantsMore(const BackendLoad& load) { return load.limit > 0 && load.held < LowWater(load); }

int64_t RequestsToGrant(const BackendLoad& load, double fair) {
  if (!WantsMore(load)) return 0;
  const int64_t room = std::min(TargetHeld(load), HeldMax(load, fair)) - load.held;
  return std::clamp<int64_t>(room, 0, kGrantMax);
}

}  // namespace nightshift
