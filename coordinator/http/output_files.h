// The output and error files of batches: views over the outcomes of a job that has ended, with a
// length and a way to begin reading anywhere. No line is copied: the length is found by printing
// the lines once and counting, and kept in the store with places to read on from.
//
//   file-<12 characters of the job>-output        of its first run
//   file-<12 characters of the job>-error-2       of its second, after a retry
//
// Memory: one chunk per reader. Thread-safe; one output is measured at a time, and gives up when
// the service ends.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_OUTPUT_FILES_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_OUTPUT_FILES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/http/http_message.h"
#include "nightshift/v1/files.pb.h"
#include "storage/store.h"

namespace nightshift {

struct OutputFileName {
  std::string job_id;
  bool errors = false;
  int32_t run = 1;
};
std::string OutputFileId(const OutputFileName& name);
// nullopt when `id` has not the form of an output's.
std::optional<OutputFileName> ParseOutputFileId(absl::string_view id);

// "No such File object: …", as clients know it.
absl::Status NoSuchFile(absl::string_view id);

class OutputFiles {
 public:
  // The references must outlive it. Once `stopping` is set, measuring ends with Unavailable.
  OutputFiles(Store& store, const Dispatcher& dispatcher, const std::atomic<bool>& stopping)
      : store_(store), dispatcher_(dispatcher), stopping_(stopping) {}

  // What is known of the output without reading its lines; NotFound when nothing is yet.
  absl::StatusOr<v1::OutputFileRecord> Known(const OutputFileName& name) const;

  // The same, measured first when need be: as long as reading it takes, after those that came
  // before. NotFound when it was deleted, or is none of an ended job's.
  absl::StatusOr<v1::OutputFileRecord> Measure(const OutputFileName& name);

  // `length` bytes from `offset` on, both within the measured length.
  absl::StatusOr<std::shared_ptr<HttpSource>> Read(const OutputFileName& name,
                                                   const v1::OutputFileRecord& measured,
                                                   int64_t offset, int64_t length) const;

  // Hides it for good; the job keeps its lines. Waits for a measuring.
  absl::Status Delete(const OutputFileName& name);

  // Forgets the outputs of jobs that are not there any more.
  absl::Status Sweep();

 private:
  absl::StatusOr<v1::OutputFileRecord> Count(const OutputFileName& name) const;
  absl::Status Write(const OutputFileName& name, const v1::OutputFileRecord& record);

  Store& store_;
  const Dispatcher& dispatcher_;
  const std::atomic<bool>& stopping_;
  // Held while an output is read through. Measurings and deletions of outputs wait for it, each on
  // its own connection's thread; downloads and everything else do not.
  Mutex measure_mutex_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_OUTPUT_FILES_H_
