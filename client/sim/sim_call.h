// A call while the simulated server works on it.
#ifndef NIGHTSHIFT_CLIENT_SIM_SIM_CALL_H_
#define NIGHTSHIFT_CLIENT_SIM_SIM_CALL_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "client/sim/fault_plan.h"
#include "client/sim/http_exchange.h"
#include "client/sim/reply.h"
#include "client/sim/sim_request.h"

namespace nightshift {

// One call on its way through the server, and how it went.
struct SimCall {
  explicit SimCall(HttpExchange& out) : exchange(out) {}

  HttpExchange& exchange;
  SimRequest request;
  SimReplyLength length;
  SimFault fault = SimFault::kNone;
  bool directive = false;  // applies to this call
  int64_t call = 1;
  HttpHeaders headers;
  int64_t reserved_tokens = 0;
  int64_t frames = 0;  // of a stream, sent
  int status = 0;
  absl::string_view how = "client_gone";

  int64_t choices() const { return request.inputs * request.choices; }
  // Decoded for one choice; what does not write text takes one step.
  int64_t steps() const {
    switch (request.endpoint) {
      case Endpoint::kChatCompletions:
      case Endpoint::kCompletions:
      case Endpoint::kResponses:
      case Endpoint::kMessages:
        return length.tokens;
      default:
        return 1;
    }
  }
  void Answered(bool sent) {
    status = sent ? 200 : 0;
    how = sent ? "answered" : "client_gone";
  }
  void Drop(int status_sent) {
    status = status_sent;
    how = "dropped";
    exchange.Drop();
  }
  // The client has gone; there is nobody to answer.
  void Gone() {
    status = 0;
    how = "client_gone";
    exchange.Drop();
  }
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_SIM_CALL_H_
