// One world: a coordinator, workers, servers, clients and a disk, from the first moment through the
// trouble of its plan to the peace after it, in which everything must end.
#ifndef NIGHTSHIFT_TESTS_SIM_WORLD_H_
#define NIGHTSHIFT_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/sim/backend_model.h"
#include "tests/sim/environment.h"
#include "tests/sim/plan.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_store.h"
#include "tests/sim/sim_worker.h"
#include "tests/sim/witness.h"

namespace nightshift::sim {

struct WorldReport {
  // Empty: everything held. Otherwise the first thing that did not, and when.
  std::string violation;
  // Of everything that was traced: equal for equal seeds.
  uint64_t fingerprint = 0;
  int64_t events = 0;
  int64_t commits = 0;
  int64_t outcomes = 0;
  int64_t calls = 0;
  int64_t copies = 0;    // second calls on purpose
  int64_t recalled = 0;  // requests handed back for others
  int kills_max = 0;     // workers that one request has killed in one run of its job
  int coordinator_runs = 0;
  int worker_runs = 0;
  absl::Duration duration;              // simulated
  std::vector<std::string> last_lines;  // of the trace
};

class World {
 public:
  // `print` every trace line to standard error, as they come.
  World(const Plan& plan, bool print);
  ~World();

  WorldReport Run();

  // --- what can go wrong; see trouble.h
  // ------------------------------------------------------------
  void CrashWorker(size_t place);
  void BuryWorker(size_t place);  // it has ended by itself
  void StopWorker(size_t place, absl::Duration time);
  void DrainWorker(size_t place, absl::Duration grace);
  void CutLink(size_t place);
  void Partition(size_t place, absl::Duration time);
  void CrashCoordinator();
  void RestartCoordinator();
  void StopCoordinator(absl::Duration time);
  void TakeServerDown(size_t server, absl::Duration time);
  void JumpWallClock(absl::Duration by);

  size_t workers() const { return workers_.size(); }
  size_t servers() const { return servers_.size(); }
  Environment& environment() { return environment_; }

 private:
  void Trace(const std::string& line);
  void StartCoordinator();
  void StartWorker(size_t place, bool same_name);
  void ReplaceWorker(size_t place, absl::Duration after);
  void Calm();
  void CheckSometimes();
  void RunUntil(MonotonicTime end);
  bool Settled();
  void CheckEnd();
  void CheckOutput();
  void CheckRequests();
  void CheckAfterRestart();

  const Plan plan_;
  const bool print_;
  Scheduler scheduler_;
  Witness witness_;
  Environment environment_;
  Random random_;
  SimDisk disk_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::unique_ptr<SimCoordinator> coordinator_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  std::unique_ptr<SimClient> client_;
  // Dead ones: something may still point at them.
  std::vector<std::unique_ptr<SimCoordinator>> old_coordinators_;
  std::vector<std::unique_ptr<SimWorker>> old_workers_;
  bool coordinator_greeted_ = false;  // the present one has been seen to serve

  WorldReport report_;
  std::deque<std::string> lines_;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_WORLD_H_
