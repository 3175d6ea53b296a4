// The log of a simulated server: one JSON line per call, in the order in which the calls ended.
#ifndef NIGHTSHIFT_CLIENT_SIM_CALL_LOG_H_
#define NIGHTSHIFT_CLIENT_SIM_CALL_LOG_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace nightshift {

struct CallLogEntry {
  absl::Time started;
  absl::Duration took;
  absl::string_view path;
  int status = 0;  // 0: no status line was sent
  absl::string_view key;
  absl::string_view mark;
  int64_t call = 1;       // the how-manieth with this key
  absl::string_view how;  // "answered", "refused", "dropped", "client_gone"
};

// Thread-safe. A thread of its own writes, so that a call does not wait for the disk; every line is
// handed to the system as soon as that thread gets to it, whole.
class CallLog {
 public:
  // Appends to the file. Unavailable when it cannot be opened.
  static absl::StatusOr<std::unique_ptr<CallLog>> Open(const std::string& path);
  // Writes what is left.
  ~CallLog();

  // Waits when too much is unwritten: a log that drops lines proves nothing.
  void Append(const CallLogEntry& entry);

  // Returns when all lines so far are written.
  void Flush();

 private:
  explicit CallLog(int fd);
  void Run();

  const int fd_;
  Mutex mutex_;
  CondVar changed_;
  std::string pending_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_CALL_LOG_H_
