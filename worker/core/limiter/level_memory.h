// What each level was worth when it was last tried. Neighbouring levels share an entry, so that
// there are few of them and each is looked at often.
//
// Not thread-safe.
#ifndef NIGHTSHIFT_WORKER_CORE_LIMITER_LEVEL_MEMORY_H_
#define NIGHTSHIFT_WORKER_CORE_LIMITER_LEVEL_MEMORY_H_

#include <map>
#include <optional>

#include "base/clock.h"

namespace nightshift {

class LevelMemory {
 public:
  struct Entry {
    int level = 0;
    double throughput = 0;
    bool solid = false;
    MonotonicTime at;
  };

  // Not `solid`: by a short look, which does not count against what was seen by a long one. Entries
  // older than half an hour are forgotten: the server may be another by then.
  void Add(int level, double throughput, bool solid, MonotonicTime now);
  // The solid entry with the highest throughput.
  std::optional<Entry> Best() const;
  // What the level should be worth, by the entries around it; nothing where there are none on both
  // sides and none of its own.
  std::optional<double> Expect(int level) const;
  // Forgets the entries within a fifth of `level`, or all.
  void Forget(int level);
  void Clear() { entries_.clear(); }

 private:
  std::map<int, Entry> entries_;  // by the logarithm of the level
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_LIMITER_LEVEL_MEMORY_H_
