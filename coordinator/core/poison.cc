#include "coordinator/core/poison.h"

#include <algorithm>
#include <limits>

namespace nightshift {
namespace {

// Workers lost over a request that is tried alone from then on.
constexpr int32_t kLostBeforeTrial = 2;

}  // namespace

Caution CautionFor(int32_t lost_workers, int32_t attempts_left) {
  if (lost_workers >= kLostBeforeTrial) return Caution::kAccused;
  if (attempts_left <= 2) return Caution::kLone;
  return lost_workers > 0 || attempts_left == 3 ? Caution::kSuspect : Caution::kOrdinary;
}

int64_t HeldMax(Caution caution) {
  switch (caution) {
    case Caution::kSuspect:
      return kSuspectsPerWorker;
    case Caution::kLone:
    case Caution::kAccused:
      return 1;
    case Caution::kOrdinary:
      break;
  }
  return std::numeric_limits<int64_t>::max();
}

bool IsConvicted(int32_t lost_before, bool alone, bool together) {
  if (!alone || lost_before < kLostBeforeTrial) return false;
  return !together || lost_before + 1 >= kLostMax;
}

int64_t TrialsMax(int64_t workers, bool other_work) {
  return other_work ? 1 : std::max<int64_t>(1, workers / 2);
}

}  // namespace nightshift
