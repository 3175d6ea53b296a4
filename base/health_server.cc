#include "base/health_server.h"

#include <httplib.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace nightshift {
namespace {

// Enough for a supervisor, a load balancer and a person; a further connection waits for a thread.
constexpr size_t kThreads = 4;
// Nobody has a body to send here; one that comes is refused with 413.
constexpr size_t kBodyBytesMax = 1024;
constexpr int kReadTimeoutSeconds = 5;
constexpr size_t kRequestsPerConnectionMax = 20;

// 0 or why not.
int TryToBind(const addrinfo& address) {
  const int socket = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno;
  // As servers do: what a connection that has just ended leaves behind does not count as taken.
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int error = bind(socket, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  close(socket);
  return error;
}

}  // namespace

absl::Status SplitAddress(const std::string& address, std::string* host, int* port) {
  const size_t colon = address.rfind(':');
  uint32_t number = 0;
  const absl::string_view text = address;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &number) || number > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is not an address; write HOST:PORT, such as 127.0.0.1:0"));
  }
  absl::string_view name = text.substr(0, colon);
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
    name = name.substr(1, name.size() - 2);
  }
  *host = std::string(name);
  *port = static_cast<int>(number);
  return absl::OkStatus();
}

bool IsLoopbackHost(const std::string& host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

absl::Status WhyCannotListen(const std::string& address) {
  std::string host;
  int port = 0;
  if (absl::Status split = SplitAddress(address, &host, &port); !split.ok()) return split;
  const std::string text = absl::StrCat("cannot listen on ", address, ": ");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (unknown != 0) return absl::InvalidArgumentError(absl::StrCat(text, gai_strerror(unknown)));
  int error = 0;
  for (const addrinfo* one = found; one != nullptr && error != EADDRINUSE; one = one->ai_next) {
    const int failed = TryToBind(*one);
    if (failed != 0) error = failed;
  }
  freeaddrinfo(found);
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(
        absl::StrCat(text, "the port is taken; choose another, or port 0 for any that is free"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(text, error != 0 ? std::strerror(error) : "try again"));
}

struct HealthServer::Impl {
  httplib::Server server;
  std::atomic<bool> ended{false};
  std::thread thread;
};

HealthServer::HealthServer(std::unique_ptr<Impl> impl, std::string address)
    : impl_(std::move(impl)), address_(std::move(address)) {}

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(
    const std::string& address, std::function<absl::Status()> ready,
    std::function<std::string()> metrics) {
  std::string host;
  int port = 0;
  if (absl::Status split = SplitAddress(address, &host, &port); !split.ok()) return split;

  auto impl = std::make_unique<Impl>();
  httplib::Server& server = impl->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_payload_max_length(kBodyBytesMax);
  server.set_read_timeout(kReadTimeoutSeconds);
  server.set_keep_alive_max_count(kRequestsPerConnectionMax);
  server.set_tcp_nodelay(true);
  // The library's default shares the port with whoever has it already (SO_REUSEPORT), which would
  // hide that it is taken.
  server.set_socket_options([](socket_t socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  server.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("ok\n", "text/plain");
  });
  server.Get("/readyz",
             [ready = std::move(ready)](const httplib::Request&, httplib::Response& response) {
               const absl::Status status = ready();
               response.status = status.ok() ? 200 : 503;
               response.set_content(status.ok() ? "ready\n" : absl::StrCat(status.message(), "\n"),
                                    "text/plain");
             });
  if (metrics) {
    server.Get("/metrics", [metrics = std::move(metrics)](const httplib::Request&,
                                                          httplib::Response& response) {
      response.set_content(metrics(), "text/plain; version=0.0.4; charset=utf-8");
    });
  }

  if (port == 0) {
    port = server.bind_to_any_port(host);
    if (port <= 0) port = -1;
  } else if (!server.bind_to_port(host, port)) {
    port = -1;
  }
  if (port < 0) {
    return WhyCannotListen(address);
  }
  impl->thread = std::thread([own = impl.get()] {
    own->server.listen_after_bind();
    own->ended = true;
  });
  const bool v6 = absl::StrContains(host, ':');
  return std::unique_ptr<HealthServer>(
      new HealthServer(std::move(impl), absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", port)));
}

HealthServer::~HealthServer() {
  // stop() does nothing on a server whose thread has not come to listen yet.
  while (!impl_->server.is_running() && !impl_->ended) std::this_thread::yield();
  impl_->server.stop();
  impl_->thread.join();
}

}  // namespace nightshift
