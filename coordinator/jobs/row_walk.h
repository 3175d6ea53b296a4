// Walks the rows of one job in one of the families keyed by job and index.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_ROW_WALK_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_ROW_WALK_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/core/ids.h"
#include "storage/store.h"

namespace nightshift {

// Of the store, for a walk over much of a job.
inline constexpr size_t kReadaheadBytes = size_t{1} << 20;

// Not thread-safe. Sees the store as it was when the walk was made.
class RowWalk {
 public:
  // Starts at `first`; `end` is the index to stop before (UINT64_MAX: the end of the job).
  RowWalk(const Store& store, Family family, JobNumber job, uint64_t first, uint64_t end,
          size_t readahead_bytes);

  bool Valid() const { return valid_; }
  // Only while Valid().
  uint64_t index() const { return index_; }
  absl::string_view key() const { return rows_->key(); }
  absl::string_view value() const { return rows_->value(); }

  void Next();
  // Goes to the first row at or after `index`, which must not be behind. True when it is that of
  // `index`.
  bool Find(uint64_t index);
  // OK while Valid() and at the end; DataLoss when a key is none of this family.
  const absl::Status& status() const { return status_; }

 private:
  void Look();

  const JobNumber job_;
  const std::unique_ptr<StoreIterator> rows_;
  bool valid_ = false;
  uint64_t index_ = 0;
  absl::Status status_;
};

// What lines need of a request's row, read without copying its body. The views point into the row.
struct RequestHead {
  absl::string_view custom_id;
  absl::string_view invalid_reason;
  uint64_t endpoint = 0;
  size_t body_bytes = 0;
};
// DataLoss when the row is damaged.
absl::StatusOr<RequestHead> ReadRequestHead(absl::string_view key, absl::string_view value);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_ROW_WALK_H_
