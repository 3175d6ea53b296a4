// The jobs that the coordinator knows, and the ways to find one.
//
// Used by the dispatcher under its lock; not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_JOB_TABLE_H_
#define NIGHTSHIFT_COORDINATOR_CORE_JOB_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "coordinator/core/fair_share.h"
#include "coordinator/core/ids.h"
#include "coordinator/core/pending_queue.h"
#include "coordinator/core/poison.h"
#include "coordinator/core/rate_meter.h"
#include "coordinator/core/route.h"
#include "coordinator/core/speculation.h"
#include "nightshift/v1/record.pb.h"

namespace nightshift {

// What is remembered of the failed attempts of a request that is not finished.
struct RequestAttempts {
  int32_t charged = 0;
  int32_t lost_workers = 0;
  int32_t moves = 0;  // steps along the job's route
  // The last of them, while it may still turn out to be alive; 0: none, or of an earlier run of the
  // coordinator.
  WorkerNumber lost_with = 0;
  // The last charged attempt ended with its connection.
  bool broke = false;
};

// Whether anybody serves a lane of a job's route.
struct LaneState {
  std::optional<MonotonicTime> seen;  // somebody did, or it was first looked at
  bool down = false;                  // nobody does: the next lane's backends take its requests
};

struct Job {
  JobNumber number = 0;
  v1::JobRecord record;                 // as the disk has it
  v1::ProgressSums sums;                // likewise
  std::unique_ptr<PendingQueue> queue;  // null once the job has ended
  // Only requests with a row in the family `attempts`.
  absl::flat_hash_map<uint64_t, RequestAttempts> attempts;
  int model_set = 0;
  std::unique_ptr<Router> router;  // null: any backend
  std::vector<LaneState> lanes;    // by lane, from 1; as last looked at
  RateMeter rate;
  // Answers since this coordinator started or the job's run began: what the error policy looks at.
  int64_t sampled_succeeded = 0;
  int64_t sampled_failed = 0;
  // The deadline on this process's clock, and the record's deadline that it was reckoned from.
  MonotonicTime due = MonotonicTime::Infinite();
  int64_t due_for_deadline_at_ms = 0;
  // What it has had of the backends, and whether it has been given a start beside the others since
  // it had nothing to give.
  JobWork work;
  bool joined = false;
  DurationSpread durations;
  int64_t copies_made = 0;  // in this run of the coordinator
  // Of what its backends hold, kept for it because of its deadline; and how late it will be.
  double reserved_share = 0;
  double late_seconds = 0;
  uint64_t version = 0;
  // A commit that stops the job is being written: nothing new goes out.
  bool closing = false;

  bool ended() const { return queue == nullptr; }
  double weight() const { return record.options().weight() > 0 ? record.options().weight() : 1; }
  // How a request with these attempts goes out.
  Caution CautionOf(const RequestAttempts& attempts) const;
  // Without an outcome, and without one that is being written.
  int64_t unfinished() const {
    return static_cast<int64_t>(queue->total() - queue->finished() - queue->committing());
  }
};

class JobTable {
 public:
  // Takes the job in; its number and id must be new.
  Job* Add(std::unique_ptr<Job> job);
  void Erase(JobNumber number);
  // Null when unknown. Valid until erased.
  Job* Find(JobNumber number);
  const Job* Find(JobNumber number) const;

  // A whole id, or "job_" and at least kJobIdCharsMin characters that begin only one id. NotFound,
  // or InvalidArgument for an ambiguous beginning. With `tenant`, others' jobs do not exist.
  absl::StatusOr<JobNumber> FindId(absl::string_view id_or_prefix,
                                   const absl::string_view* tenant = nullptr) const;
  std::optional<JobNumber> FindToken(absl::string_view token) const;

  // Those that have not ended, by number. Keep it up to date with UpdateActive after `queue` of a
  // job has come or gone.
  const std::set<JobNumber>& active() const { return active_; }
  void UpdateActive(const Job& job);

  const std::map<JobNumber, std::unique_ptr<Job>>& all() const { return jobs_; }

 private:
  std::map<JobNumber, std::unique_ptr<Job>> jobs_;
  std::set<JobNumber> active_;
  absl::btree_map<std::string, JobNumber> by_id_;
  absl::flat_hash_map<std::string, JobNumber> by_token_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_JOB_TABLE_H_
