// What one level of calls in flight was worth: sums over the calls that began at that level.
//
// Throughput is not counted but computed, by Little's law: calls in flight times the work of the
// mean call, divided by the latency of the mean call. A count over some seconds depends on which
// answers, long ones or short ones, happened to end in them; this does not.
//
// The latency of the mean call comes from a least-squares line, latency = wait + pace x completion
// tokens. The answers that end first are the short ones, and the line corrects for that. It also
// tells waiting from running: pace x tokens is the time in which the server was writing the answer,
// so its share of the latency is the share of the calls in flight that are really being served; the
// others stand in a queue. Where all answers are equally long, or instant, there is no such line,
// and the share is not known.
//
// Not thread-safe.
#ifndef NIGHTSHIFT_WORKER_CORE_LIMITER_EPOCH_H_
#define NIGHTSHIFT_WORKER_CORE_LIMITER_EPOCH_H_

#include <cstdint>

#include "absl/time/time.h"
#include "base/clock.h"

namespace nightshift {

// The mean call of the longer past. Epochs are compared as if all had had this one.
class MeanCall {
 public:
  void Add(int64_t prompt_tokens, int64_t completion_tokens);
  double completion_tokens() const { return completion_tokens_; }
  double work() const { return work_; }

  // What an answer is worth: its completion tokens, and a tenth of its prompt tokens, which cost a
  // server about that much less; one where neither is told.
  static double Work(int64_t prompt_tokens, int64_t completion_tokens);

 private:
  int64_t count_ = 0;
  double completion_tokens_ = 0;
  double work_ = 0;
};

struct EpochMeasure {
  double throughput = 0;  // work per second
  double latency = 0;     // seconds; of the calls seen, not of the mean call
  // Of the calls in flight, the share that was being served, and the standard error of that; an
  // error of 1 says that it is not known.
  double served = 1;
  double served_error = 1;
  // The answers differ in length, so that more of them will make it known.
  bool can_tell = false;
  // By a long look; set by who decides how long to look.
  bool solid = false;
};

class Epoch {
 public:
  // Forgets everything. Calls that start before `from` do not count.
  void Begin(MonotonicTime from);

  void OnStart(MonotonicTime now);
  // A call that began at `started` was answered. `in_use`: as many calls were in flight as might.
  void OnAnswer(MonotonicTime started, absl::Duration latency, int64_t prompt_tokens,
                int64_t completion_tokens, bool in_use);
  // A call ended in a way that tells nothing.
  void OnDrop(MonotonicTime started);

  bool counts(MonotonicTime started) const { return started >= from_; }
  MonotonicTime from() const { return from_; }
  int64_t answers() const { return answers_; }
  // How many of `in_flight` calls began before this epoch.
  int64_t Old(int in_flight) const { return in_flight - (started_ - ended_); }
  // How many equally large calls would tell as much about the mean.
  double EffectiveSamples() const;
  // Too many of the calls found nothing to follow them: the level was not really in use.
  bool Starved() const;

  // Needs at least one answer.
  EpochMeasure Measure(int level, const MeanCall& mean) const;

 private:
  MonotonicTime from_;
  int64_t started_ = 0;
  int64_t ended_ = 0;
  int64_t answers_ = 0;
  int64_t unused_ = 0;
  // Sums over the answers: n = completion tokens, t = latency in seconds, u = work.
  double n_ = 0, nn_ = 0, t_ = 0, tt_ = 0, tn_ = 0, u_ = 0, uu_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_LIMITER_EPOCH_H_
