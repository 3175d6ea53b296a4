#include "base/health_server.h"

#include <httplib.h>
#include <netdb.h>
#include <poll.h>
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
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/range_renamer.h"

namespace nightshift {
namespace {

// Enough for a supervisor, a load balancer and a person; a further connection waits for a thread.
constexpr size_t kThreads = 4;
// Of a request; nobody has a body to send here, and none is read.
constexpr size_t kHeadBytesMax = size_t{16} << 10;
// Of a connection, however its bytes are spread; it serves one request.
constexpr absl::Duration kConnectionTimeout = absl::Seconds(5);
// How much of a body that nobody reads is taken, and how long, so that the client reads its answer
// before the connection breaks.
constexpr int64_t kDrainBytesMax = int64_t{1} << 20;
constexpr absl::Duration kDrainTimeout = absl::Milliseconds(200);
// How soon a connection notices that the server ends.
constexpr int kLookMs = 50;

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

// One connection, as the library reads from and writes to it: a head and its answer, both within
// one time.
class HealthStream final : public httplib::Stream {
 public:
  HealthStream(int fd, const std::atomic<socket_t>& listening)
      : fd_(fd), listening_(listening), until_(Clock::Real().Now() + kConnectionTimeout) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }

  ssize_t read(char* out, size_t size) override {
    // The library reads heads byte by byte.
    if (size == 0 || read_ == kHeadBytesMax) return -1;
    if (begin_ == end_) {
      const ssize_t got = Receive(until_);
      if (got <= 0) return got;
    }
    bool taken = false;
    *out = range_.Put(buffer_[begin_], &taken);
    if (taken) ++begin_;
    ++read_;
    return 1;
  }

  ssize_t write(const char* bytes, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const ssize_t sent = send(fd_, bytes + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        done += static_cast<size_t>(sent);
      } else if (sent == 0 || !MayTryAgain() || !Await(POLLOUT, until_)) {
        return -1;
      }
    }
    return static_cast<ssize_t>(size);
  }

  void DrainAndShut() {
    shutdown(fd_, SHUT_WR);
    const MonotonicTime until = Clock::Real().Now() + kDrainTimeout;
    int64_t taken = 0;
    for (ssize_t got = 1; got > 0 && taken < kDrainBytesMax; taken += got) got = Receive(until);
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  // The library refuses descriptors that select() cannot take; nothing here uses select().
  socket_t socket() const override { return 0; }

 private:
  static bool MayTryAgain() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

  // False when `events` did not come up in time, or the server ends.
  bool Await(short events, MonotonicTime until) const {
    pollfd polled = {fd_, events, 0};
    while (listening_ != INVALID_SOCKET && Clock::Real().Now() < until) {
      const int ready = poll(&polled, 1, kLookMs);
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
    }
    return false;
  }

  // Into the buffer, which is empty. How many bytes, 0 at the end, below 0 when none can come.
  ssize_t Receive(MonotonicTime until) {
    ssize_t got = -1;
    do {
      if (!Await(POLLIN, until)) return -1;
      got = recv(fd_, buffer_, sizeof buffer_, MSG_DONTWAIT);
    } while (got < 0 && MayTryAgain());
    begin_ = 0;
    end_ = got > 0 ? static_cast<size_t>(got) : 0;
    return got;
  }

  const int fd_;
  const std::atomic<socket_t>& listening_;
  const MonotonicTime until_;
  RangeRenamer range_;
  char buffer_[4096];
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t read_ = 0;
};

// The library's server with streams of ours.
class LibraryServer final : public httplib::Server {
 private:
  bool process_and_close_socket(socket_t fd) override {
    HealthStream stream(fd, svr_sock_);
    bool closed = false;
    if (process_request(stream, /*close_connection=*/true, closed, nullptr)) stream.DrainAndShut();
    shutdown(fd, SHUT_RDWR);
    close(fd);
    return true;
  }
};

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
  LibraryServer server;
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
  server.set_tcp_nodelay(true);
  server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    // The library would read the body of any other method into memory.
    if (request.method == "GET" || request.method == "HEAD") {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    response.status = 405;
    response.set_header("Allow", "GET, HEAD");
    return httplib::Server::HandlerResponse::Handled;
  });
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
