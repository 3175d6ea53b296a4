// The coordinator's memory and the order of its steps: which jobs there are, what of them is
// finished, who holds what, and what goes out next. It owns the one lock of the core; decisions
// are made in the pure files beside it (job_state, pending_queue, lease_table, worker_registry,
// batch_sizer, fair_share, deadlines, speculation, retry_policy, poison). It does no I/O and asks
// no clock: `now` is an argument, and what must be written or sent is returned to the caller.
//
// Thread-safe. Nothing slow happens under its lock.
//
// Durable state changes have three steps, all driven by the committer's single thread:
//   Prepare… (decide, under the lock)  →  Store::Commit  →  Apply… (move memory, under the lock)
// so that memory never says what the disk does not. Between the two a request is "committing":
// nobody can lease it and a second result for it is a duplicate.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_DISPATCHER_H_
#define NIGHTSHIFT_COORDINATOR_CORE_DISPATCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "base/random.h"
#include "coordinator/core/ids.h"
#include "nightshift/v1/jobs.pb.h"
#include "nightshift/v1/record.pb.h"
#include "nightshift/v1/worker.pb.h"
#include "storage/write_set.h"

namespace nightshift {

struct DispatcherOptions {
  // A worker that has been silent for this long loses its leases (later while it tries a request
  // that may have killed others; see poison.h).
  absl::Duration lease_ttl = absl::Seconds(30);
  // One whose stream has ended comes back within two seconds if it lives and the network does: its
  // requests are with others after this and a second of looking. Longer: dead workers cost more
  // time; shorter: so do connections that break, in calls made twice. Never above `lease_ttl`.
  absl::Duration reconnect_grace = absl::Seconds(7);
  // After a restart, how long requests that may be in a worker's hands wait to be claimed. Zero
  // when no worker can have survived (the embedded coordinator of `nightshift run`).
  absl::Duration reclaim_grace = absl::Seconds(10);
  uint64_t random_seed = 0;  // of retry jitter
  uint64_t epoch = 1;
  std::string store_id = {};  // what a worker holds from another store is ignored
  // False: no request is ever called twice on purpose, whatever its job says.
  bool speculates = true;
};

// Everything about a job that a restart reads back. See coordinator/jobs/recovery.h.
struct LoadedJob {
  JobNumber number = 0;
  v1::JobRecord record;
  // One per chunk of kChunkRequests, in order; bitmap of finished requests. Empty for jobs in a
  // terminal state, whose sums are enough.
  std::vector<std::string> finished_bitmaps;
  v1::ProgressSums sums;
  std::vector<std::pair<uint64_t, v1::AttemptRecord>> attempts;
};

// One batch of requests for one backend of one worker; the bodies are read by the caller. Among
// them may be copies of what another worker holds (speculation.h): to the caller they are like all
// others.
struct Grant {
  WorkerNumber worker = 0;
  uint64_t lease_id = 0;
  std::string backend;
  struct Item {
    RequestId id;
    int32_t attempt = 0;  // charged attempts so far
    int32_t run = 0;      // of the job
    int32_t priority = 0;
  };
  std::vector<Item> items;  // grouped by job, indexes rising within a run
  bool routed = false;      // some are of a job with a route: ask Route before sending
};

// A message for a worker that the caller sends after the step that returned it.
struct Outgoing {
  WorkerNumber worker = 0;
  v1::CoordinatorMessage message;
};

struct GrantPlan {
  std::vector<Grant> grants;
  // Jobs whose lease frontier must be durable (Committer::Execute with kFrontier) before any of
  // the grants is sent.
  std::vector<JobNumber> frontier_moved;
  // Messages for workers that hold more than they can do; any time.
  std::vector<Outgoing> recalls;
  // When to plan again even if nothing happens (a retry or a grace period is due).
  MonotonicTime next_due = MonotonicTime::Infinite();
};

// What the committer is asked to do to a job, besides recording results.
struct JobCommand {
  enum class Kind {
    kSeal,      // a submitted job becomes real: `record` is whole, its requests are in the store
    kFrontier,  // make the lease frontier durable
    kPause,
    kResume,
    kCancel,
    kExpire,  // the deadline has passed
    kStop,    // an error policy: state `failed`, with `detail`
    // `retry`: the job runs again; `finished_bitmaps` and `sums` are what stays, as read from the
    // store while the job was in run `record.run` (0 = not checked). Aborted when it has changed.
    kReopen,
    kDelete,
  };
  Kind kind = Kind::kFrontier;
  JobNumber job = 0;
  v1::PauseReason reason = v1::PAUSE_REASON_NONE;
  std::string detail;
  // kResume: the budgets from now on; 0 = as they were.
  double budget_usd = 0;
  int64_t budget_tokens = 0;
  v1::JobRecord record;  // kSeal
  // kSeal: indexes that are failed from the start (bad lines taken with --skip-bad-lines), rising.
  std::vector<uint64_t> invalid;
  // kReopen: what is finished after the reopening, as in LoadedJob.
  std::vector<std::string> finished_bitmaps;
  v1::ProgressSums sums;
  // kSeal, kReopen: rows that go into the same commit.
  WriteSet extra;
};

// The decision about one result of a worker.
struct ResultDecision {
  enum class Kind {
    kRecord,     // write the outcome of `outcome`; the body is the result's
    kRetry,      // write `attempts`, try again later
    kDuplicate,  // has an outcome: count, acknowledge, drop
    kDrop,       // unknown, deleted, cancelled or ended job: acknowledge, drop
  };
  Kind kind = Kind::kDrop;
  RequestId id;
  v1::OutcomeRecord outcome;         // kRecord, complete but for body_size
  v1::AttemptRecord attempts;        // kRetry: the row to write
  bool delete_attempts_row = false;  // kRecord: there is a row to delete
};

struct ResultEvent {
  WorkerNumber worker = 0;
  v1::AttemptResult result;
};

// What one commit does to memory once it is durable; made by Prepare, used once by Apply.
struct CommitPlan {
  // One per result given to Prepare, same order.
  std::vector<ResultDecision> decisions;
  // Of requests that lost workers held: kRetry, or kRecord without an answer.
  std::vector<ResultDecision> losses;
  // Job rows to write in the same commit, whole.
  struct JobWrite {
    JobNumber job = 0;
    v1::JobRecord record;
    bool erase = false;  // delete the job with all its rows
  };
  std::vector<JobWrite> job_writes;
  std::vector<JobCommand> commands;  // those that Prepare accepted
};

class Dispatcher {
 public:
  explicit Dispatcher(DispatcherOptions options);
  ~Dispatcher();

  // Called (under no lock) whenever a grant may have become possible or a job's status changed, so
  // that the grant loop and watchers can look. Set once, before anything else.
  void SetWakeUp(std::function<void()> wake_up);

  // --- start -----------------------------------------------------------------------------------
  // Before serving. Requests below a job's lease frontier wait `reclaim_grace` from `now`.
  void Load(std::vector<LoadedJob> jobs, MonotonicTime now);

  // --- workers ---------------------------------------------------------------------------------
  struct HelloReply {
    WorkerNumber worker = 0;
    v1::Welcome welcome;
  };
  // InvalidArgument for another protocol. A Hello of a session that is connected already replaces
  // the old stream (the caller closes it).
  absl::StatusOr<HelloReply> OnHello(const v1::Hello& hello, MonotonicTime now, absl::Time wall);
  // What the worker may use of the accounts that it names; mostly empty.
  v1::RateShares OnReport(WorkerNumber worker, const v1::Report& report, MonotonicTime now);
  void OnReturned(WorkerNumber worker, const v1::Returned& returned, MonotonicTime now);
  void OnDrain(WorkerNumber worker, const v1::Drain& drain, MonotonicTime now);
  void OnStreamClosed(WorkerNumber worker, MonotonicTime now);
  // Lapses the leases of workers that have been silent for lease_ttl, or without a stream for
  // reconnect_grace: the next commit says what becomes of the requests (HasInternalWork). Reckons
  // anew what jobs with a deadline need. Call every second.
  void Tick(MonotonicTime now);

  // --- leases ----------------------------------------------------------------------------------
  // Decides what goes out now and marks it leased.
  GrantPlan PlanGrants(MonotonicTime now);
  // Of leased requests whose custom_ids have been read, one each: whether they are this worker's.
  // Those that are not wait for a backend that they belong to, and the caller must not send them.
  std::vector<bool> Route(WorkerNumber worker, absl::Span<const RequestId> ids,
                          absl::Span<const std::string* const> custom_ids);
  // The caller could not send these (stream gone, message full): they go back to the front.
  void Ungrant(WorkerNumber worker, absl::Span<const RequestId> ids, MonotonicTime now);
  // The disk is too full to take on more, or (empty) no longer: nothing is granted, jobs that could
  // run are shown as paused for `disk`, and TakesNewJobs says no. What comes back is taken as ever.
  // `why` is a sentence for people. Of memory alone: no row has to be written on a full disk to say
  // that it is full, and none is left behind.
  void HoldForDisk(std::string why);
  // OK, or ResourceExhausted with the reason.
  absl::Status TakesNewJobs() const;

  // --- commits (the committer's thread only) ----------------------------------------------------
  // `results` are in order of arrival; of one request's, an answer goes before a failure that may
  // be tried again. For each command either a place in plan.commands or a status in `refused` (same
  // length as `commands`, OK = accepted).
  CommitPlan Prepare(absl::Span<const ResultEvent> results, absl::Span<const JobCommand> commands,
                     std::vector<absl::Status>* refused, MonotonicTime now, absl::Time wall);
  // After the commit is durable. Returns messages for workers (revocations); acknowledgements are
  // the committer's.
  std::vector<Outgoing> Apply(const CommitPlan& plan, MonotonicTime now, absl::Time wall);
  // Whether a state change waits that no result or command asks for (the end of a cancellation,
  // what a crash interrupted, what a lost worker held). Run another round, with nothing if need be:
  // every Prepare takes it up. Cheap; the wake-up is called when it becomes true. Look after Load,
  // too.
  bool HasInternalWork() const;

  // --- what people see -------------------------------------------------------------------------
  // NotFound, or InvalidArgument for an ambiguous prefix.
  absl::StatusOr<JobNumber> FindJob(absl::string_view id_or_prefix) const;
  // The same among the jobs of one tenant: no others exist.
  absl::StatusOr<JobNumber> FindJobOf(absl::string_view tenant,
                                      absl::string_view id_or_prefix) const;
  std::optional<JobNumber> FindJobByToken(absl::string_view token) const;
  absl::StatusOr<v1::JobStatus> GetStatus(JobNumber job, MonotonicTime now) const;
  // Newest first.
  std::vector<JobNumber> ListJobs() const;
  // The same with what lists are made of, without copying whole records.
  struct JobHead {
    JobNumber job = 0;
    std::string id;
    std::string tenant;
    int64_t created_at_ms = 0;
    bool ended = false;
  };
  std::vector<JobHead> ListHeads() const;
  std::vector<v1::WorkerStatus> ListWorkers(MonotonicTime now) const;
  absl::StatusOr<v1::JobRecord> GetRecord(JobNumber job) const;
  // A copy of the finished bitmap of one chunk; NotFound past the end. Jobs loaded in a terminal
  // state have none in memory: FailedPrecondition.
  absl::StatusOr<std::string> FinishedBitmap(JobNumber job, uint32_t chunk) const;
  // Rises with every change of the job that a watcher may care for; 0 = unknown job.
  uint64_t ChangeCount(JobNumber job) const;
  // Jobs in a non-terminal state whose deadline has passed. The deadline is a wall-clock time in
  // the job's record; the first call that sees it settles how far off it is, and from then on only
  // the monotonic clock counts, so that a clock that is set expires nothing. To be called every
  // second or so.
  std::vector<JobNumber> ExpiredJobs(MonotonicTime now, absl::Time wall);

  // Recounts everything the slow way and breaks the program on a difference. For tests and the
  // simulation.
  void CheckConsistent() const;

  int64_t duplicate_results() const;
  int64_t lapsed_leases() const;
  // Second calls that were handed out, and those that are out.
  int64_t copies_made() const;
  int64_t copies_out() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_DISPATCHER_H_
