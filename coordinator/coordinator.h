// The coordinator, put together: store, dispatcher, committer, grant loop, maintenance, the gRPC
// services and the HTTP API. `nightshift coordinator` serves it on addresses; `nightshift run`
// embeds it and talks to it through in-process channels, which take the same path as TCP from the
// services on.
#ifndef NIGHTSHIFT_COORDINATOR_COORDINATOR_H_
#define NIGHTSHIFT_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/tls_files.h"

namespace grpc {
class Channel;
}

namespace nightshift {

struct CoordinatorOptions {
  std::string data_dir;
  // Where backups go unless a client on this machine names another folder; empty: beside the data
  // folder (DefaultBackupFolder).
  std::string backup_dir;
  // "HOST:PORT", port 0 picks one; empty: in-process channels only.
  std::string grpc_address;
  // "HOST:PORT", port 0 picks one; empty: no HTTP. Neither address is judged here: whether others
  // can reach it, and may, is for the caller to know.
  std::string http_address;
  // When somebody else has that address, go on without HTTP.
  bool http_if_free = false;
  // Clients and workers must present one of its tokens as "authorization: Bearer TOKEN"; read again
  // when it changes (base/token_file.h). Empty: everybody may do everything.
  std::string token_file;
  // Certificate and key of both addresses, which are then encrypted; with `ca`, workers must show a
  // certificate that it has signed. Read again when they change.
  TlsFiles tls;
  // Of each tenant's; 0: no limit.
  int64_t tenant_open_jobs_max = 0;
  int64_t tenant_file_bytes_max = 0;
  double tenant_requests_per_second = 0;
  absl::Duration lease_ttl = absl::Seconds(30);
  absl::Duration reclaim_grace = absl::Seconds(10);
  // Called once, from any thread, when the store can no longer be trusted: stop and exit with 75.
  // It may only take note; Shutdown is for another thread, since it waits for the calling one.
  std::function<void(absl::Status)> on_broken;
};

class Coordinator {
 public:
  // FailedPrecondition: the folder is in use, of a newer version, half restored, or on a volume
  // that is too small (kVolumeBytesMin). AlreadyExists: the address is taken; InvalidArgument: it
  // cannot be listened on for another reason. Unauthenticated: the token file cannot be used;
  // PermissionDenied: a file of TLS cannot. The text is one line for a person.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(CoordinatorOptions options);
  // Shuts down if that has not been done.
  virtual ~Coordinator() = default;

  virtual std::shared_ptr<grpc::Channel> InProcessChannel() = 0;
  // With the real port; empty when in-process only.
  virtual std::string grpc_address() const = 0;
  // Likewise; empty without HTTP.
  virtual std::string http_address() const = 0;
  // Jobs found at start: all, and those that go on.
  virtual int jobs_loaded() const = 0;
  virtual int jobs_resumed() const = 0;

  // Ends the streams, commits what has arrived, closes the store. At most about `grace`.
  virtual void Shutdown(absl::Duration grace) = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_COORDINATOR_H_
