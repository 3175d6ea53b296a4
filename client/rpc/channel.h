// A channel to a coordinator over the network.
#ifndef NIGHTSHIFT_CLIENT_RPC_CHANNEL_H_
#define NIGHTSHIFT_CLIENT_RPC_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/tls_files.h"

namespace grpc {
class Channel;
}

namespace nightshift {

// "HOST:PORT", encrypted when `tls` names a `ca`. Connects when first used, and again whenever the
// connection is lost; a dead peer is noticed within 20 s. Makes no attempt before that, so it
// cannot fail.
std::shared_ptr<grpc::Channel> NewCoordinatorChannel(const std::string& address,
                                                     const TlsFiles& tls = {});

// Waits until the channel has a connection. Unavailable, naming the address and what to do, when
// there is none after `timeout`. Not for in-process channels, which need none.
absl::Status WaitForCoordinator(grpc::Channel& channel, const std::string& address,
                                absl::Duration timeout);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_RPC_CHANNEL_H_
