#include "client/commands/connection.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/shell_quote.h"
#include "client/rpc/channel.h"
#include "coordinator/coordinator.h"
#include "proto/channel.h"

namespace nightshift {
namespace {

// `patient`: goes on trying until `timeout`, for a coordinator that is just starting. Otherwise a
// refusal is the answer, where there is another place to look.
bool CanConnect(grpc::Channel& channel, absl::Duration timeout, bool patient) {
  const auto until = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout);
  grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    if (state == GRPC_CHANNEL_SHUTDOWN) return false;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE && !patient) return false;
    if (!channel.WaitForStateChange(state, until)) return false;
    state = channel.GetState(true);
  }
  return true;
}

class NetworkConnection final : public Connection {
 public:
  NetworkConnection(std::shared_ptr<grpc::Channel> channel, const std::string& token,
                    std::string where, std::string flags)
      : client_(std::move(channel), token), where_(std::move(where)), flags_(std::move(flags)) {}
  JobClient& client() override { return client_; }
  bool folder() const override { return false; }
  const std::string& where() const override { return where_; }
  const std::string& flags() const override { return flags_; }

 private:
  JobClient client_;
  const std::string where_, flags_;
};

class FolderConnection final : public Connection {
 public:
  FolderConnection(std::unique_ptr<Coordinator> coordinator, std::string where, std::string flags)
      : coordinator_(std::move(coordinator)),
        client_(std::make_unique<JobClient>(coordinator_->InProcessChannel(), "")),
        where_(std::move(where)),
        flags_(std::move(flags)) {}
  ~FolderConnection() override {
    client_.reset();
    coordinator_->Shutdown(absl::Seconds(1));
  }
  JobClient& client() override { return *client_; }
  bool folder() const override { return true; }
  const std::string& where() const override { return where_; }
  const std::string& flags() const override { return flags_; }

 private:
  const std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<JobClient> client_;
  const std::string where_, flags_;
};

Failure Unreachable(const std::string& address) {
  Failure failure;
  failure.exit = ExitCode::kUnreachable;
  failure.code = "coordinator_unreachable";
  failure.message = absl::StrCat("no coordinator answers at ", address);
  failure.hint = "nightshift coordinator starts one; --coordinator HOST:PORT names another";
  return failure;
}

std::unique_ptr<Connection> OpenFolderAlone(const std::string& data_dir, const std::string& flags,
                                            Failure* failure) {
  CoordinatorOptions options;
  options.data_dir = data_dir;
  options.reclaim_grace = absl::ZeroDuration();
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(std::move(options));
  if (!coordinator.ok()) {
    *failure = StoreFailure(coordinator.status());
    return nullptr;
  }
  return std::make_unique<FolderConnection>(*std::move(coordinator), data_dir, flags);
}

// Through the socket of a process that has the folder open, else by opening it.
std::unique_ptr<Connection> OpenFolder(const std::string& data_dir, const std::string& flags,
                                       Failure* failure) {
  const std::string socket = SocketAddress(data_dir);
  if (!socket.empty()) {
    std::shared_ptr<grpc::Channel> channel = NewCoordinatorChannel(socket);
    if (CanConnect(*channel, absl::Seconds(1), /*patient=*/false))
      return std::make_unique<NetworkConnection>(std::move(channel), "", data_dir, flags);
  }
  return OpenFolderAlone(data_dir, flags, failure);
}

Failure NoJobs(const std::string& data_dir) {
  return UsageFailure(absl::StrCat(data_dir, " holds no jobs"),
                      "--data-dir names the folder that `nightshift run` used");
}

}  // namespace

Failure StoreFailure(const absl::Status& status) {
  Failure failure;
  failure.exit = ExitCode::kInternal;
  failure.code = absl::IsFailedPrecondition(status) ? "data_dir_unusable" : "store";
  failure.message = std::string(status.message());
  if (absl::IsFailedPrecondition(status))
    failure.hint =
        "--data-dir names another folder; a coordinator that has this one open answers "
        "to --coordinator HOST:PORT";
  if (absl::IsDataLoss(status))
    failure.hint =
        "nightshift audit --repair counts anew what can be counted; nightshift backup restore puts "
        "a backup back into an empty folder";
  return failure;
}

absl::StatusOr<std::string> ReadToken(const Settings& settings) {
  if (!settings.Has("token-file")) return std::string();
  const std::string path = settings.Text("token-file");
  std::ifstream in(path);
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in)
    return absl::InvalidArgumentError(absl::StrCat("--token-file: ", path, " cannot be read"));
  std::string token(absl::StripAsciiWhitespace(text.str()));
  if (token.empty())
    return absl::InvalidArgumentError(absl::StrCat("--token-file: ", path, " is empty"));
  return token;
}

absl::StatusOr<TlsFiles> ReadTls(const Settings& settings) {
  TlsFiles files = {settings.Text("tls-cert"), settings.Text("tls-key"), settings.Text("tls-ca")};
  if (files.ca.empty() && !files.cert.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert without --tls-ca: give the certificates that the coordinator's is signed by, "
        "--tls-ca FILE, or --tls-ca system for those that this machine trusts");
  }
  TlsFiles looked_at = files;
  if (files.ca == kSystemCa) looked_at.ca.clear();
  if (const absl::Status good = CheckTlsFiles(looked_at); !good.ok()) return good;
  return files;
}

std::string SocketAddress(const std::string& data_dir) {
  std::error_code error;
  const std::string path =
      (std::filesystem::absolute(data_dir, error).lexically_normal() / "nightshift.sock").string();
  if (error || path.size() >= sizeof(sockaddr_un::sun_path)) return "";
  // gRPC takes it for a URI, in which a % and others would mean something.
  std::string address = "unix:";
  for (const char c : path) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("/-._~", c))
      address.push_back(c);
    else
      absl::StrAppend(&address, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
  }
  return address;
}

std::string FolderFlags(const Settings& settings) {
  const std::string flags = absl::StrCat(" --data-dir ", ShellQuote(settings.Text("data-dir")));
  if (settings.Chosen("data-dir") || settings.Chosen("coordinator")) return flags;
  const absl::StatusOr<TlsFiles> tls = ReadTls(settings);
  if (!tls.ok()) return flags;
  const std::shared_ptr<grpc::Channel> channel =
      NewCoordinatorChannel(settings.Text("coordinator"), *tls);
  return CanConnect(*channel, absl::Milliseconds(200), /*patient=*/false) ? flags : "";
}

bool HasStore(const std::string& data_dir) {
  struct stat info;
  return stat(absl::StrCat(data_dir, "/store/CURRENT").c_str(), &info) == 0;
}

bool Connection::FolderChosen(const Settings& settings) {
  return settings.all().at("data-dir").source > settings.all().at("coordinator").source;
}

std::unique_ptr<Connection> Connection::Open(const Settings& settings, Kind kind,
                                             Failure* failure) {
  const absl::StatusOr<std::string> token = ReadToken(settings);
  if (!token.ok()) {
    *failure = FailureFrom(token.status());
    return nullptr;
  }
  const std::string address = settings.Text("coordinator");
  const std::string data_dir = settings.Text("data-dir");
  const bool address_chosen = settings.Chosen("coordinator");
  if (kind == Kind::kFolder) {
    if (HasStore(data_dir)) return OpenFolderAlone(data_dir, FolderFlags(settings), failure);
    *failure = NoJobs(data_dir);
    return nullptr;
  }
  if (kind == Kind::kAny && FolderChosen(settings)) {
    if (!HasStore(data_dir)) {
      *failure = NoJobs(data_dir);
      return nullptr;
    }
    return OpenFolder(data_dir, absl::StrCat(" --data-dir ", ShellQuote(data_dir)), failure);
  }
  const absl::StatusOr<TlsFiles> tls = ReadTls(settings);
  if (!tls.ok()) {
    *failure = FailureFrom(tls.status());
    return nullptr;
  }
  std::shared_ptr<grpc::Channel> channel = NewCoordinatorChannel(address, *tls);
  const bool can_look_elsewhere = kind == Kind::kAny && !address_chosen && HasStore(data_dir);
  if (CanConnect(*channel, kConnectTimeout,
                 /*patient=*/kind != Kind::kPresent && !can_look_elsewhere)) {
    return std::make_unique<NetworkConnection>(
        std::move(channel), *token, address,
        settings.all().at("coordinator").source == Source::kFlag
            ? absl::StrCat(" --coordinator ", ShellQuote(address))
            : "");
  }
  if (can_look_elsewhere) return OpenFolder(data_dir, "", failure);
  *failure = Unreachable(address);
  if (kind == Kind::kAny && !address_chosen)
    absl::StrAppend(&failure->message, ", and ", data_dir, " holds no jobs");
  return nullptr;
}

Failure CallFailure(const absl::Status& status, const Connection& connection) {
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    Failure failure = Unreachable(connection.where());
    if (!status.message().empty()) absl::StrAppend(&failure.message, " (", status.message(), ")");
    return failure;
  }
  Failure failure = FailureFrom(status);
  if (absl::IsNotFound(status)) {
    failure.code = "unknown_job";
    failure.hint = absl::StrCat("nightshift jobs", connection.flags(), " lists the jobs");
  } else if (absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status)) {
    failure.hint = "--token-file FILE shows the coordinator its token";
  }
  return failure;
}

}  // namespace nightshift
