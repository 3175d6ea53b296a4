// The coordinator's HTTP side, put together: the server, the gate, the routes and what they work
// with. It listens before the store is open, so that a taken address is known at once and
// supervisors hear that the process is alive; until then the API answers 503.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_HTTP_SERVICE_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_HTTP_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/tls_files.h"
#include "coordinator/access/access.h"
#include "coordinator/commit/command_sink.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/http/metrics.h"
#include "storage/store.h"

namespace nightshift {

struct HttpServiceOptions {
  std::string address;  // "HOST:PORT", port 0 picks one
  // Asked everywhere below /v1; must outlive the service.
  const Access* access = nullptr;
  // With a certificate, only HTTPS is spoken.
  TlsFiles tls = {};
};

// All must outlive the service.
struct HttpServiceParts {
  Store* store;
  Dispatcher* dispatcher;
  CommandSink* committer;
  Metrics* metrics;
  std::string files_dir;      // of uploaded files
  std::string temporary_dir;  // of submissions
};

class HttpService {
 public:
  // PermissionDenied when the certificate cannot be used. When the address cannot be listened on,
  // what WhyCannotListen (base/health_server.h) says.
  static absl::StatusOr<std::unique_ptr<HttpService>> Listen(const HttpServiceOptions& options,
                                                             Clock& clock);
  virtual ~HttpService() = default;

  // "HOST:PORT" with the real port.
  virtual const std::string& address() const = 0;

  // The API is there from now on. Goes on with batches that an earlier run was validating.
  virtual absl::Status Open(const HttpServiceParts& parts) = 0;

  // Removes what has expired. Call now and then.
  virtual void Sweep() = 0;

  // New calls are told to come back later; /readyz says that this ends.
  virtual void BeginShutdown() = 0;
  // Ends connections and what goes on behind them. Nothing of the parts is used afterwards.
  virtual void Stop() = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_HTTP_SERVICE_H_
