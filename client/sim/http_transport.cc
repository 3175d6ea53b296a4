#include "client/sim/http_transport.h"

#include <httplib.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/threads_on_demand.h"

namespace nightshift {
namespace {

// The kernel clips it to net.core.somaxconn. httplib's own is 5: with hundreds of clients that
// start at once, connections would be refused.
constexpr int kListenBacklog = 4096;
// Also how long a connection may be idle.
constexpr time_t kReadTimeoutSeconds = 300;
constexpr time_t kWriteTimeoutSeconds = 60;
// Of a connection's thread.
constexpr size_t kStackBytes = size_t{512} << 10;
constexpr size_t kPathBytesMax = 128;

constexpr absl::string_view kRefusal =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    "Content-Length: 75\r\n\r\n"
    R"({"error":{"message":"too many connections","type":"overloaded","code":503}})";

thread_local HttpExchange* current_exchange = nullptr;

// What httplib reads from and writes to. Once a call is answered, httplib's own answer, which it
// insists on, goes nowhere.
class ExchangeStream final : public httplib::Stream {
 public:
  ExchangeStream(HttpExchange& exchange) : exchange_(exchange) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return !exchange_.dropped(); }
  ssize_t read(char* out, size_t size) override { return exchange_.Read(out, size); }
  ssize_t write(const char* bytes, size_t size) override {
    if (!exchange_.answered() && !exchange_.Write({bytes, size})) return -1;
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  // httplib refuses descriptors that select() cannot take; nothing here uses select().
  socket_t socket() const override { return 0; }

 private:
  HttpExchange& exchange_;
};

void RaiseOpenFilesLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

class HttpTransport::Server final : public httplib::Server {
 public:
  Server(const HttpTransport::Options& options, Clock& clock, HttpTransport::Handler handler)
      : clock_(clock), handler_(std::move(handler)) {
    const auto threads_max = static_cast<size_t>(options.connections_max);
    new_task_queue = [threads_max] { return NewThreadsOnDemand(threads_max, kStackBytes); };
    // Without SO_REUSEPORT, which httplib would set: a second server on the port must fail.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    set_tcp_nodelay(true);
    set_read_timeout(kReadTimeoutSeconds);
    set_write_timeout(kWriteTimeoutSeconds);
    set_payload_max_length(options.body_bytes_max);
    set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
      if (request.path.size() <= kPathBytesMax) return HandlerResponse::Unhandled;
      response.status = 404;
      return HandlerResponse::Handled;
    });
    const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
      Handle(request, response);
    };
    Get("/.*", handle);
    Post("/.*", handle);
  }

  absl::StatusOr<int> Listen(const HttpTransport::Options& options) {
    errno = 0;
    int port = options.port;
    if (port == 0) {
      port = bind_to_any_port(options.host);
    } else if (!bind_to_port(options.host, port)) {
      port = -1;
    }
    if (port <= 0) {
      const std::string reason =
          errno != 0 ? std::strerror(errno) : "the address is not one of this machine's";
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", options.host, ":", options.port, ": ", reason));
    }
    ::listen(svr_sock_, kListenBacklog);
    accepting_ = std::thread([this] { listen_after_bind(); });
    // stop() does nothing to a server that is not running yet.
    while (!is_running()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return port;
  }

  void Stop() {
    if (!accepting_.joinable()) return;
    stop();
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
    }
    accepting_.join();
  }

 private:
  bool process_and_close_socket(socket_t fd) override {
    if (TurnsAway()) {
      (void)!send(fd, kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      shutdown(fd, SHUT_RDWR);
    } else if (Register(fd)) {
      Serve(fd);
      Unregister(fd);
    }
    close(fd);
    return true;
  }

  void Serve(int fd) {
    HttpExchange exchange(fd, clock_);
    ExchangeStream stream(exchange);
    current_exchange = &exchange;
    while (exchange.WaitForBytes()) {
      exchange.BeginCall();
      bool closed = false;
      const bool served =
          process_request(stream, /*close_connection=*/false, closed, /*setup_request=*/nullptr);
      if (!served || closed || exchange.dropped()) break;
    }
    current_exchange = nullptr;
    shutdown(fd, SHUT_RDWR);
  }

  void Handle(const httplib::Request& request, httplib::Response&) {
    HttpCall call;
    call.method = request.method;
    call.path = request.path;
    call.body = request.body;
    const auto authorization = request.headers.find("Authorization");
    if (authorization != request.headers.end()) call.authorization = authorization->second;
    handler_(call, *current_exchange);
    NIGHTSHIFT_CHECK(current_exchange->answered(), "a call was not answered");
  }

  bool Register(int fd) {
    MutexLock lock(&mutex_);
    if (stopping_) return false;
    connections_.insert(fd);
    return true;
  }

  // Before the descriptor is closed, or Stop() could end another connection with the same number.
  void Unregister(int fd) {
    MutexLock lock(&mutex_);
    connections_.erase(fd);
  }

  Clock& clock_;
  const HttpTransport::Handler handler_;
  std::thread accepting_;
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<int> connections_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<HttpTransport>> HttpTransport::Start(const Options& options,
                                                                    Clock& clock, Handler handler) {
  signal(SIGPIPE, SIG_IGN);
  RaiseOpenFilesLimit();
  std::unique_ptr<HttpTransport> transport(new HttpTransport);
  transport->server_ = std::make_unique<Server>(options, clock, std::move(handler));
  const absl::StatusOr<int> port = transport->server_->Listen(options);
  if (!port.ok()) return port.status();
  transport->port_ = *port;
  return transport;
}

HttpTransport::~HttpTransport() { Stop(); }

void HttpTransport::Stop() { server_->Stop(); }

}  // namespace nightshift
