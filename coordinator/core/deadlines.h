// How much of the backends jobs with a deadline are given before all others, and which of them will
// be late all the same.
//
//   need   = work left / (time left - margin)             in slots
//   share  = need / slots that serve the job
//
// Served at exactly this rate, a job ends `margin` before its deadline; need is reckoned anew every
// second, so whatever it was short of is made up for. As long as the shares of all that want the
// same backends are at most 1, each has its share (and kShareSpare more) reserved, and no more: an
// early end serves nobody. When they are more than that, the earliest deadline gets everything.
//
// A job is at risk when all that goes before it (higher priorities, earlier deadlines, each until
// its own) and its own work is more than its backends can do until then. Tolerated: jobs with
// different sets of models are taken to have backends of their own, so of jobs that share them in
// part too much is promised.
//
// Pure; thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_DEADLINES_H_
#define NIGHTSHIFT_COORDINATOR_CORE_DEADLINES_H_

#include <cstdint>
#include <vector>

namespace nightshift {

// Of the time from submission to deadline, and at most so many seconds, is kept for what goes wrong
// and for the last calls.
inline constexpr double kMarginShare = 0.1;
inline constexpr double kMarginMax = 300;
inline constexpr double kShareSpare = 0.1;

struct DeadlineJob {
  int model_set = 0;
  int32_t priority = 0;
  double work = 0;          // slot-seconds without an outcome
  double seconds_left = 0;  // infinite: no deadline
  double window = 0;        // seconds from submission to deadline
  double slots = 0;         // of the backends that serve it; 0 = none now
};

struct DeadlinePlan {
  double share = 0;         // of what its backends hold, to be reserved for it: 0..1
  double late_seconds = 0;  // it is expected to end so much after its deadline; 0 = in time
};

// All jobs that run, those without a deadline too; same order.
std::vector<DeadlinePlan> PlanDeadlines(const std::vector<DeadlineJob>& jobs);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_DEADLINES_H_
