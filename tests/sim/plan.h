// What one seed is about: how large the world is, which kinds of trouble there are in it, and how
// the product's knobs are set. Everything else that is decided by chance follows from the seed too.
#ifndef NIGHTSHIFT_TESTS_SIM_PLAN_H_
#define NIGHTSHIFT_TESTS_SIM_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "base/random.h"

namespace nightshift::sim {

// Kinds of trouble. A seed has about half of them, some seeds none: a fault that always comes with
// twenty others hides what it does alone.
struct Faults {
  bool worker_crash = false;
  bool worker_stop = false;  // SIGSTOP for longer than a lease lives, then it goes on
  bool worker_drain = false;
  bool coordinator_crash = false;
  bool coordinator_restart = false;  // in order
  bool coordinator_stop = false;
  bool link_cut = false;
  bool partition = false;
  bool slow_network = false;
  bool small_streams = false;  // a stream takes little before it is full
  bool slow_disk = false;
  bool disk_error = false;
  bool disk_full = false;
  bool backend_errors = false;    // 400, 408, 500, 503, half answers
  bool backend_refusals = false;  // 429 in its kinds, 401
  bool backend_hangs = false;
  bool backend_cuts = false;
  bool backend_down = false;
  bool poison = false;    // requests that kill the worker that calls a backend with them, always
  bool commands = false;  // pause, resume, cancel, retry, delete
  bool clients_vanish = false;
  bool deadlines = false;
  bool limits = false;  // budgets, error rates
  bool bad_lines = false;
  bool clock_jumps = false;
  bool duplicated_messages = false;  // some arrive twice
  bool reordered_messages = false;   // some arrive late, others pass them
  bool long_partition = false;       // some cuts last for many leases' lives
  bool power_cut = false;            // all workers at once
};

// Ways to break the world on purpose, to see that it is noticed.
enum class Sabotage {
  kNone,
  kForgetfulDisk,         // a crash loses commits that were confirmed
  kTwiceRecorded,         // an outcome is written a second time
  kDeafWorker,            // revocations do not reach the worker's runner
  kLostMessage,           // a lease vanishes on a stream that stays up
  kEarlyAcknowledgement,  // results are acknowledged when they arrive
  kSleepwalker,           // a stopped worker does not notice that time has passed
  kChangedAnswer,         // the body of an answer is not the backend's
  kUncountedDeath,        // a worker that a request kills first says that it is draining
};

struct Plan {
  uint64_t seed = 0;
  Faults faults;
  Sabotage sabotage = Sabotage::kNone;

  int workers = 1;
  int backends_per_worker = 1;
  int jobs = 1;
  int requests_max = 10;  // per job
  // Only the coordinator dies, and everybody hears of it at once: then no call is made twice.
  bool frugal = false;
  // For how long leases of a stopped job may still be under way inside the coordinator.
  absl::Duration stop_patience;
  absl::Duration trouble;    // for how long things go wrong
  absl::Duration fault_gap;  // between two events like a crash, in the mean

  absl::Duration lease_ttl;
  absl::Duration reclaim_grace;
  int deltas_per_chunk_max = 64;
  int commit_results_max = 4096;
  int outbox_requests_max = 65536;
  int results_per_message_max = 1024;
  size_t stream_bytes_max = size_t{8} << 20;

  static Plan Make(uint64_t seed);
  // Whether the coordinator knows at each moment who lives and holds what, so that the deaths over
  // one request can be bounded.
  bool SeesAllDeaths() const;
  // What is on, in words.
  std::string Describe() const;
};

// A generator of its own for each part of a world, so that what one part does with chance does not
// change what the others meet. `part` is any number that no other part has.
Random PartRandom(uint64_t seed, uint64_t part);

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_PLAN_H_
