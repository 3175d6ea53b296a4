// Which jobs the next requests for a backend come from.
//
// Priorities are classes: the higher one goes first, and each lower one that has work is given one
// request in twenty beside it (kFloorShare), so that it is late but never stands still.
//
// Inside a class work is shared in proportion to weights (stride scheduling). Work is measured in
// slot-seconds, the time that calls take: a job with long answers does not look cheap. With
//
//   level = (done + out * cost) / weight + start
//
// where `done` is the time that the job's ended calls took, `out` the number of its requests that
// are held by workers, and `cost` the mean time of one, the job with the lowest level is next. The
// estimate for what is out becomes a measurement when it ends, whichever way, and vanishes when it
// comes back; nothing is paid back or forgotten. A job that begins, or has had nothing to give for
// a while, starts where the lowest of the others stands without what they have out: it catches up
// with what they have in flight, not with what they have had all along.
//
// Jobs with a deadline are given as much as they need first, in the order of their deadlines
// (deadlines.h), and what is left over like all others.
//
// Pure; not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_FAIR_SHARE_H_
#define NIGHTSHIFT_COORDINATOR_CORE_FAIR_SHARE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"

namespace nightshift {

// Of what goes out of a class, so much more goes out of each lower class that has work: a twentieth
// of the whole where there is one.
inline constexpr double kFloorShare = 1.0 / 19;
// Lower classes that are kept alive beside one.
inline constexpr int kFloorClassesMax = 4;

struct ShareCandidate {
  double weight = 1;
  double level = 0;
  double cost = 1;        // slot-seconds of one request
  int64_t available = 0;  // could go out now
  // So many go before all that is not reserved, the earliest deadline first.
  int64_t reserved = 0;
  MonotonicTime due = MonotonicTime::Infinite();
};

// How many of `count` requests each candidate gives, same order; the sum is the smaller of `count`
// and all that is available. Among equals the earlier candidate is next.
std::vector<int64_t> DivideGrant(int64_t count, const std::vector<ShareCandidate>& candidates);

// What a job has had of the backends.
class JobWork {
 public:
  // A call has ended, or was found to have ended, after so long.
  void Add(double seconds);
  // Of one request; `unknown` before the first has ended.
  double cost(double unknown) const { return count_ == 0 ? unknown : cost_; }
  double Level(int64_t out, double weight, double unknown) const {
    return Base(weight) + static_cast<double>(out) * cost(unknown) / weight;
  }
  // Without what is out.
  double Base(double weight) const { return done_ / weight + start_; }
  void StartAt(double level, double weight);

 private:
  double done_ = 0;
  double start_ = 0;
  double cost_ = 0;
  int64_t count_ = 0;
};

// Gives lower classes their floor.
class ClassFloor {
 public:
  // `granted` requests of a higher class have gone out while this one had work. Returns how many of
  // this class may go beside them.
  int64_t Credit(int32_t priority, int64_t granted);
  void Spend(int32_t priority, int64_t count) { credit_[priority] -= static_cast<double>(count); }

 private:
  std::map<int32_t, double> credit_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_FAIR_SHARE_H_
