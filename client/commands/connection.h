// A way to the coordinator that holds a job: over the network, through the socket that a running
// `nightshift run` keeps in its data folder, or, where nothing runs, by opening the folder itself.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_CONNECTION_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/tls_files.h"
#include "client/cli/failure.h"
#include "client/cli/settings.h"
#include "client/rpc/job_client.h"

namespace nightshift {

// A coordinator that does not answer within this time is not there.
inline constexpr absl::Duration kConnectTimeout = absl::Seconds(3);

// The bearer token of --token-file; empty without the flag.
absl::StatusOr<std::string> ReadToken(const Settings& settings);

// --tls-ca, --tls-cert and --tls-key, looked at; in clear without --tls-ca. InvalidArgument when
// they cannot be used.
absl::StatusOr<TlsFiles> ReadTls(const Settings& settings);

// "unix:…/nightshift.sock" of a data folder; empty where the path is too long for a socket.
std::string SocketAddress(const std::string& data_dir);

// True when the folder holds a store.
bool HasStore(const std::string& data_dir);

class Connection {
 public:
  enum class Kind {
    kNetwork,  // only a coordinator that runs
    kPresent,  // only one that answers at once
    kAny,      // also a data folder: --data-dir, or ./nightshift-data when no coordinator answers
    kFolder,   // only --data-dir, which nobody else may have open
  };
  // Whether the data folder was named more directly than the coordinator: a flag counts more than a
  // variable, that more than a file.
  static bool FolderChosen(const Settings& settings);
  // Null with the failure. Takes at most kConnectTimeout or so when nobody answers.
  static std::unique_ptr<Connection> Open(const Settings& settings, Kind kind, Failure* failure);
  virtual ~Connection() = default;

  virtual JobClient& client() = 0;
  // Nobody works on the jobs: the folder was opened by this process.
  virtual bool folder() const = 0;
  // "127.0.0.1:7440" or the folder.
  virtual const std::string& where() const = 0;
  // What a follow-up command must be given to come to the same place: "" or " --data-dir X".
  virtual const std::string& flags() const = 0;
};

// What leads a later command to the folder of this one: " --data-dir X" where it would look
// elsewhere by itself, else empty.
std::string FolderFlags(const Settings& settings);

// A data folder that cannot be opened.
Failure StoreFailure(const absl::Status& status);

// A failed call as the person sees it: an unreachable coordinator is 5, an unknown job 2.
Failure CallFailure(const absl::Status& status, const Connection& connection);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_CONNECTION_H_
