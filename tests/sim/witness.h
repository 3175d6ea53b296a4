// The memory of what was promised, kept apart from the product, and the judge of everything that
// becomes durable or is said. It sees each commit before and after, each acknowledgement, each
// lease and call, and what clients were told.
//
// What it holds the product to:
//   one outcome per request and run, which never changes; an answer is the backend's, byte for byte
//   an acknowledged result is in the store, and stays there; so does an acknowledged job
//   a job that has ended changes only by a retry, into its next run, or by deletion
//   jobs move along the edges of their states; two jobs never share a token
//   no more charged attempts than the job allows, and each is counted once
//   nothing goes out of a job that has been stopped for some seconds
//   run numbers of the coordinator only rise
//   a request is recorded as the death of its workers after three at least; one that kills them
//   kills few, where the coordinator can see who dies
//   a worker calls a backend only for what is leased to it and was not taken back, once at a time
#ifndef NIGHTSHIFT_TESTS_SIM_WITNESS_H_
#define NIGHTSHIFT_TESTS_SIM_WITNESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/core/ids.h"
#include "nightshift/v1/record.pb.h"
#include "nightshift/v1/worker.pb.h"
#include "storage/store.h"
#include "storage/write_set.h"

namespace nightshift::sim {

class Witness {
 public:
  // `on_violation` takes a sentence; called at the place where it is noticed.
  // `sees_all_deaths`: see Plan.
  Witness(std::function<void(std::string)> on_violation, bool sees_all_deaths)
      : on_violation_(std::move(on_violation)), sees_all_deaths_(sees_all_deaths) {}

  void Violation(std::string what) { on_violation_(std::move(what)); }

  // --- the disk ----------------------------------------------------------------------------------
  // Around a commit that takes effect; `rows` are those before, then those after.
  void BeforeCommit(const Store& rows, const WriteSet& writes, MonotonicTime now);
  void AfterCommit();
  // Everything that was ever committed and not taken back must be there.
  void CheckRows(const Store& rows);
  // No rows of anything but these jobs; nothing is being handed in.
  void CheckNothingElse(const Store& rows, const std::vector<JobNumber>& jobs);
  void OnEpoch(uint64_t epoch);

  // --- workers -----------------------------------------------------------------------------------
  void OnLeased(const std::string& session, const v1::Lease& lease);
  // The worker has been told that these are not its own any more, or has said so itself.
  void OnLost(const std::string& session, const v1::RequestKey& key);
  // A request kills the worker that calls a backend with it.
  void OnPoisoned(const v1::RequestKey& key);
  void OnCallStarted(const std::string& session, const v1::RequestKey& key);
  // `answered`: with an answer that was wanted, and cost something.
  void OnCallEnded(const std::string& session, const v1::RequestKey& key, bool answered);
  void OnResultSent(const std::string& session, const v1::AttemptResult& result);
  // The coordinator sends a lease. `patience`: how long leases of a job that has been stopped may
  // still be under way inside it.
  void OnLeaseSent(const v1::Lease& lease, MonotonicTime now, absl::Duration patience);
  // The coordinator confirms results of this session; what is confirmed must be in `rows`.
  void OnAcknowledged(const std::string& session, const v1::Acknowledge& acknowledge,
                      const Store& rows);

  // A request that two calls have been answered for; empty when there is none.
  const std::string& answered_twice() const { return answered_twice_; }
  // The most workers that one request has killed in one run of its job.
  int kills_max() const { return kills_max_; }
  int64_t calls() const { return calls_; }
  // Second calls that a run of the coordinator asked for; requests handed back for others.
  void OnCopies(int64_t count) { copies_ += count; }
  void OnRecalled(int64_t count) { recalled_ += count; }
  int64_t copies() const { return copies_; }
  int64_t recalled() const { return recalled_; }
  int64_t outcomes() const { return static_cast<int64_t>(outcomes_seen_); }
  int64_t commits() const { return commits_; }

 private:
  using Request = std::pair<JobNumber, uint64_t>;
  struct Held {
    bool leased = false;
    int calls = 0;
  };
  struct Sent {
    Request id;
    v1::AttemptResult::Kind kind;
    int32_t run;
  };
  struct Before {
    bool present = false;
    v1::JobRecord record;
  };
  struct Commit;

  void JudgeJobRow(JobNumber job, const Before& before, const v1::JobRecord& after,
                   MonotonicTime now);
  void JudgeAttempts(const Store& rows, const Request& id, const std::string& value,
                     const v1::JobRecord& job);
  void JudgeOutcome(const Store& rows, const Request& id, const v1::OutcomeRecord& outcome,
                    const std::string* body, const v1::JobRecord& job);
  void JudgeCrashed(const Store& rows, const Request& id, const v1::OutcomeRecord& outcome);
  int64_t OutcomesWith(const WriteSet& writes, JobNumber job) const;
  static Before ReadJob(const Store& rows, JobNumber job);
  static std::string Name(const Request& id);

  const std::function<void(std::string)> on_violation_;
  const bool sees_all_deaths_;

  std::map<Request, std::string> outcomes_;  // rows as they are in the store
  std::map<JobNumber, std::string> jobs_;    // … of sealed jobs: what may never change of them
  std::map<std::string, JobNumber> tokens_;
  std::map<JobNumber, int64_t> run_began_;  // the commit that made the present run, after the first
  std::map<JobNumber, MonotonicTime> stopped_;       // since when nothing of it may go out
  std::vector<std::function<void()>> after_commit_;  // what to remember if the commit succeeds
  uint64_t epoch_ = 0;
  int coordinator_runs_ = 0;

  std::map<Request, int> kills_;  // in the present run of the job
  int kills_max_ = 0;

  std::map<std::string, std::map<Request, Held>> held_;
  std::map<std::pair<std::string, uint64_t>, Sent> sent_;  // by session and sequence
  std::map<Request, int> answers_;
  std::string answered_twice_;
  int64_t calls_ = 0;
  int64_t outcomes_seen_ = 0;
  int64_t commits_ = 0;
  int64_t copies_ = 0;
  int64_t recalled_ = 0;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_WITNESS_H_
