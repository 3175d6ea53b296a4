// The check of a large input, begun before it is known to be needed: while the input is hashed and
// the store is opened, which wait for the disk. A job that is there already does without it.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_EARLY_SCAN_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_EARLY_SCAN_H_

#include <atomic>
#include <thread>

#include "absl/status/statusor.h"
#include "client/commands/job_input.h"

namespace nightshift {

// Used from one thread; a second one reads.
class EarlyScan {
 public:
  // Starts reading. `input` must be a file that can be read more than once.
  explicit EarlyScan(InputOptions input);
  // Stops reading, within one buffer.
  ~EarlyScan();

  // Waits for the end. Once.
  absl::StatusOr<InputScan> Take();

 private:
  std::atomic<bool> stop_ = false;
  absl::StatusOr<InputScan> scan_;  // the thread's, until it has ended
  std::thread thread_;              // last: it uses the others
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_EARLY_SCAN_H_
