// A fixed number of threads for what may block (disk, commits), so that gRPC's own few threads
// never do.
//
// Thread-safe. The queue has no bound of its own: every caller has at most one task waiting per
// open call.
#ifndef NIGHTSHIFT_COORDINATOR_RPC_TASK_POOL_H_
#define NIGHTSHIFT_COORDINATOR_RPC_TASK_POOL_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace nightshift {

class TaskPool {
 public:
  explicit TaskPool(int threads);
  ~TaskPool();  // runs what is queued, then ends the threads

  // Runs `task` soon, in order of arrival, on one of the threads.
  void Post(std::function<void()> task);

  // Runs what is queued (and what that posts), then ends the threads; call once no one else posts.
  void Shutdown();

 private:
  void Work();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_RPC_TASK_POOL_H_
