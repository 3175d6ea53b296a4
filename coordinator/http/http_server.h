// Serves HTTP/1.1: turns what a client sends into an HttpRequest, hands it to one function and
// sends its reply. What the library underneath answers by itself (a malformed head, a method that
// nobody knows) wears the same envelope.
//
// A thread per connection, made when needed. Bodies are handed on as they arrive and never held.
// Thread-safe; serves until it is stopped or destroyed.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_HTTP_SERVER_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "coordinator/http/http_message.h"
#include "coordinator/http/tls_identity.h"

namespace nightshift {

// With so many connections, one more ends the one that has waited longest for a request (half sent,
// or not begun). Where none waits, it is served as `crowded`. With kHttpReserve of these, one more
// ends whoever has waited longest, crowded or not; where all are being served it is answered with
// 503 and closed.
inline constexpr int kHttpConnectionsMax = 512;
inline constexpr int kHttpReserve = 32;

class HttpServer {
 public:
  // Called on the connection's thread, many at a time; what it throws is answered with 500.
  using Handler = std::function<HttpReply(HttpRequest&)>;

  // `address` is "HOST:PORT", port 0 picks one. With `tls`, which must outlive it, only HTTPS is
  // spoken. When it cannot be listened on, what WhyCannotListen
  // (base/health_server.h) says. Whether the address may be listened on is the caller's to know.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           TlsIdentity* tls, Clock& clock,
                                                           Handler handler);
  virtual ~HttpServer() = default;

  // "HOST:PORT" with the real port.
  virtual const std::string& address() const = 0;

  // Ends every connection and waits for its thread: replies under way are cut.
  virtual void Stop() = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_HTTP_SERVER_H_
