// The batches that were created over HTTP: what the API tells of them beside the job. A batch is
// durable before anybody hears its id.
//
// Memory: a small record per batch; lists of bad lines stay in the store. Thread-safe. Changes are
// made one at a time: commit_mutex_ is held across each commit (a millisecond), so that two
// creations of the same batch cannot pass each other; mutex_ is taken after it and held briefly.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_BATCH_TABLE_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_BATCH_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "nightshift/v1/files.pb.h"
#include "storage/store.h"

namespace nightshift {

inline constexpr absl::string_view kBatchIdPrefix = "batch_";
// A client that sends the same request again, and says that it does, gets the same batch for this
// long.
inline constexpr absl::Duration kRetryWindow = absl::Minutes(10);

// "batch_x" of "job_x" and the other way round; empty for anything else.
std::string BatchIdOfJob(absl::string_view job_id);
std::string JobIdOfBatch(absl::string_view batch_id);

class BatchTable {
 public:
  // The references must outlive it.
  static absl::StatusOr<std::unique_ptr<BatchTable>> Open(Store& store, Clock& clock);

  // Makes a batch of `record`, or returns the one that was made before of the same idempotency key,
  // or, with `is_retry`, of the same body lately. FailedPrecondition when the key was used with
  // another body. Id, time and phase are set here. Tenants know nothing of each other's batches.
  // `may_make` is asked before a new one is made, one at a time; its error is the answer.
  absl::StatusOr<v1::BatchRecord> Create(v1::BatchRecord record, bool is_retry, bool* created,
                                         absl::FunctionRef<absl::Status()> may_make);

  absl::StatusOr<v1::BatchRecord> Find(absl::string_view id) const;

  struct Summary {
    std::string id;
    int64_t created_at_ms = 0;
    v1::BatchPhase phase = v1::BATCH_PHASE_UNSPECIFIED;
    std::string tenant;
  };
  // In no order.
  std::vector<Summary> List() const;
  // Those whose input is not known to be good or bad yet, oldest first.
  std::vector<std::string> Validating() const;
  // Those among them with this input.
  std::vector<std::string> ValidatingWith(absl::string_view file_id) const;

  // Changes a record durably. NotFound when it is gone.
  absl::StatusOr<v1::BatchRecord> Update(absl::string_view id,
                                         absl::FunctionRef<void(v1::BatchRecord&)> change);
  // The input was refused.
  absl::Status Fail(absl::string_view id, const v1::BatchErrors& errors);
  absl::StatusOr<v1::BatchErrors> Errors(absl::string_view id) const;
  // Those that ended without a job (refused, or cancelled before there was one) before that time.
  std::vector<std::string> EndedBefore(int64_t ms) const;
  // In one commit.
  absl::Status Remove(const std::vector<std::string>& ids);

 private:
  BatchTable(Store& store, Clock& clock);
  absl::Status Load();
  void Index(const v1::BatchRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The id of the batch that the same request made before; empty when there is none.
  std::string Earlier(const v1::BatchRecord& record, bool is_retry, int64_t now_ms) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(const v1::BatchRecord& record, const v1::BatchErrors* errors)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(commit_mutex_);

  Store& store_;
  Clock& clock_;
  Mutex commit_mutex_;
  Random random_ ABSL_GUARDED_BY(commit_mutex_);
  int64_t last_created_ms_ ABSL_GUARDED_BY(commit_mutex_) =
      0;  // lists are in the order of creation
  mutable Mutex mutex_;
  std::map<std::string, v1::BatchRecord, std::less<>> batches_ ABSL_GUARDED_BY(mutex_);
  // The latest batch of each.
  std::map<std::string, std::string> by_key_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> by_body_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_BATCH_TABLE_H_
