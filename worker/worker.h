// The worker, put together: event loop with backends, runner, and the stream to the coordinator.
#ifndef NIGHTSHIFT_WORKER_WORKER_H_
#define NIGHTSHIFT_WORKER_WORKER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/backends/backend_spec.h"

namespace grpc {
class Channel;
}

namespace nightshift {

struct WorkerOptions {
  std::string name;                        // empty: HOST-PID
  std::vector<BackendSpec> backends;       // at least one, names unique
  std::shared_ptr<grpc::Channel> channel;  // to the coordinator
  std::string token;
  int concurrency = 0;  // calls in flight per backend; 0 = found by itself
  // Where answers outlive this process until the coordinator has recorded them; empty: nowhere. Not
  // needed where the coordinator is in the same process, since then both die at once.
  std::string spool_dir;
  // Whether anyone can ask for MetricsText: counting costs something for each result.
  bool measured = false;
  // A file that remembers how many calls in flight each backend took; empty: none.
  std::string levels_path;
};

// What a Drain leaves that is not done with.
struct Leftovers {
  int64_t unanswered = 0;   // requests whose calls were given up: others will run them
  int64_t undelivered = 0;  // results that the coordinator has not acknowledged
  bool spooled = false;     // all answers among these are in files of the spool
};

class Worker {
 public:
  // Starts its threads and goes on trying to reach the coordinator until it is told to stop.
  // InvalidArgument for options that cannot be; otherwise the spool folder is the trouble.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(WorkerOptions options);
  // Where workers of one data folder, which choose among `first`, `first`-2 and so on, look for
  // their spool_dir, in this order; and those of them that hold answers which no worker that runs
  // will deliver.
  static std::vector<std::string> SpoolFoldersToTry(const std::string& first, int count);
  static std::vector<std::string> SpoolFoldersLeft(const std::vector<std::string>& folders);
  // Aborts what is left.
  virtual ~Worker() = default;

  // Takes no new work, waits up to `grace` for the calls in flight and for their acknowledgement,
  // hands back the rest. Blocks. True when nothing was left.
  virtual bool Drain(absl::Duration grace) = 0;
  // Gives up calls in flight now; makes a Drain in another thread return soon.
  virtual void Abort() = 0;
  // How long there has been nothing to do; zero while there is.
  virtual absl::Duration IdleFor() const = 0;
  virtual int in_flight() const = 0;
  // As of the loop's last round; `unanswered` counts once a Drain has returned false. From any
  // thread.
  virtual Leftovers leftovers() const = 0;
  // What /metrics answers, for Prometheus; without figures unless it is `measured`. From any
  // thread.
  virtual std::string MetricsText() = 0;
  // Answers that an earlier process had left in the spool, for whichever store.
  virtual int64_t left_before() const = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_WORKER_H_
