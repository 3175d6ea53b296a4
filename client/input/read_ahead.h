// An input that is read on a thread of its own, so that lines are taken apart while earlier ones
// are stored: the two cost about the same.
//
// Used from one thread. Holds at most kReadAheadBatches batches beyond the one given out, and the
// one that is being read.
#ifndef NIGHTSHIFT_CLIENT_INPUT_READ_AHEAD_H_
#define NIGHTSHIFT_CLIENT_INPUT_READ_AHEAD_H_

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/input/input_reader.h"

namespace nightshift {

// A batch is closed when it has passed one of these.
inline constexpr size_t kBatchItemsMax = 1024;
inline constexpr size_t kBatchBytesMax = size_t{1} << 20;
inline constexpr size_t kReadAheadBatches = 3;

class ReadAhead {
 public:
  // Starts reading.
  explicit ReadAhead(std::unique_ptr<InputReader> reader);
  // Stops reading; waits for the item under way, which a quiet pipe can make long.
  ~ReadAhead();

  // The next items in order; empty at the end. Errors as InputReader::Next, after all items before.
  absl::StatusOr<std::vector<InputItem>> Next();

  // What the reader has to say once Next has come to the end.
  const InputReader& reader() const { return *reader_; }

 private:
  void Run();
  // False: nobody wants more.
  bool Give(std::vector<InputItem> batch);

  const std::unique_ptr<InputReader> reader_;  // the thread's, until it has ended

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::vector<InputItem>> batches_ ABSL_GUARDED_BY(mutex_);
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // OK: the end of the input
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stop_ = false;  // set under the mutex

  std::thread thread_;  // last: it uses the others
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_INPUT_READ_AHEAD_H_
