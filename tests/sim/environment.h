// What all parts of one simulated world share.
#ifndef NIGHTSHIFT_TESTS_SIM_ENVIRONMENT_H_
#define NIGHTSHIFT_TESTS_SIM_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/random.h"
#include "tests/sim/network.h"
#include "tests/sim/plan.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/witness.h"

namespace nightshift::sim {

struct Environment {
  const Plan& plan;
  Scheduler& scheduler;
  Witness& witness;
  NetworkWeather weather;
  bool trouble = true;  // false once the faults have stopped
  std::function<void(const std::string&)> trace;

  // A generator for one more part of the world.
  Random NewRandom() { return PartRandom(plan.seed, 100 + ++parts); }
  // Whether a kind of trouble may happen now.
  bool Now(bool Faults::*fault) const { return trouble && plan.faults.*fault; }

  uint64_t parts = 0;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_ENVIRONMENT_H_
