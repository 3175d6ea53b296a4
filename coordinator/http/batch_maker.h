// Makes jobs of batches, behind the reply to their creation: reads the input file, checks every
// line, and hands the requests in like any other submission. The job gets the batch's id and
// carries it as its token, so that a crash anywhere between can be gone through again: the second
// time finds the job that the first one made.
//
// Thread-safe. Works on threads of its own until it is stopped.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_BATCH_MAKER_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_BATCH_MAKER_H_

#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/commit/command_sink.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/http/batch_line.h"
#include "coordinator/http/batch_table.h"
#include "coordinator/http/file_table.h"
#include "nightshift/v1/files.pb.h"
#include "storage/store.h"

namespace nightshift {

// Inputs that are checked at the same time; further batches wait in `validating`.
inline constexpr int kBatchMakers = 2;
// Longer lines are bad lines.
inline constexpr size_t kBatchLineBytesMax = size_t{16} << 20;

struct BatchMakerParts {
  Store* store;
  Dispatcher* dispatcher;
  CommandSink* committer;
  Clock* clock;
  FileTable* files;
  BatchTable* batches;
  std::string temporary_dir;  // of submissions
};

class BatchMaker {
 public:
  // Goes on with what an earlier run has left in `validating`.
  explicit BatchMaker(BatchMakerParts parts);
  ~BatchMaker();

  void Add(std::string batch_id);
  // Gives up what is under way: such a batch stays in `validating` until the next start.
  void Stop();

 private:
  void Run();
  // OK also when the batch was refused; an error when it has to be tried again.
  absl::Status Make(const std::string& id);
  absl::Status Submit(const v1::BatchRecord& batch, const OpenFile& file);
  absl::Status Made(const std::string& id);
  absl::Status CancelledFirst(const std::string& id);
  absl::Status FailForGood(const std::string& id, absl::string_view code, absl::string_view param,
                           absl::string_view message);
  bool Cancelled(const std::string& id) const;
  BatchLineRules RulesFor(const v1::BatchRecord& batch) const;

  struct Waiting {
    std::string id;
    MonotonicTime due;
    bool told = false;  // the log knows that it fails
  };
  // The next batch to make; false when it is time to stop.
  bool Next(Waiting* next);

  const BatchMakerParts parts_;
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  CondVar changed_;
  std::deque<Waiting> queue_ ABSL_GUARDED_BY(mutex_);
  // What could not be made and is tried again when it is due, in that order: nobody waits for it.
  std::deque<Waiting> again_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_BATCH_MAKER_H_
