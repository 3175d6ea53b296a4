#include "coordinator/core/batch_sizer.h"

#include <algorithm>
#include <cmath>

namespace nightshift {
namespace {

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
