// The results file of a job that runs, written as its first unfinished request moves on: when the
// job ends, little is left to do. The file appears at the end, whole, as always.
// Until then it has no name, so that its room cannot be seen: where the disk has little left it is
// given up, well before the coordinator stops work for want of room.
//
// Used from one thread; it reads on another.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_RESULTS_AHEAD_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_RESULTS_AHEAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/commands/output_files.h"
#include "client/rpc/job_client.h"

namespace nightshift {

class ResultsAhead {
 public:
  // `client` must outlive it. `file` is a file at `path`: lines cannot be taken back from anything
  // else.
  ResultsAhead(JobClient& client, const std::string& job_id, const std::string& path,
               std::unique_ptr<LineSink> file);
  // Gives up what has not been finished; the file is then as before.
  ~ResultsAhead();

  // For a job that has ended: waits for the last lines and puts the file in its place. Returns how
  // many lines it has. Cancelled as soon as `cancelled` says so. After any error write it afresh.
  absl::StatusOr<int64_t> Finish(const std::function<bool()>& cancelled);

 private:
  absl::StatusOr<int64_t> Copy();

  const std::string folder_;
  std::unique_ptr<LineSink> file_;  // the thread's, until it has ended
  const std::unique_ptr<OutputStream> stream_;

  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<int64_t> lines_ ABSL_GUARDED_BY(mutex_) = 0;

  std::thread thread_;  // last: it uses the others
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_RESULTS_AHEAD_H_
