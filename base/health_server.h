// The small HTTP endpoint that supervisors and load balancers ask: `/healthz` (the process is
// alive) and `/readyz` (it can do its work now, or why not). A worker has one; the coordinator's
// HTTP service answers the same pages itself.
//
// One request per connection, without a body, within a few seconds. Thread-safe. Serves on threads
// of its own until it is destroyed.
#ifndef NIGHTSHIFT_BASE_HEALTH_SERVER_H_
#define NIGHTSHIFT_BASE_HEALTH_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nightshift {

class HealthServer {
 public:
  // `address` is "HOST:PORT", port 0 picks one. `ready` is asked on every /readyz, from any thread
  // of the server, and must answer at once: OK, or a sentence that says what is missing. `metrics`
  // likewise, on every /metrics, in Prometheus' text format; unset: there is no such page.
  // When the address cannot be listened on, what WhyCannotListen says.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(
      const std::string& address, std::function<absl::Status()> ready,
      std::function<std::string()> metrics = {});
  ~HealthServer();

  // "HOST:PORT" with the real port.
  const std::string& address() const { return address_; }

 private:
  struct Impl;
  HealthServer(std::unique_ptr<Impl> impl, std::string address);

  std::unique_ptr<Impl> impl_;
  const std::string address_;
};

// Splits "HOST:PORT" ("[::1]:80" for IPv6). InvalidArgument says what an address looks like.
absl::Status SplitAddress(const std::string& address, std::string* host, int* port);

// Why nobody could be made to listen on "HOST:PORT" just now, by trying once more: AlreadyExists
// when somebody else does, otherwise InvalidArgument with the system's reason. Makes and drops a
// socket; may ask a name server.
absl::Status WhyCannotListen(const std::string& address);

// Whether `host` can be reached from this machine only: "localhost", 127.0.0.0/8, "::1".
bool IsLoopbackHost(const std::string& host);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_HEALTH_SERVER_H_
