// What both ends of a connection must agree on: how large a message may be, how soon a dead peer is
// noticed, how a lost connection is tried again. One place, because two ends that disagree about
// keepalive cut each other off ("too many pings").
#ifndef NIGHTSHIFT_PROTO_CHANNEL_H_
#define NIGHTSHIFT_PROTO_CHANNEL_H_

#include <memory>

#include "base/tls_files.h"

namespace grpc {
class Channel;
class ChannelArguments;
class ChannelCredentials;
class ServerCredentials;
class Server;
class ServerBuilder;
}  // namespace grpc

namespace nightshift {

// A larger message ends its stream with RESOURCE_EXHAUSTED. Batches are closed at about 1 MiB, so
// only a single request or answer can come near it, and those have lower limits of their own.
inline constexpr int kMessageBytesMax = 64 << 20;

// As `ca` of a client's files: what the machine trusts.
inline constexpr char kSystemCa[] = "system";

// How the two ends are encrypted; in clear without files. Changed files count for connections from
// then on. On the server `ca` is what clients' certificates must be signed by: they are asked for,
// and one that is not is refused; who shows none is let in, and the call is told so
// (auth_context()->IsPeerAuthenticated()).
std::shared_ptr<grpc::ServerCredentials> CoordinatorServerCredentials(const TlsFiles& files);
std::shared_ptr<grpc::ChannelCredentials> CoordinatorChannelCredentials(const TlsFiles& files);

// For a channel over the network.
grpc::ChannelArguments CoordinatorChannelArguments();

// The server's side of it. A port that another process listens on is refused, not shared.
// `on_network` false: the server has in-process channels only, and nothing to keep alive.
void SetCoordinatorServerArguments(grpc::ServerBuilder& builder, bool on_network);

// A channel to a server of this process. It goes over a pair of connected sockets: gRPC's own
// in-process transport ends the program when a call is made after the server has shut down; here
// such a call is Unavailable. `server` null: every call is.
//
// It cannot reconnect, so it has no keepalive, which would take a stopped process (Ctrl-Z) that
// goes on for a dead peer.
std::shared_ptr<grpc::Channel> NewInProcessChannel(grpc::Server* server);

// Sends gRPC's own log lines to Log() at `debug`: what matters comes back as a status.
// Process-wide; may be called more than once.
void RouteGrpcLog();

}  // namespace nightshift

#endif  // NIGHTSHIFT_PROTO_CHANNEL_H_
