// Whether a backend is worth calling: closed (call it), open (leave it alone until a moment), or
// probing (one call may go, and its end decides). Requests lose nothing by it.
//
//   closed  --5 unavailable or 10 failures in a row, key refused, told to wait-->  open
//   open    --the moment has come, or it is told to be ready------------------->  probing
//   probing --an answer-------------------------------------------------------->  closed
//   probing --unavailable, a failure, key refused, told to wait---------------->  open, for longer
//
// A failure is a call that reached the backend and got no usable answer: HTTP 500, half an answer.
// Requests that make a working backend fail must not close it to the others, so the failures in a
// row have to be of several requests.
//
// So a backend that fails everything is called ten times, those in flight by then aside, and then
// once per opening; where answers to calls from before still come, ten times for each.
//
// Pure; lives on the worker's loop thread.
#ifndef NIGHTSHIFT_WORKER_CORE_BREAKER_H_
#define NIGHTSHIFT_WORKER_CORE_BREAKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"

namespace nightshift {

class Breaker {
 public:
  enum class State { kClosed, kOpen, kProbing };
  // What opened it last.
  enum class Cause { kNone, kUnavailable, kRefusedKey, kToldToWait };

  static constexpr int kUnavailableMax = 5;     // in a row
  static constexpr int kFailedMax = 10;         // in a row …
  static constexpr int kFailedRequestsMin = 5;  // … of so many requests
  static constexpr absl::Duration kOpenInitial = absl::Seconds(5);
  // A call each quarter of a minute costs nobody anything, and finds a backend that has come back
  // soon enough.
  static constexpr absl::Duration kOpenMax = absl::Seconds(15);
  // A key may be mended from outside, by a payment for one: worth a call a minute.
  static constexpr absl::Duration kRefusedKeyOpen = absl::Seconds(60);

  State state() const { return state_; }
  Cause cause() const { return cause_; }
  const std::string& detail() const { return detail_; }
  // When it starts probing; infinite unless open.
  MonotonicTime reopens_at() const {
    return state_ == State::kOpen ? until_ : MonotonicTime::Infinite();
  }

  // Each returns true when the state has changed by it.
  // The backend answered, whatever it said. What it sent before it was found broken comes late and
  // proves nothing: ignored while open.
  bool OnAlive();
  // It was reached by a call for the request that `request` tells from others, and failed.
  bool OnFailed(absl::string_view detail, uint64_t request, MonotonicTime now, Random& random);
  // It could not be reached or is not ready.
  bool OnUnavailable(absl::string_view detail, MonotonicTime now, Random& random);
  bool OnRefusedKey(absl::string_view detail, MonotonicTime now);
  // A used-up quota or a long Retry-After: it will refuse everything for `wait` (zero = it did not
  // say how long).
  bool OnToldToWait(absl::string_view detail, absl::Duration wait, MonotonicTime now,
                    Random& random);
  // Open and due: goes on to probing.
  bool OnTime(MonotonicTime now);
  // Somebody asked it and it is ready: probe now rather than later.
  bool OnToldReady();

  // While probing there is at most one call at a time.
  bool probe_free() const { return !probe_out_; }
  void OnProbeStarted() { probe_out_ = true; }
  void OnProbeEnded() { probe_out_ = false; }

 private:
  void Open(Cause cause, absl::string_view detail, absl::Duration wait, MonotonicTime now);
  // 5 s, doubled with each opening since the last answer, 15 s at most, +-20 %.
  absl::Duration NextWait(Random& random);

  State state_ = State::kClosed;
  Cause cause_ = Cause::kNone;
  std::string detail_;
  MonotonicTime until_;
  int unavailable_in_a_row_ = 0;
  int failed_in_a_row_ = 0;
  std::vector<uint64_t> failed_requests_;  // of those, different ones, at most kFailedRequestsMin
  int openings_ = 0;                       // since it was last closed
  bool probe_out_ = false;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_BREAKER_H_
