// One attempt as the worker's parts see it: what to send, and what came back. The runner decides,
// the backends' event loop acts; this is all they know of each other.
#ifndef NIGHTSHIFT_WORKER_CORE_CALL_H_
#define NIGHTSHIFT_WORKER_CORE_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "nightshift/v1/types.pb.h"
#include "worker/core/rate_limit.h"

namespace nightshift {

using CallId = uint64_t;  // unique in this process

struct CallRequest {
  CallId id = 0;
  int backend = 0;  // index into the worker's list of backends
  Endpoint endpoint = Endpoint::kUnspecified;
  std::string body;
  bool stream = false;
  absl::Duration timeout = absl::ZeroDuration();  // whole call; zero = the backend's own
};

// How the transport ended; says nothing about what the server thinks of the request.
enum class Transport {
  kComplete,       // a whole HTTP response
  kConnectFailed,  // no connection (refused, unreachable, TCP timeout)
  kResolveFailed,  // DNS
  kTlsFailed,
  kStaleConnection,  // a reused connection was closed before any byte came back
  kSendFailed,       // cut or stalled while sending
  kReset,            // closed or cut after the request was sent, before the response was whole
  kTimeout,          // a timer of ours: first byte, between bytes, or whole
  kTooLarge,         // the response passed the body limit
  kBadProtocol,      // not HTTP
  kAborted,          // by Abort(): nobody wants the answer
  kNotSent,          // this kind of server cannot be asked that; nothing was sent
};

struct CallOutcome {
  CallId id = 0;
  Transport transport = Transport::kAborted;
  std::string transport_detail;  // in words: "connection refused", "no byte for 60 s"
  int http_status = 0;
  // The answer on one line. For a streamed call the whole answer put together again.
  std::string body;
  bool body_is_json = false;
  bool body_is_partial = false;  // of a stream that broke off: what had come before
  // A streamed call that broke off, or an error inside a 200: why. Empty = whole.
  std::string incomplete;
  std::string request_id;                             // of the backend's headers; may be empty
  absl::Duration retry_after = absl::ZeroDuration();  // zero = not told
  std::vector<RateLimit> rate_limits;                 // as its headers tell them

  // Read from the body.
  v1::Usage usage;
  std::string finish_reason;
  bool has_answer = false;    // it has the shape of an answer for its endpoint
  bool empty_answer = false;  // … and no text in it
  bool refused = false;       // the model declined to answer
  bool repetitive = false;    // its text ends in one phrase over and over
  std::string error_message;  // the backend's own words
  std::string error_type;
  std::string error_code;  // as a string whatever it was

  v1::AttemptTiming timing;
};

// What the runner uses to act; implemented by worker/backends and by fakes. Called on the loop's
// thread only.
class CallPort {
 public:
  virtual ~CallPort() = default;
  // The outcome comes back later through Runner::OnCallFinished, never from inside Start.
  virtual void Start(CallRequest request) = 0;
  // The outcome of an aborted call is kAborted, and comes soon. Unknown ids are ignored.
  virtual void Abort(CallId id) = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_CALL_H_
