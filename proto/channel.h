// What both ends of a connection must agree on: how large a message may be, how soon a dead peer is
// noticed, how a lost connection is tried again. One place, because two ends that disagree about
// keepalive cut each other off ("too many pings").
#ifndef NIGHTSHIFT_PROTO_CHANNEL_H_
#define NIGHTSHIFT_PROTO_CHANNEL_H_

namespace grpc {
class ChannelArguments;
class ServerBuilder;
}  // namespace grpc

namespace nightshift {

// A larger message ends its stream with RESOURCE_EXHAUSTED. Batches are closed at about 1 MiB, so
// only a single request or answer can come near it, and those have lower limits of their own.
inline constexpr int kMessageBytesMax = 64 << 20;

// For every channel to a coordinator, in process or not.
grpc::ChannelArguments CoordinatorChannelArguments();

// The same on the server's side. A port that another process listens on is refused, not shared.
void SetCoordinatorServerArguments(grpc::ServerBuilder& builder);

// Sends gRPC's own log lines to Log() at `debug`: what matters comes back as a status.
// Process-wide; may be called more than once.
void RouteGrpcLog();

}  // namespace nightshift

#endif  // NIGHTSHIFT_PROTO_CHANNEL_H_
