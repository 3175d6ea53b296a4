#include "client/sim/sim_server.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

struct Address {
  std::string host;
  int port;
};

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  const size_t colon = text.rfind(':');
  Address address;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", text, ": write HOST:PORT, such as 127.0.0.1:8000"));
  }
  absl::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  address.host = std::string(host);
  return address;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SimServer>> SimServer::Start(const SimServerOptions& options,
                                                            Clock& clock) {
  RETURN_IF_ERROR(ValidateSimOptions(options));
  ASSIGN_OR_RETURN(const Address address, ParseAddress(options.listen));
  std::unique_ptr<CallLog> log;
  if (!options.log_path.empty()) {
    ASSIGN_OR_RETURN(log, CallLog::Open(options.log_path));
  }
  std::unique_ptr<SimServer> server(new SimServer);
  server->host_ = address.host;
  server->service_ = std::make_unique<SimService>(options, std::move(log), clock);
  HttpTransport::Options transport;
  transport.host = address.host;
  transport.port = address.port;
  transport.connections_max = options.connections_max;
  SimService* const service = server->service_.get();
  ASSIGN_OR_RETURN(server->transport_,
                   HttpTransport::Start(transport, clock,
                                        [service](const HttpCall& call, HttpExchange& exchange) {
                                          service->Handle(call, exchange);
                                        }));
  return server;
}

SimServer::~SimServer() { Stop(); }

std::string SimServer::url() const {
  const bool v6 = host_.find(':') != std::string::npos;
  return absl::StrCat("http://", v6 ? "[" : "", host_, v6 ? "]" : "", ":", port());
}

void SimServer::Stop() {
  // Null when the start failed half-way.
  if (transport_ != nullptr) transport_->Stop();
  if (service_ != nullptr) service_->Flush();
}

}  // namespace nightshift
