#include "coordinator/core/poison.h"

#include <algorithm>

namespace nightshift {
namespace {

// Workers lost over a request that is tried alone from then on.
constexpr int32_t kLostBeforeTrial = 2;

}  // namespace

Caution CautionFor(int32_t lost_workers) {
  if (lost_workers <= 0) return Caution::kOrdinary;
  return lost_workers < kLostBeforeTrial ? Caution::kSuspect : Caution::kAccused;
}

bool IsConvicted(int32_t lost_before, bool alone, bool together) {
  if (!alone || lost_before < kLostBeforeTrial) return false;
  return !together || lost_before + 1 >= kLostMax;
}

int64_t TrialsMax(int64_t workers, bool other_work) {
  return other_work ? 1 : std::max<int64_t>(1, workers / 2);
}

}  // namespace nightshift
