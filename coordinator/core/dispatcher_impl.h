// The inside of the Dispatcher, shared by the files that implement it by theme: dispatcher.cc
// (the outer face and start), dispatcher_workers.cc, dispatcher_grants.cc, dispatcher_tail.cc,
// dispatcher_routes.cc, dispatcher_commit.cc and dispatcher_status.cc. Include it nowhere else.
//
// Lock table: `mutex` is the only lock of the core. It is held for the length of each public call
// and released before the wake-up function runs. Nothing else is locked, called back, read or
// written while it is held.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_DISPATCHER_IMPL_H_
#define NIGHTSHIFT_COORDINATOR_CORE_DISPATCHER_IMPL_H_

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "base/random.h"
#include "coordinator/core/batch_sizer.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/core/fair_share.h"
#include "coordinator/core/job_policy.h"
#include "coordinator/core/job_table.h"
#include "coordinator/core/lease_table.h"
#include "coordinator/core/model_sets.h"
#include "coordinator/core/poison.h"
#include "coordinator/core/rate_shares.h"
#include "coordinator/core/worker_registry.h"

namespace nightshift {

struct Dispatcher::Impl {
  explicit Impl(DispatcherOptions o)
      : options(std::move(o)),
        random(options.random_seed ^ (options.epoch * 0x9e3779b97f4a7c15ULL)) {}

  // --- constant -----------------------------------------------------------------------------
  const DispatcherOptions options;
  std::function<void()> wake_up;  // set once, before there are threads

  // --- own lock -------------------------------------------------------------------------------
  std::atomic<bool> has_internal_work{false};
  std::atomic<int64_t> duplicate_results{0};
  std::atomic<int64_t> lapsed_leases{0};
  std::atomic<int64_t> copies_made{0};

  mutable Mutex mutex;
  // --- guarded --------------------------------------------------------------------------------
  Random random ABSL_GUARDED_BY(mutex);
  JobTable jobs ABSL_GUARDED_BY(mutex);
  LeaseTable leases ABSL_GUARDED_BY(mutex);
  WorkerRegistry workers ABSL_GUARDED_BY(mutex);
  RateShares rate_shares ABSL_GUARDED_BY(mutex);
  ModelSets model_sets ABSL_GUARDED_BY(mutex);
  uint64_t last_lease_id ABSL_GUARDED_BY(mutex) = 0;
  // Numbers every change that a watcher may care for: of a job, or of the fleet (which may change
  // what any running job waits for).
  uint64_t last_version ABSL_GUARDED_BY(mutex) = 0;
  uint64_t fleet_version ABSL_GUARDED_BY(mutex) = 0;
  // Why nothing goes out for now; empty: it does.
  std::string disk_hold ABSL_GUARDED_BY(mutex);
  // What lower classes of jobs may give beside higher ones.
  ClassFloor class_floor ABSL_GUARDED_BY(mutex);
  // Jobs whose next transition comes by itself.
  std::set<JobNumber> internal_work ABSL_GUARDED_BY(mutex);
  // Workers that are gone, while the commit that takes their leases from them is to come.
  std::set<WorkerNumber> lost ABSL_GUARDED_BY(mutex);

  // What Prepare has decided and Apply has not yet done.
  struct Outstanding {
    std::map<JobNumber, JobDraft> drafts;
    std::vector<MonotonicTime> retry_due;                        // one per decision
    std::vector<WorkerNumber> lost_with;                         // one per loss
    std::vector<std::pair<WorkerNumber, RequestId>> superseded;  // copies that nobody needs now
  };
  Outstanding outstanding ABSL_GUARDED_BY(mutex);
  bool plan_outstanding ABSL_GUARDED_BY(mutex) = false;

  void WakeUp() const ABSL_LOCKS_EXCLUDED(mutex) {
    if (wake_up) wake_up();
  }

  // --- dispatcher.cc
  void Load(std::vector<LoadedJob> loaded, MonotonicTime now);
  void Touch(Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { job->version = ++last_version; }
  void TouchFleet() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { fleet_version = ++last_version; }
  JobDraft DraftOf(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void SetInternalWork(JobNumber job, bool waits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void SetLost(WorkerNumber worker, bool is_lost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // --- dispatcher_workers.cc
  absl::StatusOr<HelloReply> OnHello(const v1::Hello& hello, MonotonicTime now, absl::Time wall);
  // `matters`: somebody is to be woken, since there are jobs, or people may want to see the change.
  v1::RateShares OnReport(WorkerNumber number, const v1::Report& report, MonotonicTime now,
                          bool* matters);
  void OnReturned(WorkerNumber number, const v1::Returned& returned, MonotonicTime now);
  void OnDrain(WorkerNumber number, MonotonicTime now);
  void OnStreamClosed(WorkerNumber number, MonotonicTime now);
  // How long a worker without a stream keeps its leases.
  absl::Duration ReconnectGrace() const;
  void Tick(MonotonicTime now);
  void Ungrant(WorkerNumber number, absl::Span<const RequestId> ids);
  // Whether a request that a Hello holds stays with the worker.
  bool KeepHeld(Worker* worker, const v1::HeldRequest& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  static int32_t ChargedAttempts(const Job& job, uint64_t index);
  // A failure or rejection of an earlier run, which `retry` has put an end to. (An answer is one
  // whichever run asked for it.)
  static bool OfAnEarlierRun(const Job& job, int32_t run, v1::AttemptResult::Kind kind) {
    return kind != v1::AttemptResult::ANSWERED && run != 0 && run != job.record.run();
  }
  // The worker has it no more; back to the front of its job, unless another worker goes on with it.
  void TakeBack(const RequestId& id, WorkerNumber worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Lapse(Worker* worker, MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The worker may have been given up, and has been heard of: it is no loss.
  void NoteAlive(Worker* worker, WorkerState before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Whether all it holds is one accused request, which it got as such.
  bool OnTrial(WorkerNumber worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Whether another worker, with nothing on trial, died when this one did.
  bool LostTogether(const Worker& worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // --- dispatcher_grants.cc
  // A job with requests that could go out now.
  struct Source {
    Job* job;
    int32_t priority;
    int64_t out;       // held by workers, copies left aside
    int64_t reserved;  // of its deadline: so many should be out before others are considered
    std::array<int64_t, kCautions> available;
    bool granted = false;

    int64_t Available(Caution caution) const { return available[static_cast<size_t>(caution)]; }
  };
  // A backend that could take requests of some running job.
  struct Taker {
    Worker* worker;
    uint32_t place;
    BackendLoad load;
    double speed;  // requests per second, or a guess while that is not known
    double fair = 0;
    bool has_lane = false;  // something waits that only such backends may do
    bool cut_off = false;   // the rest is better done by others

    Backend& backend() const { return worker->backends[place]; }
  };
  struct Sources {
    std::vector<Source> all;
    std::vector<int32_t> classes;     // priorities, falling
    std::vector<int64_t> unfinished;  // requests by model set, of all jobs, not in lanes
    std::vector<bool> routed;         // by model set: a job has a route
    double cost = 1;                  // seconds of a request of a job of which none has ended
  };
  GrantPlan PlanGrants(MonotonicTime now);
  Sources FindSources(MonotonicTime now, MonotonicTime* next_due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Empty when none wants anything.
  std::vector<Taker> FindTakers(const Sources& sources) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool Serves(const Taker& taker, int model_set) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return workers.Serves(&taker.backend(), model_sets, model_set);
  }
  // Shares what is unfinished out in proportion to speed.
  void SetFair(const Sources& sources, std::vector<Taker>* takers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Likewise what waits in the lanes of the job, among those who serve them.
  void SetFairOfLanes(const Job& job, std::vector<Taker>* takers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Jobs that have just come begin beside those that compete with them.
  void Join(const std::vector<Taker>& takers, Sources* sources)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What jobs with a deadline should have out.
  void Reserve(const std::vector<Taker>& takers, Sources* sources)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // How many more requests of this class, and as what, the backend is given; less when there is
  // less.
  int64_t AddClass(const Taker& taker, int64_t count, int32_t priority, int32_t as_priority,
                   Sources* sources, Grant* grant, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What the job brings to a division among jobs.
  static ShareCandidate Candidate(const Source& source, double unknown_cost);
  // Lone requests at the server behind a backend, whichever workers call it.
  int64_t LoneAt(const Worker& worker, uint32_t place) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Leases these of the source.
  void AddToGrant(const Taker& taker, Source* source, absl::Span<const uint64_t> indexes,
                  Caution caution, int32_t priority, Grant* grant, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Leases `count` more requests of the source.
  void AddToGrant(const Taker& taker, Source* source, int64_t count, Caution caution,
                  int32_t priority, Grant* grant, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Whether a worker has lived long enough to try accused requests.
  bool MayTry(const Worker& worker, MonotonicTime now) const {
    return now - worker.first_heard >= options.lease_ttl;
  }
  struct Trials;
  Trials PlanTrials(const std::vector<Source>& sources, const std::vector<Taker>& takers,
                    MonotonicTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // One accused request; empty when the backend serves none.
  Grant MakeTrial(const Taker& taker, std::vector<Source>* sources, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What the backend gets now, perhaps nothing.
  Grant GrantFor(const Taker& taker, Sources* sources, Trials* trials, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // --- dispatcher_tail.cc
  // The mean time of a call, over all that the backends have told; 1 while nobody knows.
  double FleetLatency() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // How the times of calls spread: what nine in ten take at most, as a multiple of the mean.
  double SpreadOf(int model_set) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Which backends get nothing more, since others end what is left before they would.
  void CutOff(const Sources& sources, std::vector<Taker>* takers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Whether what the backend holds may be of a job with a route, and so for nobody else.
  bool ServesRouted(const Taker& taker, const Sources& sources)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What others hold unstarted, for backends that stand idle; nothing of jobs with a route.
  void PlanRecalls(const std::vector<Taker>& takers, const Sources& sources, GrantPlan* plan,
                   MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Second calls, for slots that nothing else is left for.
  void PlanCopies(const std::vector<Taker>& takers, GrantPlan* plan, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  struct Slow;
  std::vector<Slow> FindSlow(const std::vector<Taker>& takers, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What jobs with a deadline need, and which of them will be late.
  void PlanForDeadlines(MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // --- dispatcher_routes.cc
  // Of a job that has just been made.
  static void SetRoute(Job* job);
  // Which lanes of its route somebody serves now.
  void LookAtLanes(Job* job, MonotonicTime now, MonotonicTime* next_due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // How many steps a request in `lane` goes on to be answered by `backend`; -1: it does not.
  int StepsTo(const Job& job, Lane lane, const std::string& backend) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  int64_t WaitingInLanes(const Job& job, const std::string& backend) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  std::vector<uint64_t> TakeFromLanes(Job* job, const std::string& backend, int64_t count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  std::vector<bool> Route(WorkerNumber number, absl::Span<const RequestId> ids,
                          absl::Span<const std::string* const> custom_ids);
  // Whether a request whose attempt has failed is tried by the next backend of its route.
  // Of a request whose custom_id is not at hand: as far as the backend that has it tells.
  static LeaseWay ClaimedWay(const Job& job, uint64_t index, absl::string_view backend);
  static bool MovesOn(const Job& job, const Lease* lease, const v1::AttemptResult& result);

  // --- dispatcher_commit.cc
  CommitPlan Prepare(absl::Span<const ResultEvent> results, absl::Span<const JobCommand> commands,
                     std::vector<absl::Status>* refused, MonotonicTime now, absl::Time wall);
  // `retry_due` is set when the request is to be tried again.
  ResultDecision Decide(const ResultEvent& event, MonotonicTime now, absl::Time wall,
                        MonotonicTime* retry_due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What the result says about the job's calls.
  void Measure(const v1::AttemptResult& result, Job* job, WorkerNumber number, const Lease* lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  JobDraft* Draft(Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What becomes of the requests that lost workers hold, at most kLossesPerCommitMax at a time.
  void DecideLosses(CommitPlan* plan, absl::Time wall) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // `worker`: null when it is known no more.
  ResultDecision DecideLoss(const RequestId& id, WorkerNumber number, const Worker* worker,
                            bool together, absl::Time wall) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Writes an outcome that is failed or succeeded into the draft of its job.
  void CountOutcome(const v1::OutcomeRecord& outcome, JobDraft* draft)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Drops the drafts of a plan that changes nothing.
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Status PrepareCommand(const JobCommand& command, absl::Time wall)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Status PrepareSeal(const JobCommand& command, absl::Time wall)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  std::vector<Outgoing> Apply(const CommitPlan& plan, MonotonicTime now);
  void ApplyDecision(const ResultDecision& decision, MonotonicTime due, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void ApplyLoss(const ResultDecision& decision, WorkerNumber worker, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Makes (kSeal) or refills (kReopen) the job of the command.
  void ApplyOpening(const JobCommand& command, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void ApplyDraft(JobNumber number, JobDraft draft,
                  std::map<WorkerNumber, std::vector<RequestId>>* given_up)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // --- dispatcher_status.cc
  void CheckConsistent() const;
  v1::Counts CountsOf(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::StatusOr<v1::JobStatus> GetStatus(JobNumber number, MonotonicTime now) const;
  std::vector<v1::WorkerStatus> ListWorkers(MonotonicTime now) const;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_DISPATCHER_IMPL_H_
