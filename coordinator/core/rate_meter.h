// Requests and tokens per second of a job over the last minute, in a ring of one-second counters,
// and from them how long the rest will take.
//
// Used by the dispatcher under its lock; not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_RATE_METER_H_
#define NIGHTSHIFT_COORDINATOR_CORE_RATE_METER_H_

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace nightshift {

// An estimate is shown from this many answers on, or after this long.
inline constexpr int64_t kEtaAnswersMin = 20;
inline constexpr absl::Duration kEtaAfter = absl::Seconds(30);

class RateMeter {
 public:
  // Measurement begins: rates count from here while it is less than a minute ago. Later calls
  // change nothing.
  void Start(MonotonicTime now);
  void Add(int64_t requests, int64_t tokens, MonotonicTime now);

  struct Rates {
    double requests = 0;  // per second
    double tokens = 0;
  };
  Rates Recent(MonotonicTime now) const;

  struct Eta {
    double low_seconds = -1;  // negative: not known
    double high_seconds = -1;
  };
  // Between the better and the worse of the last minute and the whole measurement, widened by the
  // statistical error of the number of answers.
  Eta Remaining(int64_t requests, MonotonicTime now) const;

 private:
  static constexpr int64_t kSeconds = 60;
  struct Slot {
    int64_t second = -1;
    int64_t requests = 0;
    int64_t tokens = 0;
  };

  std::array<Slot, kSeconds> slots_{};
  bool started_ = false;
  MonotonicTime start_;
  int64_t answers_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_RATE_METER_H_
