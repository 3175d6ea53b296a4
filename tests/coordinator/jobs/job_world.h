// A coordinator without network: store, dispatcher and committer, with one worker whose answers the
// test gives. "Restart" is a new world over the same store.
#ifndef NIGHTSHIFT_TESTS_COORDINATOR_JOBS_JOB_WORLD_H_
#define NIGHTSHIFT_TESTS_COORDINATOR_JOBS_JOB_WORLD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/commit/committer.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/jobs/output_reader.h"
#include "coordinator/jobs/submission.h"
#include "storage/store.h"

namespace nightshift {

// Lets so many commits through; from then on every commit fails and nothing reaches `inner`, as if
// the machine had stopped there.
class StoppingStore final : public Store {
 public:
  StoppingStore(Store& inner, int64_t commits) : inner_(inner), left_(commits) {}

  absl::Status Commit(WriteSet writes) override;
  absl::Status CheckRoom(size_t bytes) const override { return inner_.CheckRoom(bytes); }
  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const override {
    return inner_.Get(family, key);
  }
  std::unique_ptr<StoreIterator> Scan(Family family, absl::string_view begin, absl::string_view end,
                                      const ScanOptions& options = {}) const override {
    return inner_.Scan(family, begin, end, options);
  }
  absl::Status Health() const override;
  int64_t commits() const;

 private:
  Store& inner_;
  mutable Mutex mutex_;
  int64_t left_ ABSL_GUARDED_BY(mutex_);
  int64_t commits_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

class JobWorld {
 public:
  struct Options {
    CommitterOptions committer;
    DispatcherOptions dispatcher{.reclaim_grace = absl::ZeroDuration()};
  };

  // Starts like the coordinator does: cleans up, loads, serves.
  explicit JobWorld(Store& store) : JobWorld(store, Options()) {}
  JobWorld(Store& store, Options options);
  ~JobWorld();

  Store& store() { return store_; }
  Dispatcher& dispatcher() { return dispatcher_; }
  Committer& committer() { return *committer_; }
  FakeClock& clock() { return clock_; }
  int64_t broken_count() const;
  // Waits for the store to have been found broken.
  void WaitUntilBroken();

  // A good request: custom_id "r-<n>", line n + 1.
  static v1::SubmittedRequest Request(int64_t n);
  static v1::SubmitRequests Requests(int64_t first, int64_t count);

  absl::StatusOr<v1::SubmitReply> Submit(v1::SubmitRequests requests, const v1::SubmitBegin& begin,
                                         const std::string& token);
  // `count` good requests; fails the test unless the job is made.
  JobNumber SubmitJob(int64_t count, const v1::JobOptions& options = {});
  absl::Status Control(JobNumber job, JobCommand::Kind kind);

  // Leases at most `count` requests to the worker, making the frontier durable first.
  absl::StatusOr<std::vector<RequestId>> Lease(int64_t count);

  // Results, numbered in order; `body` names the request.
  v1::AttemptResult Result(RequestId id, v1::AttemptResult::Kind kind);
  // Sends results as one message and waits until all are acknowledged; Unavailable when the store
  // broke instead.
  absl::Status Deliver(std::vector<v1::AttemptResult> results);
  absl::Status Answer(const std::vector<RequestId>& ids);
  // Leases and answers everything of all jobs that can run.
  absl::Status FinishAll();

  std::set<uint64_t> acknowledged() const;
  std::vector<v1::CoordinatorMessage> messages() const;

  v1::JobStatus Status(JobNumber job);
  // Lines of a whole file.
  std::vector<std::string> Lines(JobNumber job, v1::ReadOutputRequest::Kind kind);
  // Fails the test with the audit's findings.
  void ExpectAuditAgrees(JobNumber job);

  static std::string Body(RequestId id);

 private:
  void OnMessage(const Outgoing& message);

  Store& store_;
  FakeClock clock_;
  Dispatcher dispatcher_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::set<uint64_t> acknowledged_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::CoordinatorMessage> messages_ ABSL_GUARDED_BY(mutex_);
  int64_t broken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Committer> committer_;
  std::atomic<bool> made_ = false;  // there is a committer
  WorkerNumber worker_ = 0;
  uint64_t sequence_ = 0;
  std::map<RequestId, int32_t> attempts_;  // as the last lease said
};

// All lines that the reader gives, until it has no more for now.
absl::StatusOr<std::vector<std::string>> ReadLines(OutputReader& reader, size_t bytes_max,
                                                   std::string* cursor = nullptr);

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_COORDINATOR_JOBS_JOB_WORLD_H_
