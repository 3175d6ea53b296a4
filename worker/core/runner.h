// The worker's mind: what it holds, what it starts next, what it reports. Pure and single-threaded:
// it is told what happens, with the time, and acts through two ports. The real ones are the HTTP
// event loop and the coordinator stream; the simulation has others.
//
// A request's life here: leased → buffered → in flight → (waiting to be tried again → in flight) →
// answered (in the outbox) → acknowledged, or returned / revoked on the way. A request that waits
// to be tried again holds no slot. A freed slot takes the next buffered request at once.
#ifndef NIGHTSHIFT_WORKER_CORE_RUNNER_H_
#define NIGHTSHIFT_WORKER_CORE_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "nightshift/v1/worker.pb.h"
#include "worker/core/call.h"
#include "worker/core/limiter.h"
#include "worker/core/pacer.h"
#include "worker/core/spool_port.h"

namespace nightshift {

struct RunnerBackend {
  v1::BackendInfo info;
  std::unique_ptr<Limiter> limiter;
  PacerOptions pacer = {};
  std::string account = {};  // as BackendInfo.account; told once there are limits
};

struct RunnerOptions {
  std::string name;
  std::string session;
  std::string version;
  std::vector<RunnerBackend> backends;
  // Results not yet acknowledged; past either bound no new call starts.
  int64_t outbox_requests_max = 65536;
  int64_t outbox_bytes_max = int64_t{64} << 20;
  // A result message is closed when it has passed one of these.
  int results_per_message_max = 1024;
  int64_t bytes_per_message_max = int64_t{1} << 20;
  absl::Duration report_interval = absl::Seconds(1);
  // Where results outlive the process; must outlive the runner. Null: nowhere.
  SpoolPort* spool = nullptr;
  uint64_t random_seed = 0;
};

// The stream to the coordinator, as the runner sees it.
class LinkPort {
 public:
  virtual ~LinkPort() = default;
  // Queues a message on the present stream; lost if the stream breaks.
  virtual void Send(v1::WorkerMessage message) = 0;
  // How many messages wait to be written: the runner lets results gather while the stream is busy.
  virtual int Backlog() const = 0;
  // Gives the present stream up, if there is one, and soon opens another. May tell of its end
  // (Runner::OnLinkDown) later, not from within.
  virtual void Reopen() = 0;
};

class Runner {
 public:
  // The ports must outlive the runner.
  Runner(RunnerOptions options, CallPort& calls, LinkPort& link);
  ~Runner();

  // --- the stream ------------------------------------------------------------------------------
  // A stream is open: sends Hello with what is held, then the results that wait.
  void OnLinkUp(MonotonicTime now);
  void OnLinkDown(MonotonicTime now);
  void OnMessage(const v1::CoordinatorMessage& message, MonotonicTime now);
  // The same without copying the bodies: takes the message apart.
  void OnMessage(v1::CoordinatorMessage&& message, MonotonicTime now);
  // The stream can take more (a write has ended).
  void OnWritable(MonotonicTime now);

  // --- the backends ----------------------------------------------------------------------------
  void OnCallFinished(CallOutcome outcome, MonotonicTime now);
  // What is known of a backend has changed (its readiness, its models).
  void OnBackendInfo(int backend, v1::BackendInfo info, MonotonicTime now);

  // It has another key: one that was refused says nothing about this one.
  void OnNewKey(int backend, MonotonicTime now);
  // What the server tells of its load; goes into the reports.
  void OnServerLoad(int backend, v1::ServerLoad load);

  // --- time ------------------------------------------------------------------------------------
  // Does what is due and returns when to be called again.
  MonotonicTime OnTimer(MonotonicTime now);

  // --- the end ---------------------------------------------------------------------------------
  // No new calls, no new leases; returns what has not been started. Calls in flight go on.
  void Drain(const std::string& why, MonotonicTime now);
  // Gives up the calls in flight and returns their requests. Drains first, if it has not.
  void AbortAll(MonotonicTime now);
  // Nothing held: no request, no call, no unacknowledged result.
  bool Idle() const;

  int in_flight() const;
  // Of the backend's limiter: Limiter::settled.
  int settled_level(int backend) const;
  int64_t held() const;            // leased and not answered
  int64_t unacknowledged() const;  // in the outbox

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_RUNNER_H_
