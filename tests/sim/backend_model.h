// Inference servers, and a worker's calls to them.
#ifndef NIGHTSHIFT_TESTS_SIM_BACKEND_MODEL_H_
#define NIGHTSHIFT_TESTS_SIM_BACKEND_MODEL_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/sim/environment.h"
#include "tests/sim/scheduler.h"
#include "worker/core/call.h"

namespace nightshift::sim {

// A server that any worker may call.
struct Server {
  std::string name;
  std::vector<std::string> models;
  double latency_seconds = 0.2;  // median
  bool down = false;
};

// The calls of one worker process. A call's fate is thrown when it starts.
class SimCalls final : public CallPort {
 public:
  struct Events {
    std::function<void(CallOutcome)> finished;
    // A request has killed the process that sent it.
    std::function<void(const std::string& body)> poisoned;
    // For the witness.
    std::function<void(const std::string& body)> started;
    std::function<void(const std::string& body, bool answered)> ended;
  };

  // `servers` by index of the worker's backends; they outlive it.
  SimCalls(Environment& environment, ProcessPtr process, std::vector<Server*> servers,
           Events events);

  void Start(CallRequest request) override;
  void Abort(CallId id) override;

  // Whether a call with this body is under way that nobody has aborted.
  bool IsCalling(const std::string& body) const;
  size_t under_way() const { return calls_.size(); }

 private:
  struct Call {
    std::string body;
    CallOutcome outcome;
    bool aborted = false;
  };

  void Finish(CallId id);
  // What becomes of the call, and after how long.
  absl::Duration Throw(const CallRequest& request, const Server& server, CallOutcome* outcome);
  void ThrowError(CallOutcome* outcome);
  void ThrowRefusal(CallOutcome* outcome);

  Environment& environment_;
  const ProcessPtr process_;
  const std::vector<Server*> servers_;
  const Events events_;
  Random random_;
  std::map<CallId, Call> calls_;
};

}  // namespace nightshift::sim

#endif  // NIGHTSHIFT_TESTS_SIM_BACKEND_MODEL_H_
