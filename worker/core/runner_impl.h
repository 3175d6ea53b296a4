// The runner's inside, shared by its source files: runner.cc (what happens), runner_stream.cc (the
// coordinator's messages and what is sent), runner_calls.cc (starting calls and what their ends
// mean), runner_doubts.cc (whose fault a failure was), runner_suspects.cc (requests that may kill
// their server), runner_report.cc (what is said about the backends).
#ifndef NIGHTSHIFT_WORKER_CORE_RUNNER_IMPL_H_
#define NIGHTSHIFT_WORKER_CORE_RUNNER_IMPL_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "worker/core/breaker.h"
#include "worker/core/classifier.h"
#include "worker/core/held_request.h"
#include "worker/core/outbox.h"
#include "worker/core/pacer.h"
#include "worker/core/rate_meter.h"
#include "worker/core/request_key.h"
#include "worker/core/retry_budget.h"
#include "worker/core/retry_queue.h"
#include "worker/core/runner.h"

namespace nightshift {

// Of a backend's Retry-After; what is longer is a mistake somewhere.
inline constexpr absl::Duration kRetryAfterMax = absl::Hours(24);
// A backend that asks for a longer wait than this is left alone as a whole until then.
inline constexpr absl::Duration kWaitOfOneRequestMax = absl::Seconds(60);
// Told to wait for longer than this, a backend's unstarted requests go where they can run sooner.
inline constexpr absl::Duration kKeepUnstartedMax = absl::Seconds(5);
// A server that gives up on the same request as often as this (HTTP 408) would do so for ever: from
// then on it is charged.
inline constexpr int kServerTimeoutsMax = 3;
// A request whose call showed that a broken backend is still broken leaves the next such call to
// another: longer than a breaker is ever open.
inline constexpr absl::Duration kProbeAgain = absl::Seconds(20);
// A backend that has answered a call as lately as this is not broken, whoever says so.
inline constexpr absl::Duration kBusyNotBroken = absl::Seconds(30);
// A failure is judged at the latest so long after it: long enough for a backend that fails
// everything to fail ten times, short enough for the last request of a job.
inline constexpr absl::Duration kDoubtMax = absl::Seconds(2);
// More of them at a time, and the oldest is judged at once.
inline constexpr size_t kDoubtsMax = 1000;
// So often a request's failure is put down to the backend: it may be this request that breaks it.
inline constexpr int kPardonsMax = 2;
// Beyond so many requests all pardons are forgotten: some get two more.
inline constexpr size_t kPardonedMax = 10'000;
// So often in a row a request may be the one that a broken backend is asked with, and fail. Then it
// is charged: at some twenty seconds each an outage is over by then, or others took the request.
inline constexpr int kFailedProbesMax = 20;
// From so many broken calls on a request is a suspect: it may be the one that kills its server.
inline constexpr int kSuspectFrom = 2;
// So many suspects are called at a time: with more of them fewer rounds are needed to call them
// all, and more to call those one by one that were there when the server died again.
inline constexpr int kSuspectsMax = 16;
// From so many broken calls on a suspect is called with no other.
inline constexpr int kLoneFrom = 3;
// A server that answers a call so long after another one broke has lived through that: what it had
// sent before it died would be here by then.
inline constexpr absl::Duration kSurvivedAfter = absl::Seconds(1);
// From so many of those on a request's broken calls are charged, whatever else breaks.
inline constexpr int kSurvivedMax = 3;
// So many broken calls of a backend can turn out to be survived; older ones count.
inline constexpr size_t kBreaksMax = 1000;
// A backend that has refused every call for so long is called by that name, and then in the log.
inline constexpr absl::Duration kRefusesShown = absl::Seconds(10);
inline constexpr absl::Duration kRefusesLogged = absl::Seconds(60);
// Until the first Welcome tells how long a worker that is not heard of keeps what it holds.
inline constexpr absl::Duration kKeptForDefault = absl::Seconds(7);
// The runner looks at the time as often as this, and four times while its leases live, to notice
// that its process stood still.
inline constexpr absl::Duration kLookInterval = absl::Seconds(1);
// A call takes long from this many times the mean latency on, and from this time on; of the oldest
// of them the coordinator is told.
inline constexpr double kLongCall = 2;
inline constexpr absl::Duration kLongCallMin = absl::Milliseconds(500);
inline constexpr size_t kLongCallsTold = 32;
// Low water: the buffer should hold what the free slots need and what is used up while a lease is
// on its way.
inline constexpr double kLowWaterSeconds = 0.3;
// Between two reports that say "running low"; doubles while no lease comes of it.
inline constexpr absl::Duration kLowReportInterval = absl::Milliseconds(20);

struct Runner::Impl {
  // A call that the backend has answered with HTTP 500 or the like.
  struct Doubt {
    HeldRequest* request = nullptr;
    CallOutcome outcome;
    Classification what;
    MonotonicTime ended;
  };

  // A call that broke, at a server that may have died or not.
  struct Break {
    MonotonicTime at;
    RequestKey key;
  };

  // What speaks against a request that has not been answered since.
  struct Suspicion {
    int broken = 0;       // calls that broke, and the server may have died
    int survived = 0;     // calls that broke, and it had not
    MonotonicTime since;  // the first that broke
  };

  struct Backend {
    Backend(PacerOptions options, std::string account_name)
        : account(std::move(account_name)), pacer(std::move(options)) {}

    const std::string account;
    v1::BackendInfo told;  // as it was given, but see kBusyNotBroken
    bool seen_ready = true;
    std::optional<MonotonicTime> answered_at;  // the last answer
    std::unique_ptr<Limiter> limiter;
    std::string logged;  // its last explanation in the log
    Breaker breaker;
    RetryBudget budget;
    Pacer pacer;
    // The first in `buffered` waits for the pacer until then, or did when it was last looked at.
    bool paced = false;
    MonotonicTime paced_until;
    RequestList buffered;
    int waiting = 0;                             // in the retry queue
    std::deque<Doubt> doubts;                    // by `ended`
    RequestList suspects;                        // that wait for their turn
    int suspects_out = 0;                        // in flight, also those that nobody wants any more
    bool lone_out = false;                       // one of them is called alone
    std::optional<MonotonicTime> lone_broke_at;  // last
    std::deque<Break> breaks;                    // by `at`, at most kBreaksMax
    // Since then it has answered no call and refused each, with these words.
    std::optional<MonotonicTime> refuses_since;
    std::string refusal;
    bool refusal_logged = false;
    int in_flight = 0;
    RateMeter finished;
    RateMeter tokens;
    RecentMean latency;  // seconds
    std::optional<v1::ServerLoad> load;
  };

  struct Call {
    HeldRequest* request = nullptr;  // null: nobody wants the answer any more
    int backend = 0;
    MonotonicTime started;
    bool probe = false;
    bool suspect = false;
    bool lone = false;  // … of those that are called alone
    Pacer::Reservation reservation;
  };

  enum class Link {
    kDown,      // no stream
    kGreeting,  // Hello is out; nothing else may be said before the Welcome
    kReady,
  };

  Impl(RunnerOptions runner_options, CallPort& call_port, LinkPort& link_port);

  // --- runner_stream.cc
  void SendHello();
  void OnWelcome(const v1::Welcome& welcome, MonotonicTime now);
  // What every event begins with. A process that stood still (stopped, starved, swapped out) may
  // have lost its leases without having seen the stream break: before it calls anything again it
  // asks what is still its own, by another Hello.
  void LookAtTime(MonotonicTime now);
  // Since when, if it has been for too long; else `now`.
  MonotonicTime StoodStillSince(MonotonicTime now);
  void LoseLink(MonotonicTime since);
  // Everything held belongs to another store than the coordinator's: none of it may reach this one.
  void ChangeStore(const std::string& new_store);
  // Takes up what the spool has for the present store.
  void TakeKept();
  void OnLease(v1::Lease* lease, MonotonicTime now);
  void RefuseUnknownEndpoint(HeldRequest* request);
  void OnAcknowledge(const v1::Acknowledge& acknowledge, MonotonicTime now);
  void OnRevoke(const v1::Revoke& revoke, MonotonicTime now);
  void OnRecall(const v1::Recall& recall, MonotonicTime now);
  void OnRateShares(const v1::RateShares& shares, MonotonicTime now);
  void SendDrain();
  // When results should be sent; infinite while there are none or the stream takes none.
  MonotonicTime ResultsDue();
  // Sends results as far as they are due; the rest gathers.
  void SendResults(MonotonicTime now);
  // Says which requests have been handed back since the last time.
  void SendReturned();

  // --- runner_calls.cc
  // By what it was told; unknown words count as ready.
  static bool IsReady(const v1::BackendInfo& info);
  // Nothing but the number of slots speaks against a call to this backend.
  bool TakesCalls(const Backend& backend) const;
  // What waits for this backend should run elsewhere.
  bool HandsBack(const Backend& backend, MonotonicTime now) const;
  // Why, for the coordinator's log.
  std::string HandBackReason(const Backend& backend) const;
  // The spool has become blocked, or is so no more: says so, and goes on.
  void LookAtSpool(MonotonicTime now);
  // Nothing outside the backends speaks against new calls.
  bool MayStart(MonotonicTime now) const;
  // The request must wait for the pacer.
  bool MustWait(Backend& backend, HeldRequest* next, MonotonicTime now);
  // How long it has to; zero: not at all.
  static absl::Duration PacedFor(const Backend& backend, MonotonicTime now);
  static const Pacer::Size& SizeOf(Backend& backend, HeldRequest* request);
  // Calls that began before anything was known of limits, the one that has just ended among them:
  // its reservation is returned.
  Pacer::Reservation ReserveInFlight(const Call& ended, CallId id);
  // What the call's end says about rate limits. A refusal for a used-up quota is told by OnUsedUp.
  Pacer::Reservation TellLimits(const Call& call, const CallOutcome& outcome, MonotonicTime now);
  // Fills the free slots of one backend, or of all.
  void Fill(int backend, MonotonicTime now);
  void FillAll(MonotonicTime now);
  void Start(HeldRequest* request, MonotonicTime now);
  void OnEnd(const Call& call, CallOutcome&& outcome, MonotonicTime now);
  void OnAnswer(const Call& call, CallOutcome&& outcome, Classification&& what, MonotonicTime now);
  void OnFailure(const Call& call, CallOutcome&& outcome, Classification&& what, MonotonicTime now);
  // A failure waits for its verdict until more is known of the backend. Charged, when it has
  // answered a call that began after it, or nothing has come to light in kDoubtMax; not charged,
  // when the backend has turned out to be in trouble itself.
  void AddDoubt(HeldRequest* request, CallOutcome&& outcome, Classification&& what,
                MonotonicTime now);
  void ChargeDoubts(Backend& backend, MonotonicTime ended_by);
  void PardonDoubts(Backend& backend);
  // Of a request that has failed as a probe.
  bool PardonsProbe(const RequestKey& key);
  void JudgeFirstDoubt(Backend& backend, Verdict verdict);
  void OnStale(const Call& call, CallOutcome&& outcome, Classification&& what, MonotonicTime now);
  void OnRefusal(const Call& call, CallOutcome&& outcome, Classification&& what, MonotonicTime now);
  void OnUsedUp(const Call& call, CallOutcome&& outcome, Classification&& what, MonotonicTime now);
  void PutOff(HeldRequest* request, absl::Duration retry_after, MonotonicTime now);
  // It refuses calls for want of room, or has answered one again.
  void NoteRefusal(Backend& backend, const Classification& what, MonotonicTime now);
  void NoteAnswer(Backend& backend, MonotonicTime now);
  // Whether the answer is asked for again; then it is kept, and the request waits for a slot. An
  // answer that counts as a failure becomes one in `outcome` and `what`.
  bool AsksAgain(const Call& call, CallOutcome* outcome, Classification* what, MonotonicTime now);
  // The answer that was kept is the outcome after all.
  void RecordKept(HeldRequest* request);
  // The request is answered, or the coordinator's again: its result goes to the outbox.
  void Record(HeldRequest* request, CallOutcome&& outcome, Classification&& what);
  // A backend's state is another: says so at once and hands back what cannot run here now.
  void OnBackendChanged(int backend, MonotonicTime now);
  void OnBreakerChanged(int backend, MonotonicTime now);
  void LogBreaker(const Backend& backend, MonotonicTime now) const;
  // What every event ends with: free slots filled, results and reports sent.
  void Settle(int backend, MonotonicTime now);

  // --- runner_suspects.cc
  // The connection broke, and the server may have seen the request.
  static bool BrokeOff(const CallOutcome& outcome);
  int BrokenCalls(const RequestKey& key) const;
  // No other suspect keeps it from being called.
  bool IsTurn(const Backend& backend, const HeldRequest& request) const;
  // Still in its list; null when there is none, or none whose turn it is.
  HeldRequest* NextToStart(Backend& backend);
  void NoteStart(Backend& backend, Call* call) const;
  void NoteEnd(Backend& backend, const Call& call, const CallOutcome& outcome, MonotonicTime now);
  void CountBreak(const Call& call, MonotonicTime now);
  // Of a call whose break has been counted: whether it is charged, given what else speaks for it.
  Verdict JudgeBreak(const Call& call, Verdict usual) const;
  // A call that began at `started` has been answered.
  void ForgiveSurvived(Backend& backend, MonotonicTime started, MonotonicTime now);

  // --- runner.cc
  HeldRequest* FindRequest(const RequestKey& key);
  // Takes the request out of list or queue, or leaves its call without an owner.
  void Detach(HeldRequest* request);
  void Forget(HeldRequest* request);  // Detach, and free it
  void Return(HeldRequest* request, absl::string_view why);
  void ReturnUnstarted(int backend, absl::string_view why);
  // Not wanted any more: its call is aborted, its results are dropped.
  void Discard(const RequestKey& key);
  // Others have it; but an answer in hand was paid for, and is the better one.
  void GiveAway(const RequestKey& key);

  // --- runner_report.cc
  // What a person and the coordinator should know: as told, unless the breaker knows better.
  v1::BackendInfo Info(const Backend& backend) const;
  int ReportedLimit(const Backend& backend, MonotonicTime now) const;
  std::string WaitingFor(const Backend& backend, MonotonicTime now) const;
  // What those in flight tell: whether the backend has become slow, and, of backends that have
  // nothing left to start, which calls take long.
  void AddCallsUnderWay(v1::Report* report, MonotonicTime now) const;
  // Why the limit and the pace are what they are.
  std::string Explain(const Backend& backend, absl::string_view limit, MonotonicTime now) const;
  bool RunsLow(const Backend& backend, MonotonicTime now) const;
  void CheckLow(int backend, MonotonicTime now);
  bool CanReport() const;
  // Sends the report when it is due and the stream takes it.
  void ReportIfDue(MonotonicTime now);
  void ReportNow(MonotonicTime now);

  RunnerOptions options;  // without its `backends`, which are moved into those below
  CallPort& calls_port;
  LinkPort& link_port;
  Random random;

  std::vector<Backend> backends;
  absl::flat_hash_map<std::string, int> backend_by_name;
  absl::flat_hash_map<RequestKey, std::unique_ptr<HeldRequest>> requests;
  absl::flat_hash_map<CallId, Call> calls;
  RetryQueue retries;
  absl::flat_hash_map<RequestKey, int> pardons;           // at most kPardonedMax
  absl::flat_hash_map<RequestKey, int> failed_probes;     // likewise
  absl::flat_hash_map<RequestKey, Suspicion> suspicions;  // likewise
  Outbox outbox;
  // What requests and results belong to: told by the Welcome, or the spool's last. Empty: not
  // known, and nothing is held.
  std::string store;
  bool store_known = false;
  bool spool_blocked = false;  // as it was when last looked at
  CallId last_call = 0;
  uint64_t last_order = 0;

  Link link = Link::kDown;
  std::optional<MonotonicTime> lost_at;  // the stream, if it has not been welcomed again since
  // For how long the coordinator keeps what a worker holds that is not heard of, or has no stream.
  absl::Duration kept_for = kKeptForDefault;
  std::optional<MonotonicTime> looked_at;  // the time, last
  // Handed back and not yet said, by the reason.
  std::map<std::string, std::vector<RequestKey>> returned;

  bool draining = false;
  std::string drain_why;

  MonotonicTime last_results;  // when some were sent
  MonotonicTime last_report;
  MonotonicTime report_due;
  absl::Duration low_interval = kLowReportInterval;
  bool low = false;  // the next report says "running low"
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_RUNNER_IMPL_H_
