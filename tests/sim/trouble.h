// Makes things go wrong, as the plan says, until the trouble is over.
#ifndef NIGHTSHIFT_TESTS_SIM_TROUBLE_H_
#define NIGHTSHIFT_TESTS_SIM_TROUBLE_H_

#include "base/random.h"
#include "tests/sim/world.h"

namespace nightshift::sim {

class Trouble {
 public:
  explicit Trouble(World& world);

 private:
  void Next();
  void Happen();

  World& world_;
  Random random_;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_TROUBLE_H_
