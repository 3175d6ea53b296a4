// Which call goes wrong, and how: a function of the request, the number of the call for it, and the
// seed, so that a run can be repeated and a retry can succeed. Pure.
#ifndef NIGHTSHIFT_CLIENT_SIM_FAULT_PLAN_H_
#define NIGHTSHIFT_CLIENT_SIM_FAULT_PLAN_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "client/sim/sim_options.h"

namespace nightshift {

enum class SimFault : uint8_t {
  kNone,
  kTooMany,
  kInternal,
  kDropBefore,
  kDropMid,
  kHang,
  kSlow,
};

// As the log has it: "", "429", "500", "drop_before", "drop_mid", "hang", "slow".
absl::string_view SimFaultName(SimFault fault);

// `call` counts the calls with this request, from 1.
SimFault PlanFault(const SimFaultRates& rates, uint64_t hash, int64_t call);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_FAULT_PLAN_H_
