// The results and errors files are views: this walks the outcomes of a job in input order and
// prints their lines. Memory is one chunk, whatever the job's size.
#ifndef NIGHTSHIFT_COORDINATOR_JOBS_OUTPUT_READER_H_
#define NIGHTSHIFT_COORDINATOR_JOBS_OUTPUT_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/core/dispatcher.h"
#include "nightshift/v1/jobs.pb.h"
#include "nightshift/v1/record.pb.h"
#include "storage/store.h"

namespace nightshift {

// One line of a file, with its LF. `body` is the answer's bytes, empty when there is none.
std::string OutputLine(const v1::JobRecord& job, uint64_t index, const v1::RequestRecord& request,
                       const v1::OutcomeRecord& outcome, absl::string_view body);

// Not thread-safe.
class OutputReader {
 public:
  static absl::StatusOr<std::unique_ptr<OutputReader>> Create(Store& store,
                                                              const Dispatcher& dispatcher,
                                                              const v1::ReadOutputRequest& request);
  virtual ~OutputReader() = default;

  // The next lines, about `bytes_max` of them (at least one line). An empty chunk means: nothing
  // more now. For a job that has ended that is the end, and it is for good; requests of a cancelled
  // or expired job that have no outcome row are printed in the errors file as `batch_cancelled` or
  // `batch_expired`. With `follow`, lines come as requests finish and an empty chunk of a job that
  // has not ended means: call again when the job has changed (Dispatcher::ChangeCount); with
  // `in_order` as well, lines stop at the first request that is not finished.
  virtual absl::StatusOr<v1::OutputChunk> Next(size_t bytes_max) = 0;

  // True once nothing more can ever come.
  virtual bool AtEnd() const = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_JOBS_OUTPUT_READER_H_
