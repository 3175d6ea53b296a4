#include "worker/core/breaker.h"

#include <algorithm>
#include <cmath>

namespace nightshift {

bool Breaker::OnAlive() {
  if (state_ == State::kOpen) return false;
  unavailable_in_a_row_ = failed_in_a_row_ = 0;
  failed_requests_.clear();
  if (state_ == State::kClosed) return false;
  state_ = State::kClosed;
  cause_ = Cause::kNone;
  detail_.clear();
  openings_ = 0;
  return true;
}

bool Breaker::OnFailed(absl::string_view detail, uint64_t request, MonotonicTime now,
                       Random& random) {
  if (state_ == State::kOpen) return false;
  unavailable_in_a_row_ = 0;
  ++failed_in_a_row_;
  const bool known = std::find(failed_requests_.begin(), failed_requests_.end(), request) !=
                     failed_requests_.end();
  if (!known && failed_requests_.size() < kFailedRequestsMin) failed_requests_.push_back(request);
  if (state_ == State::kClosed &&
      (failed_in_a_row_ < kFailedMax || failed_requests_.size() < kFailedRequestsMin)) {
    return false;
  }
  Open(Cause::kUnavailable, detail, NextWait(random), now);
  return true;
}

bool Breaker::OnUnavailable(absl::string_view detail, MonotonicTime now, Random& random) {
  ++unavailable_in_a_row_;
  if (state_ == State::kOpen) return false;
  if (state_ == State::kClosed && unavailable_in_a_row_ < kUnavailableMax) return false;
  Open(Cause::kUnavailable, detail, NextWait(random), now);
  return true;
}

bool Breaker::OnRefusedKey(absl::string_view detail, MonotonicTime now) {
  // The calls that were in flight with the first refused one say the same; once is enough.
  if (state_ == State::kOpen && cause_ == Cause::kRefusedKey) return false;
  Open(Cause::kRefusedKey, detail, kRefusedKeyOpen, now);
  return true;
}

bool Breaker::OnToldToWait(absl::string_view detail, absl::Duration wait, MonotonicTime now,
                           Random& random) {
  if (state_ == State::kOpen) {
    // The latest word on when there will be room again counts, but never makes it shorter.
    if (cause_ == Cause::kToldToWait) until_ = std::max(until_, now + wait);
    return false;
  }
  Open(Cause::kToldToWait, detail, wait > absl::ZeroDuration() ? wait : NextWait(random), now);
  return true;
}

bool Breaker::OnTime(MonotonicTime now) {
  if (state_ != State::kOpen || now < until_) return false;
  state_ = State::kProbing;
  return true;
}

bool Breaker::OnToldReady() {
  // A quota is not seen from outside; the wait was asked for.
  if (state_ != State::kOpen || cause_ == Cause::kToldToWait) return false;
  state_ = State::kProbing;
  return true;
}

void Breaker::Open(Cause cause, absl::string_view detail, absl::Duration wait, MonotonicTime now) {
  state_ = State::kOpen;
  cause_ = cause;
  detail_.assign(detail.data(), detail.size());
  until_ = now + wait;
  ++openings_;
}

absl::Duration Breaker::NextWait(Random& random) {
  const absl::Duration base =
      std::min(kOpenMax, kOpenInitial * std::ldexp(1.0, std::min(openings_, 10)));
  return base * (0.8 + 0.4 * random.Unit());
}

}  // namespace nightshift
