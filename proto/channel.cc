#include "proto/channel.h"

#include <grpc/support/log.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"

namespace nightshift {
namespace {

// A peer that answers no ping for this long is gone: 18 s at worst and what timers are late by,
// well below the lease's 30 s.
constexpr int kKeepaliveTimeMs = 9'000;
constexpr int kKeepaliveTimeoutMs = 9'000;
// Pings may come twice as often as they are sent, so that timers that drift do no harm.
constexpr int kPingIntervalMinMs = 5'000;

// How often files of certificates are looked at.
constexpr unsigned int kTlsLookSeconds = 1;

constexpr int kReconnectInitialMs = 200;
constexpr int kReconnectMaxMs = 5'000;
// Despite its name also how long one attempt to connect may take.
constexpr int kReconnectMinMs = 5'000;

void LogFromGrpc(gpr_log_func_args* args) { LogDebug("grpc: ", args->message); }

}  // namespace

std::shared_ptr<grpc::ServerCredentials> CoordinatorServerCredentials(const TlsFiles& files) {
  if (!files.has_identity()) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.cert, files.ca, kTlsLookSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> CoordinatorChannelCredentials(const TlsFiles& files) {
  if (files.ca.empty()) return grpc::InsecureChannelCredentials();
  const std::string ca = files.ca == kSystemCa ? "" : files.ca;
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (files.has_identity() || !ca.empty()) {
    options.set_certificate_provider(
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(files.key, files.cert,
                                                                             ca, kTlsLookSeconds));
  }
  if (files.has_identity()) options.watch_identity_key_cert_pairs();
  if (!ca.empty()) options.watch_root_certs();
  return grpc::experimental::TlsCredentials(options);
}

grpc::ChannelArguments CoordinatorChannelArguments() {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMessageBytesMax);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectInitialMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMinMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  // Retries are ours: a stream that is opened again begins with another Hello.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A proxy of the environment is for the world outside, where coordinators are not.
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return args;
}

void SetCoordinatorServerArguments(grpc::ServerBuilder& builder, bool on_network) {
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  if (!on_network) return;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kPingIntervalMinMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

std::shared_ptr<grpc::Channel> NewInProcessChannel(grpc::Server* server) {
  int ends[2];
  NIGHTSHIFT_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0,
                   absl::StrCat("no pair of sockets can be had: ", strerror(errno)));
  if (server != nullptr) {
    grpc::AddInsecureChannelFromFd(server, ends[0]);
  } else {
    close(ends[0]);
  }
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMessageBytesMax);
  return grpc::CreateCustomInsecureChannelFromFd("in-process", ends[1], args);
}

void RouteGrpcLog() { gpr_set_log_function(LogFromGrpc); }

}  // namespace nightshift
