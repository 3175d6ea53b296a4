// The event loop behind EventLoop::Create. Only for the sources of this folder.
//
// One round: wait for sockets → what is posted → sockets → libcurl's timers → what has ended → our
// timers → hand out the outcomes → the owner's timer → start what was asked for meanwhile. A handle
// joins or leaves libcurl only between its calls, never inside one of its callbacks.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_EVENT_LOOP_H_
#define NIGHTSHIFT_WORKER_BACKENDS_EVENT_LOOP_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "worker/backends/backend_target.h"
#include "worker/backends/call_slot.h"
#include "worker/backends/curl_handles.h"
#include "worker/backends/http_backends.h"
#include "worker/backends/socket_watcher.h"

namespace nightshift {

class CurlEventLoop final : public EventLoop {
 public:
  explicit CurlEventLoop(Clock& clock);
  ~CurlEventLoop() override;
  absl::Status Open(Options options);

  void SetOnFinished(std::function<void(CallOutcome)> on_finished) override;
  void SetOnTimer(std::function<MonotonicTime()> on_timer) override;
  void Run() override;
  void Post(std::function<void()> task) override;
  void Stop() override;
  void Start(CallRequest request) override;
  void Abort(CallId id) override;
  void SetDetected(int backend, const std::string& kind, bool native) override;
  void SetKey(int backend, const std::string& key) override;

 private:
  // libcurl searches all connections of a multi handle for an idle one, in a list: with thousands
  // of calls in flight that would be the dearest part of a call. So a backend's slots are spread
  // over multi handles of this many.
  static constexpr int kSlotsPerShard = 16;

  // Slots of one backend that share a multi handle and its connections.
  struct Shard {
    CurlEventLoop* loop = nullptr;
    int number = 0;
    CurlMultiPtr multi;
    MonotonicTime curl_due = MonotonicTime::Infinite();  // when libcurl wants to be called
    int slots = 0;
    int in_flight = 0;
    bool has_finished = false;  // transfers that wait to be collected
  };
  struct Backend {
    std::unique_ptr<BackendTarget> target;
    std::vector<CallSlot*> idle;  // the last one used comes first: its connection is warm
    Shard* open_shard = nullptr;  // takes more slots
    // After a dead connection its neighbours are probably dead too.
    MonotonicTime fresh_until = MonotonicTime{INT64_MIN};
  };

  static int OnSocket(CURL*, curl_socket_t fd, int what, void* shard, void*);
  static int OnCurlTimer(CURLM*, long timeout_ms, void* shard);
  static curl_socket_t OnOpenSocket(void* loop, curlsocktype, curl_sockaddr* address);
  static int OnCloseSocket(void* loop, curl_socket_t fd);

  CallSlot* IdleSlot(Backend& backend);
  Shard* NewShard();
  // Sets shard.has_finished when transfers have ended.
  void Act(Shard& shard, curl_socket_t fd, int events);
  bool RunTasks();
  bool RunCurlTimers();
  bool RunCallTimers();
  bool CollectFinished();
  bool HandOut();
  // The slot's call has ended: the slot is idle again and the outcome waits to be handed out.
  void Release(Backend& backend, CallSlot& slot, CallOutcome outcome);
  void RemoveFromCurl(CallSlot& slot);
  int WaitMillis(MonotonicTime timer_due);
  // Reads the clock. True when the process has stood still.
  bool Turn();

  Clock& clock_;
  std::function<void(CallOutcome)> on_finished_;
  std::function<MonotonicTime()> on_timer_;

  // Shared with other threads.
  std::atomic<bool> stopping_{false};
  int wakeup_fd_ = -1;
  Mutex mutex_;
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);

  // The loop's thread only. The order matters when they go: slots before shards (a handle must
  // leave its multi handle), shards before the watcher, which hears of every socket that closes.
  SocketWatcher watcher_;
  CallContext context_;
  std::vector<Backend> backends_;
  CurlSharePtr share_;  // host names and TLS sessions, over all shards
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::unique_ptr<CallSlot>> slots_;
  absl::flat_hash_map<CallId, CallSlot*> calls_;
  std::vector<CallOutcome> outcomes_;
  std::vector<CallOutcome> handing_out_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_EVENT_LOOP_H_
