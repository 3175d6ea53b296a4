// The network side of the simulated server: cpp-httplib accepts connections and reads calls, a
// thread per connection; HttpExchange waits and writes. httplib's own way of answering is not used:
// it cannot notice that a client has gone, nor answer badly on purpose.
#ifndef NIGHTSHIFT_CLIENT_SIM_HTTP_TRANSPORT_H_
#define NIGHTSHIFT_CLIENT_SIM_HTTP_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "client/sim/http_exchange.h"

namespace nightshift {

class HttpTransport {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    int port = 0;  // 0 picks a free one
    // Threads. A connection beyond them is answered 503 and closed.
    int connections_max = 2048;
    // A call with a longer body is answered 413.
    size_t body_bytes_max = size_t{256} << 20;
  };
  // Answers one call; called on the connection's thread, many at a time.
  using Handler = std::function<void(const HttpCall& call, HttpExchange& exchange)>;

  // Listens and serves until Stop(). Raises the process's limit of open files as far as it may, and
  // ignores SIGPIPE. Unavailable when the address cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpTransport>> Start(const Options& options, Clock& clock,
                                                              Handler handler);
  ~HttpTransport();

  int port() const { return port_; }

  // Ends all connections, also those of calls that wait, and returns when no handler runs any more.
  void Stop();

 private:
  class Server;

  HttpTransport() = default;

  std::unique_ptr<Server> server_;
  int port_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_HTTP_TRANSPORT_H_
