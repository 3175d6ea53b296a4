// A simulated inference server: OpenAI-compatible over HTTP, without a model. The command
// `sim-server` runs one for tests and for trying things out; `run --backend sim` has one inside.
#ifndef NIGHTSHIFT_CLIENT_SIM_SIM_SERVER_H_
#define NIGHTSHIFT_CLIENT_SIM_SIM_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "client/sim/http_transport.h"
#include "client/sim/sim_options.h"
#include "client/sim/sim_service.h"

namespace nightshift {

// Thread-safe.
class SimServer {
 public:
  // Listens and serves until Stop() or the end of this object. InvalidArgument for options that
  // make no sense, Unavailable when the address or the log cannot be had. `clock` outlives it; it
  // must run in real time.
  static absl::StatusOr<std::unique_ptr<SimServer>> Start(const SimServerOptions& options,
                                                          Clock& clock = Clock::Real());
  ~SimServer();

  // "http://HOST:PORT", with the port that was picked. Clients put "/v1/…" behind it.
  std::string url() const;
  int port() const { return transport_->port(); }
  SimStats stats() { return service_->GetStats(); }
  // Returns when the log has a line for each call that has ended.
  void Flush() { service_->Flush(); }
  // Drops all connections and returns when no call is in the works. Writes the log out.
  void Stop();

 private:
  SimServer() = default;

  std::string host_;
  std::unique_ptr<SimService> service_;
  std::unique_ptr<HttpTransport> transport_;  // ends before the service that it calls
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_SIM_SERVER_H_
