// Which requests are worth a second call elsewhere.
//
// When nothing is left to hand out, a job's end is its slowest call. What has run for much longer
// than others of its job, on a backend that may be in trouble, is then called for again on a free
// slot of another worker. The first answer counts, whichever call brings it: the outcome is written
// only if there is none, by the one committer. The other call is given up.
//
//   worth a copy   age  > 1.5 * q95 * helper                 longer than nearly all would take
//   there
//             and  rest > 1.5 * helper                       and it is expected to go on for longer
//
// where `helper` is the mean latency of the backend that would help, q95 the 95th percentile of the
// job's durations relative to the mean latency of their backends, and rest = max(owner - age,
// age/2) what is still to be expected: of a backend that is merely slow, the rest of its usual
// time; past that, the longer something has taken the longer it will.
//
// Bounds: one copy of a request at a time; copies of a job at most 1 % of its requests (or one); at
// most a twentieth of the fleet's slots at a time. Never for what goes out with caution (poison.h),
// and, unless the job asks for it, never where a call costs more than time: backends that are paid
// by the token or have a quota. The worker that has the request has no second call for it, so one
// worker with many backends makes no copies.
//
// Source: LATE (speculate what ends last, on fast nodes, with a cap), Mantri (only where it saves).
//
// Pure; not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_SPECULATION_H_
#define NIGHTSHIFT_COORDINATOR_CORE_SPECULATION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nightshift {

inline constexpr double kCopyPatience = 1.5;
inline constexpr double kCopiesPerJob = 0.01;
inline constexpr double kCopiesPerSlots = 0.05;

// How long a job's calls take, relative to the mean latency of the backend that answered.
class DurationSpread {
 public:
  // `latency`: of the backend; 0 = not known, and nothing is learnt.
  void Add(double seconds, double latency);
  // Of the last thousand; `unknown` while there are fewer than kKnownFrom.
  double Quantile(double q, double unknown) const;
  bool known() const { return values_.size() >= kKnownFrom; }

 private:
  static constexpr size_t kKept = 1000;
  static constexpr size_t kKnownFrom = 20;

  std::vector<float> values_;  // a ring once it is full
  size_t next_ = 0;
};

// In seconds.
bool WorthACopy(double age, double owner, double helper, double q95);

int64_t CopiesMaxOfJob(int64_t requests);
int64_t CopiesMaxAtATime(int64_t slots);

// A call to such a backend costs more than time.
bool PaidByTheToken(const std::string& kind, const std::string& account);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_SPECULATION_H_
