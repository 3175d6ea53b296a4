// How fast calls to one backend may start, where an account is limited to so many requests and
// tokens per second, minute, hour or day. Going over such a limit is not something to back off
// from, but something to avoid: each call that would pass it waits here, before it has a slot and
// before it has used up anything.
//
// A limit is a bucket that fills all the time, as the providers describe theirs. Where it comes
// from:
//
//   configured   as given; what a call reserves is settled by its usage
//   told         by the headers of each answer, per model: what was left when the call was
//                admitted. When that was, and which others were admitted before it, is known only
//                within bounds: between the call's start and its end, and at most kWayMax after its
//                start. So the news says between which two levels the bucket is,
//                  at least  left + rate * (now - latest admission) - all calls that may come later
//                  at most   left + rate * (now - start) - calls started after it
//                and the pacer's own account of it, which knows every call, is moved no further
//                than into them. News of calls older than the newest heard of are ignored.
//   found        a backend that refuses and says nothing else: calls per second, cut to 0.7 at a
//                refusal and let grow along a cubic, slowly around the rate that was refused and
//                faster beyond it (CUBIC, as for windows of TCP)
//
// A call reserves its prompt, estimated from its bytes by what earlier usage taught, and the
// longest answer it allows. For one that sets no maximum the charge is learnt from what the headers
// of two calls in a row lack, or else from the answers.
//
// Tolerated: requests of several models wait in one line, so one whose model has nothing left
// delays those behind it. A call that asks for more than a whole window grants waits until the
// bucket is nearly full; see OnRefused.
//
// Pure; lives on the worker's loop thread.
#ifndef NIGHTSHIFT_WORKER_CORE_PACER_H_
#define NIGHTSHIFT_WORKER_CORE_PACER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "nightshift/v1/types.pb.h"
#include "worker/core/rate_limit.h"
#include "worker/core/rate_meter.h"
#include "worker/core/request_size.h"

namespace nightshift {

struct PacerOptions {
  // Of the whole backend, all models together.
  std::vector<RateLimit> configured = {};
  // It is known to tell its limits: until it has, only a few calls are tried.
  bool tells_limits = false;
  // Tokens that a call without a maximum is charged for its answer; 0 = like earlier answers.
  int64_t unset_answer_tokens = 0;
};

class Pacer {
 public:
  // Calls in flight to a backend that is known to tell its limits and has not yet.
  static constexpr int kUntoldMax = 4;
  // Models with limits of their own; those beyond share the last one's.
  static constexpr int kModelsMax = 64;
  // After refusals in a row that the known limits do not explain, each wait is twice the one
  // before.
  static constexpr absl::Duration kFreezeInitial = absl::Milliseconds(500);
  static constexpr absl::Duration kFreezeMax = absl::Seconds(60);
  // Those that were refused together do not come back together.
  static constexpr absl::Duration kFreezeJitter = absl::Milliseconds(500);
  // A call is admitted at the latest so long after its start: what has not ended by then may be
  // late with its answer, but no more on its way.
  static constexpr absl::Duration kWayMax = absl::Seconds(2);
  // Models whose limits are put into words; the others are counted.
  static constexpr int kModelsExplainedMax = 4;
  // The slowest rate that is tried where nothing is told, per second. What is slower is left to the
  // waits after refusals in a row.
  static constexpr double kFoundRateMin = 0.5;

  // What a request would take. Made once per request, by SizeOf.
  struct Size {
    int account = 0;
    int64_t bytes = 0;
    int64_t answer_max = -1;  // as in RequestSize
  };
  // What a call has taken; kept by the caller until the call's end.
  struct Reservation {
    bool made =
        false;  // false: the call began when there was nothing to keep to (`started` is set)
    int account = 0;
    int64_t bytes = 0;
    int64_t answer_max = -1;
    double tokens = 0;
    bool whole = false;  // it asked for more than a window grants
    // Of the account, this call included: which one it was, and what all of them reserved.
    int64_t order = 0;
    double tokens_sent = 0;
    // Of the calls before it, those that were perhaps still on their way when it began.
    int64_t calls_on_way = 0;
    double tokens_on_way = 0;
    MonotonicTime started;
  };

  explicit Pacer(PacerOptions options);

  // Whether there is anything to keep to. While not, calls need neither size nor reservation.
  bool active() const { return active_; }

  Size SizeOf(const RequestSize& size);
  // When a call of that size may start, were it the next; not after `now`: at once. Infinite: when
  // another call has ended.
  MonotonicTime ReadyAt(const Size& size, MonotonicTime now);
  // The call starts now.
  Reservation Reserve(const Size& size, MonotonicTime now);

  // --- the end of a call: Told, when its headers tell limits, then one of the other three. When
  // limits are told for the first time, all calls in flight are to be reserved first, in the order
  // of their starts.
  void Told(const Reservation& call, const std::vector<RateLimit>& limits, bool admitted,
            MonotonicTime now);
  // It was admitted.
  void OnAdmitted(const Reservation& call, const v1::Usage& usage, MonotonicTime now);
  // It was refused since the account has nothing left. `retry_after`: zero when the backend did not
  // say. False when no wait will help: it asks for more than a whole window grants.
  bool OnRefused(const Reservation& call, absl::Duration retry_after, MonotonicTime now,
                 Random& random);
  // It ended otherwise, and what it was charged is not known.
  void OnDropped(const Reservation& call, MonotonicTime now);

  // The part of the limits that is this worker's: above 0, at most 1. Others with the same account
  // have the rest.
  void SetShare(double share, MonotonicTime now);

  // What the call that ReadyAt last put off waits for: "tokens per minute"; empty: nothing.
  const std::string& waits_for() const { return waits_for_; }
  // The limits that are kept to, in words; empty: none.
  std::string Explain(MonotonicTime now) const;

 private:
  struct Bucket {
    RateUnit unit;
    absl::Duration window;
    bool window_guessed;  // its name did not say
    double whole;         // the limit
    double limit;         // this worker's share of it
    double capacity;      // of the limit, what may be taken at once
    double level;         // negative: owed
    MonotonicTime at;     // of `level`

    double rate() const { return limit / absl::ToDoubleSeconds(window); }
    double LevelAt(MonotonicTime now) const;
  };
  struct OnWay {
    MonotonicTime started;
    double tokens;
  };
  struct Account {
    std::string model;
    std::vector<Bucket> buckets;
    std::map<int64_t, OnWay> on_way;  // by order: in flight, and begun less than kWayMax ago
    double tokens_on_way = 0;         // of all those
    int64_t calls_sent = 0;
    double tokens_sent = 0;
    // The newest call whose headers were read, and the tokens that were left; negative: not told.
    int64_t told_order = 0;
    double told_tokens = -1;
    MonotonicTime told_start;
    // Tokens per byte of a body: mean and mean deviation.
    int64_t ratios = 0;  // so many of them
    double ratio;
    double ratio_error;
    // Tokens that the answer of a call without a maximum is charged.
    double unset_answer;
    int answers = 0;              // charges seen in the headers
    bool charge_unknown = false;  // tokens are limited, and nothing is known of it yet
  };

  Account& AccountOf(int index) { return accounts_[static_cast<size_t>(index)]; }
  Account NewAccount(std::string model) const;
  double Price(const Account& account, const Size& size) const;
  // Puts `ready` off until the bucket has room for a call of so many tokens, and says what for.
  void WaitForBucket(const Bucket& bucket, double tokens, MonotonicTime now, MonotonicTime* ready);
  static Bucket* FindBucket(Account& account, const RateLimit& told, bool* is_new);
  void TakeLimit(Account& account, const Reservation& call, const RateLimit& told,
                 MonotonicTime now) const;
  static void LearnCharge(Account& account, const Reservation& call, const RateLimit& told);
  // The call has arrived, if it was on its way.
  static void Arrived(Account& account, int64_t order);
  void Ended(const Reservation& call);
  void LearnUsage(Account& account, const Reservation& call, const v1::Usage& usage);
  // A limit that was told has no room for the call.
  bool Explains(const Reservation& call, MonotonicTime now) const;
  // Gives tokens back to what is configured.
  void GiveBack(double tokens, MonotonicTime now);

  // --- the rate that is found
  void CutRate(MonotonicTime now);
  double FoundRate(MonotonicTime now) const;

  const int64_t unset_answer_;
  const bool tells_limits_;
  bool active_;
  bool told_ = false;  // by any answer
  // The first holds what is configured for all models and charges every call; the others what was
  // told of one model.
  std::vector<Account> accounts_;
  absl::flat_hash_map<std::string, int> account_by_model_;
  double share_ = 1;
  int outstanding_ = 0;  // reservations without an end

  MonotonicTime frozen_until_;
  MonotonicTime frozen_at_;  // when a refusal was last acted on
  int refusals_ = 0;         // in a row, by calls that each knew of the one before

  RateMeter admitted_;
  bool finding_ = false;  // a rate is being found
  double refused_rate_ = 0;
  double grow_seconds_ = 0;  // from the cut to that rate again
  MonotonicTime cut_at_;
  MonotonicTime next_start_;

  std::string waits_for_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_PACER_H_
