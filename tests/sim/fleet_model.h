// A fleet without faults, on a clock that jumps: the real dispatcher and real runners over backends
// whose speed is known exactly. For questions of time: how long a job takes beside the lower bound,
// who gets how much, when something begins.
//
// A backend has slots; a call takes its request's work divided by the backend's speed. The limit of
// calls in flight is pinned to the slots, so that what is measured is the coordinator's part.
// Messages take 10 ms each way, commits happen every 2 ms. Everything follows from the seed.
#ifndef NIGHTSHIFT_TESTS_SIM_FLEET_MODEL_H_
#define NIGHTSHIFT_TESTS_SIM_FLEET_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "coordinator/core/dispatcher.h"
#include "tests/coordinator/core/disk.h"
#include "worker/core/runner.h"

namespace nightshift::sim {

// One worker with one backend.
struct FleetBackend {
  int slots = 1;
  double speed = 1;
  // From then on (seconds) it is `slower` times slower, calls under way too.
  double slow_from = 1e18;
  double slower = 1;
};

struct FleetJob {
  int64_t requests = 1;
  double work_mean = 4;  // seconds of a call at speed 1
  double work_cv = 1;    // log-normal
  // So many take `straggle` times as long when they are called for the first time.
  double straggler_share = 0;
  double straggle = 1;
  double submit_at = 0;
  v1::JobOptions options;
};

class Fleet {
 public:
  // What became of a job; times in seconds, -1: not yet.
  struct Outcome {
    double first_call = -1;
    double ended = -1;
    double slot_seconds = 0;  // of its calls so far
    int64_t calls = 0;
    v1::JobStatus status;
  };

  Fleet(std::vector<FleetBackend> backends, std::vector<FleetJob> jobs, uint64_t seed,
        bool speculates = true);
  ~Fleet();

  // Until all jobs have ended, or `seconds` have passed.
  void Run(double seconds = 1e6);

  const Outcome& outcome(size_t job) const { return outcomes_[job]; }
  double now() const { return Seconds(clock_.Now()); }
  // The least time in which the work of all jobs, straggling left aside, could be done.
  double LowerBound() const;
  Dispatcher& dispatcher() { return *dispatcher_; }

 private:
  class Node;
  struct Event {
    int64_t at;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  static double Seconds(MonotonicTime time);
  void After(absl::Duration delay, std::function<void()> what);
  void EverySecond();
  void WakeGrants();
  void PlanAndSend();
  void WakeCommit();
  void CommitArrived();
  void Send(const Outgoing& outgoing);
  void SendLease(const Grant& grant);
  // Books the time since the last change of what is called for.
  void Book();
  double WorkOf(const RequestId& id);

  FakeClock clock_;
  Random random_;
  Disk disk_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<FleetJob> jobs_;
  std::vector<Outcome> outcomes_;
  std::vector<std::vector<double>> work_;  // by job and request
  std::vector<int64_t> calling_;           // calls under way, by job
  std::set<RequestId> stragglers_;         // not called for yet
  std::vector<FleetBackend> backends_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::priority_queue<Event> events_;
  uint64_t last_event_ = 0;
  MonotonicTime booked_;
  std::vector<ResultEvent> arrived_;
  bool commit_waits_ = false;
  bool grants_wait_ = false;
  MonotonicTime grants_due_ = MonotonicTime::Infinite();
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_FLEET_MODEL_H_
