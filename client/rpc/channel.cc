#include "client/rpc/channel.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "proto/channel.h"

namespace nightshift {

std::shared_ptr<grpc::Channel> NewCoordinatorChannel(const std::string& address,
                                                     const TlsFiles& tls) {
  RouteGrpcLog();
  return grpc::CreateCustomChannel(address, CoordinatorChannelCredentials(tls),
                                   CoordinatorChannelArguments());
}

absl::Status WaitForCoordinator(grpc::Channel& channel, const std::string& address,
                                absl::Duration timeout) {
  const auto deadline = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout);
  if (channel.WaitForConnected(deadline)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no coordinator answers at ", address, " (tried for ", HumanDuration(timeout),
                   "); start one with `nightshift coordinator`, or name another with "
                   "--coordinator HOST:PORT"));
}

}  // namespace nightshift
