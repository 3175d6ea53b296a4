// Asks one backend, on a thread of its own, who it is and whether it is ready: at once, then every
// two seconds until it is, then twice a minute; of a ready one's server every five seconds what
// load it has. Looks every second whether the file with the key holds another. A backend that loads
// its model or cannot be reached takes no leases, and begins by itself when it is there.
#ifndef NIGHTSHIFT_WORKER_PROBE_LOOP_H_
#define NIGHTSHIFT_WORKER_PROBE_LOOP_H_

#include <functional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "nightshift/v1/worker.pb.h"
#include "worker/backends/backend_spec.h"
#include "worker/backends/http_backends.h"

namespace nightshift {

// What is known of a backend before it has been asked: `starting`.
v1::BackendInfo InfoOf(const BackendSpec& spec);

// From the answers of a backend to whether it may be given work. A ready backend under full load
// may be too busy to answer a question in time while it answers its calls, so it counts as broken
// only after several silences in a row. Not thread-safe.
class ProbeJudge {
 public:
  explicit ProbeJudge(const BackendSpec& spec);
  // What is known now.
  const v1::BackendInfo& Take(const BackendProbe& probe);
  // How long to wait before asking again.
  absl::Duration NextIn() const;

 private:
  v1::BackendInfo info_;
  int silent_ = 0;  // in a row, since it was last ready
};

class ProbeLoop {
 public:
  // Called on the thread, when there is something new.
  struct Events {
    // `native` says of a backend given without a kind that it has only a protocol of its own.
    std::function<void(v1::BackendInfo, bool native)> on_info;
    // The file of the key holds another one.
    std::function<void(const std::string&)> on_key;
    // Of a ready backend, when it tells something.
    std::function<void(v1::ServerLoad)> on_load;
  };
  ProbeLoop(BackendSpec spec, Events events);
  ~ProbeLoop();  // waits for a probe that is under way

  // No further probes; does not wait.
  void Stop();

 private:
  void Run();

  // Whether there was a new key.
  bool LookAtKey();
  void TellLoad(const v1::BackendInfo& info);
  bool Stopping();
  // False when told to stop.
  bool Rest(MonotonicTime until);

  BackendSpec spec_;  // the thread's
  const Events events_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_PROBE_LOOP_H_
