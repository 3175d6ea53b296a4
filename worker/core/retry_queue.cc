#include "worker/core/retry_queue.h"

#include <algorithm>

#include "base/backoff.h"
#include "base/check.h"

namespace nightshift {

absl::Duration RetryDelay(int waits, absl::Duration retry_after, Random& random) {
  const BackoffOptions backoff{.initial = absl::Seconds(1), .max = absl::Seconds(60)};
  const absl::Duration jitter = FullJitter(backoff, waits, random);
  if (retry_after <= absl::ZeroDuration()) return jitter;
  // With a wish to go by, the backoff's growth has no say: a fixed spread is enough.
  return retry_after + std::min(jitter, backoff.initial);
}

void RetryQueue::Add(HeldRequest* request, MonotonicTime due) {
  request->place = HeldRequest::Place::kWaiting;
  request->due = due;
  const bool added = queue_.emplace(Position{due, request->order}, request).second;
  NIGHTSHIFT_CHECK(added, "a request waits twice");
}

void RetryQueue::Remove(HeldRequest* request) {
  const size_t removed = queue_.erase(Position{request->due, request->order});
  NIGHTSHIFT_CHECK(removed == 1, "a waiting request is not in the queue");
}

HeldRequest* RetryQueue::PopDue(MonotonicTime now) {
  if (queue_.empty()) return nullptr;
  const auto first = queue_.begin();
  if (std::get<MonotonicTime>(first->first) > now) return nullptr;
  HeldRequest* request = first->second;
  queue_.erase(first);
  return request;
}

MonotonicTime RetryQueue::NextDue() const {
  if (queue_.empty()) return MonotonicTime::Infinite();
  return std::get<MonotonicTime>(queue_.begin()->first);
}

}  // namespace nightshift
