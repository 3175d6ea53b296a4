// A job on its way in: one Submit stream, from the first message to the seal. Requests are written
// to the store as they come (synced in batches), so memory does not grow with the job; the job is
// real only with the seal, which is one synced commit. Whatever ends before that leaves nothing:
// the rows are removed by the destructor or, after a crash, by DropUnsealedJobs.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_SUBMISSION_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_SUBMISSION_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/commit/command_sink.h"
#include "coordinator/core/dispatcher.h"
#include "nightshift/v1/jobs.pb.h"
#include "storage/store.h"

namespace nightshift {

// At most this many bad lines are listed; all are counted.
inline constexpr int kBadLinesListedMax = 1000;

// Rows are written and synced when so many are there, or so many bytes. A sync costs the same up to
// about 2 MiB.
inline constexpr size_t kStagedRowsMax = 4096;
inline constexpr size_t kStagedBytesMax = size_t{2} << 20;

// What a job is given by whoever announced it before it was handed in.
struct SubmissionIdentity {
  // "job_" and kJobIdChars characters that no other job has. Empty: one is made.
  std::string job_id = {};
  // When it expires; infinitely far off: the option's time after the seal.
  absl::Time deadline = absl::InfiniteFuture();
  // Whose it is.
  std::string tenant = {};
};

// Not thread-safe. The references must outlive it.
class Submission {
 public:
  // `temporary_dir` takes the duplicate check's overflow of very large jobs.
  static absl::StatusOr<std::unique_ptr<Submission>> Begin(Store& store, CommandSink& committer,
                                                           Dispatcher& dispatcher, Clock& clock,
                                                           const v1::SubmitBegin& begin,
                                                           std::string temporary_dir,
                                                           SubmissionIdentity identity = {});
  virtual ~Submission() = default;

  // Checks each request again as far as the store relies on it (custom_id 1 to 512 bytes, a known
  // endpoint, a body that is one JSON object) and keeps it. Bad ones are remembered, not an error.
  virtual absl::Status Add(v1::SubmitRequests requests) = 0;

  // Finds duplicate custom_ids, then refuses, finds the job of the same token, or makes the job:
  // in that order.
  virtual absl::StatusOr<v1::SubmitReply> Seal(const v1::SubmitSeal& seal) = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_SUBMISSION_H_
