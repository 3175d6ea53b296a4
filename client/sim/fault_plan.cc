#include "client/sim/fault_plan.h"

#include "base/random.h"

namespace nightshift {

absl::string_view SimFaultName(SimFault fault) {
  switch (fault) {
    case SimFault::kNone:
      return "";
    case SimFault::kTooMany:
      return "429";
    case SimFault::kInternal:
      return "500";
    case SimFault::kDropBefore:
      return "drop_before";
    case SimFault::kDropMid:
      return "drop_mid";
    case SimFault::kHang:
      return "hang";
    case SimFault::kSlow:
      return "slow";
  }
  return "";
}

SimFault PlanFault(const SimFaultRates& rates, uint64_t hash, int64_t call) {
  Random random(hash ^ (static_cast<uint64_t>(call) * 0x9e3779b97f4a7c15ULL));
  double draw = random.Unit();
  const auto falls_in = [&draw](double rate) {
    if (draw < rate) return true;
    draw -= rate;
    return false;
  };
  if (falls_in(rates.too_many)) return SimFault::kTooMany;
  if (falls_in(rates.internal)) return SimFault::kInternal;
  if (falls_in(rates.drop)) return random.Chance(0.5) ? SimFault::kDropBefore : SimFault::kDropMid;
  if (falls_in(rates.hang)) return SimFault::kHang;
  if (falls_in(rates.slow)) return SimFault::kSlow;
  return SimFault::kNone;
}

}  // namespace nightshift
