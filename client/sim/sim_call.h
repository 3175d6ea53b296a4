// A call while the simulated server works on it.
#ifndef NIGHTSHIFT_CLIENT_SIM_SIM_CALL_H_
#define NIGHTSHIFT_CLIENT_SIM_SIM_CALL_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/strings/string_view.h"
#include "client/sim/fault_plan.h"
#include "client/sim/http_exchange.h"
#include "client/sim/reply.h"
#include "client/sim/sim_request.h"

namespace nightshift {

// One call on its way through the server, and how it went.
struct SimCall {
  // Called once, with the status line's code (0: none) and how it went: "answered", "refused",
  // "dropped", "client_gone". Before the last bytes go out, so that whoever has an answer finds it
  // counted and logged.
  using Ended = std::function<void(int status, absl::string_view how)>;

  SimCall(HttpExchange& out, Ended on_end) : exchange(out), ended(std::move(on_end)) {}

  HttpExchange& exchange;
  const Ended ended;
  SimRequest request;
  SimReplyLength length;
  SimFault fault = SimFault::kNone;
  bool directive = false;  // applies to this call
  int64_t call = 1;
  HttpHeaders headers;
  int64_t reserved_tokens = 0;
  int64_t frames = 0;  // of a stream, sent
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
  void Answer(absl::string_view content_type, absl::string_view body) {
    ended(200, "answered");
    exchange.Answer(200, content_type, body, headers);
  }
  void Refuse(int status, absl::string_view content_type, absl::string_view body,
              const HttpHeaders& more) {
    ended(status, "refused");
    exchange.Answer(status, content_type, body, more);
  }
  void EndStream(absl::string_view last) {
    ended(200, "answered");
    if (exchange.WriteChunk(last)) exchange.EndStream();
  }
  void Drop(int status_sent) {
    ended(status_sent, "dropped");
    exchange.Drop();
  }
  // The client has gone; there is nobody to answer.
  void Gone() {
    ended(0, "client_gone");
    exchange.Drop();
  }
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_SIM_CALL_H_
