#include "tests/sim/trouble.h"

#include <cmath>
#include <functional>
#include <vector>

namespace nightshift::sim {

Trouble::Trouble(World& world) : world_(world), random_(world.environment().NewRandom()) { Next(); }

void Trouble::Next() {
  Environment& environment = world_.environment();
  // Gaps as of independent events.
  const absl::Duration gap = environment.plan.fault_gap * -std::log(1 - random_.Unit());
  environment.scheduler.After(gap, nullptr, [this] {
    if (!world_.environment().trouble) return;
    Happen();
    Next();
  });
}

void Trouble::Happen() {
  const Faults& on = world_.environment().plan.faults;
  const size_t worker = random_.Below(world_.workers());
  const absl::Duration lease_ttl = world_.environment().plan.lease_ttl;
  const auto up_to = [this](absl::Duration max) { return max * random_.Unit(); };
  std::vector<std::function<void()>> can;
  if (on.worker_crash) can.push_back([&] { world_.CrashWorker(worker); });
  if (on.worker_stop) can.push_back([&] { world_.StopWorker(worker, up_to(2.5 * lease_ttl)); });
  if (on.worker_drain) {
    can.push_back([&] { world_.DrainWorker(worker, up_to(absl::Seconds(30))); });
  }
  if (on.coordinator_crash) can.push_back([&] { world_.CrashCoordinator(); });
  if (on.coordinator_restart) can.push_back([&] { world_.RestartCoordinator(); });
  if (on.coordinator_stop) {
    can.push_back([&] { world_.StopCoordinator(up_to(1.5 * lease_ttl)); });
  }
  if (on.link_cut) can.push_back([&] { world_.CutLink(worker); });
  if (on.partition) can.push_back([&] { world_.Partition(worker, up_to(2 * lease_ttl)); });
  if (on.long_partition) {
    can.push_back([&] { world_.Partition(worker, up_to(absl::Minutes(10))); });
  }
  if (on.backend_down) {
    can.push_back(
        [&] { world_.TakeServerDown(random_.Below(world_.servers()), up_to(absl::Seconds(40))); });
  }
  if (on.power_cut) {
    can.push_back([&] {
      for (size_t place = 0; place < world_.workers(); ++place) world_.CrashWorker(place);
    });
  }
  if (on.clock_jumps) {
    can.push_back([&] { world_.JumpWallClock(absl::Hours(1) * (random_.Unit() - 0.5) * 4); });
  }
  if (!can.empty()) can[random_.Below(can.size())]();
}

}  // namespace nightshift::sim
