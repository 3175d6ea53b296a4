// Recounts one chunk of a job from its rows.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_CHUNK_AUDIT_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_CHUNK_AUDIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/core/ids.h"
#include "nightshift/v1/record.pb.h"
#include "storage/store.h"

namespace nightshift {

// What is wrong, in words; the first ones are kept, all are counted.
class AuditFindings {
 public:
  explicit AuditFindings(int kept_max) : kept_max_(kept_max) {}

  void Add(std::string finding) {
    if (++count_ <= kept_max_) kept_.push_back(std::move(finding));
  }
  // Nothing when `status` is OK.
  void AddStatus(absl::string_view where, const absl::Status& status);

  int64_t count() const { return count_; }
  const std::vector<std::string>& kept() const { return kept_; }

 private:
  const int kept_max_;
  int64_t count_ = 0;
  std::vector<std::string> kept_;
};

struct ChunkRecount {
  v1::ProgressSums sums;
  int64_t cancelled = 0;  // outcome rows of these kinds
  int64_t expired = 0;
  int64_t unfinished = 0;
};

// Compares requests, outcomes, answers, attempts and progress of chunk `chunk` in one consistent
// view, and adds what it counts to `recount`. `in_memory` is the coordinator's own bitmap of the
// chunk, taken before this call, or empty: it must not be ahead of the store.
void AuditChunk(const Store& store, JobNumber job, int64_t total, uint32_t chunk,
                absl::string_view in_memory, ChunkRecount* recount, AuditFindings* findings);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_CHUNK_AUDIT_H_
