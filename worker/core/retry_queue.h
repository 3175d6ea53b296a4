// Requests that wait for their time, by when they are due: put off by a backend, which costs no
// attempt, or tries after failures that the retry budget holds back. They hold no slot meanwhile.
#ifndef NIGHTSHIFT_WORKER_CORE_RETRY_QUEUE_H_
#define NIGHTSHIFT_WORKER_CORE_RETRY_QUEUE_H_

#include <cstdint>
#include <tuple>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "worker/core/held_request.h"

namespace nightshift {

// How long a request waits that was put off `waits` times before: full jitter of 1 s doubling to
// 60 s, on top of what the backend asked for. Its wish is never undercut, and the jitter keeps
// those that were refused together from coming back together.
absl::Duration RetryDelay(int waits, absl::Duration retry_after, Random& random);

// Owns nothing. Not thread-safe.
class RetryQueue {
 public:
  // Sets place and due time of `request`, which must be in no list.
  void Add(HeldRequest* request, MonotonicTime due);
  void Remove(HeldRequest* request);
  // The first that is due at `now`, removed; null when there is none.
  HeldRequest* PopDue(MonotonicTime now);
  // Infinite when empty.
  MonotonicTime NextDue() const;
  // In order of due time.
  template <typename F>
  void ForEach(F visit) const {
    for (const auto& [position, request] : queue_) visit(request);
  }

 private:
  using Position = std::tuple<MonotonicTime, uint64_t>;  // due, order of arrival
  absl::btree_map<Position, HeldRequest*> queue_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_RETRY_QUEUE_H_
