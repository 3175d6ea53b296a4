// Requests and tokens per minute and per day, as Cerebras grants them: token buckets that refill
// all the time, and a request pays prompt estimate + maximum answer when it is admitted. Pure.
#ifndef NIGHTSHIFT_CLIENT_SIM_QUOTA_H_
#define NIGHTSHIFT_CLIENT_SIM_QUOTA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "client/sim/sim_options.h"

namespace nightshift {

// Not thread-safe.
class Quota {
 public:
  Quota(const SimCerebrasOptions& options, MonotonicTime now);

  struct Refusal {
    bool tokens;          // else requests
    const char* window;   // "minute", "day"
    absl::Duration wait;  // until it would be admitted; Infinite when it asks for more than a whole
                          // window grants
  };
  // Takes one request and `tokens` from every bucket, or nothing.
  std::optional<Refusal> Take(int64_t tokens, MonotonicTime now);

  // Gives back what a request reserved and did not use.
  void Refund(int64_t tokens, MonotonicTime now);

  // x-ratelimit-{limit,remaining,reset}-{requests,tokens}-{minute,day}, in lower case; resets are
  // decimal seconds.
  std::vector<std::pair<std::string, std::string>> Headers(MonotonicTime now);

 private:
  struct Bucket {
    bool tokens;
    const char* window;
    absl::Duration period;
    double capacity;
    double level;

    double refill_per_second() const { return capacity / absl::ToDoubleSeconds(period); }
  };

  void Refill(MonotonicTime now);

  std::vector<Bucket> buckets_;
  MonotonicTime refilled_at_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_QUOTA_H_
