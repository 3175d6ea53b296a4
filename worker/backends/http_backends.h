// All calls of all backends: one event loop (epoll under curl_multi_socket_action) on one thread.
// Thousands of calls may be in flight; each has its own timers and can be aborted at once.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_HTTP_BACKENDS_H_
#define NIGHTSHIFT_WORKER_BACKENDS_HTTP_BACKENDS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/backends/backend_spec.h"
#include "worker/core/call.h"

namespace nightshift {

// The loop. Everything the worker does happens on its thread: the runner's calls, timers, and what
// other threads Post().
class EventLoop : public CallPort {
 public:
  struct Options {
    std::vector<BackendSpec> backends;  // CallRequest::backend indexes it
    int64_t response_bytes_max = int64_t{32} << 20;
  };
  static absl::StatusOr<std::unique_ptr<EventLoop>> Create(Options options, Clock& clock);
  ~EventLoop() override = default;

  // Set before Run. `on_finished` gets each outcome, on the loop's thread.
  virtual void SetOnFinished(std::function<void(CallOutcome)> on_finished) = 0;
  // `on_timer` does what is due and returns when it wants to be called next; it is called again
  // after every round of the loop in which anything happened.
  virtual void SetOnTimer(std::function<MonotonicTime()> on_timer) = 0;

  // On the loop's thread: what a backend given without a kind has been found to be. No effect on
  // others.
  virtual void SetDetected(int backend, const std::string& kind, bool native) = 0;

  // On the loop's thread: the key of a backend from now on. Calls under way keep theirs.
  virtual void SetKey(int backend, const std::string& key) = 0;

  // Runs until Stop(). Only one thread.
  virtual void Run() = 0;
  // Thread-safe: `task` runs soon, on the loop's thread. Tasks run in order.
  virtual void Post(std::function<void()> task) = 0;
  // Thread-safe. Calls still in flight are dropped without an outcome.
  virtual void Stop() = 0;
};

// What a backend answers when asked who it is.
struct BackendProbe {
  bool reachable = false;
  bool loading = false;  // it answers, but is not ready yet
  bool key_refused = false;
  std::vector<std::string> models;  // empty when it does not list them
  std::string server;               // "vLLM", "llama.cpp", …; empty = not recognized
  std::string kind;                 // of a backend given without one; empty = not recognized
  bool native = false;              // … and it has no OpenAI routes
  std::string detail;               // in words: "connection refused"
};

// Asks GET {base}/v1/models and what else tells who the server is and whether it is ready; a kind
// of server without that list is asked in its own words. Blocks for at most `timeout`. Never fails:
// what went wrong is in the result.
BackendProbe ProbeBackend(const BackendSpec& spec, absl::Duration timeout);

// Asks the server for its load, in the words of `kind` (of one without a kind, what it was found to
// be). Blocks for at most `timeout`. Nothing is set where it tells nothing.
v1::ServerLoad ProbeLoad(const BackendSpec& spec, const std::string& kind, absl::Duration timeout);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_HTTP_BACKENDS_H_
