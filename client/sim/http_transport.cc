#include "client/sim/http_transport.h"

#include <httplib.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"

namespace nightshift {
namespace {

// The kernel clips it to net.core.somaxconn. httplib's own is 5: with hundreds of clients that
// start at once, connections would be refused.
constexpr int kListenBacklog = 4096;
// Also how long a connection may be idle.
constexpr time_t kReadTimeoutSeconds = 300;
constexpr time_t kWriteTimeoutSeconds = 60;
// Of a connection's thread. Enough for std::regex, which httplib matches paths with and which
// recurses with every byte of the path.
constexpr size_t kStackBytes = size_t{512} << 10;
constexpr size_t kPathBytesMax = 128;

constexpr absl::string_view kRefusal =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    "Content-Length: 75\r\n\r\n"
    R"({"error":{"message":"too many connections","type":"overloaded","code":503}})";

// True on the accepting thread while it turns a connection away.
thread_local bool refusing = false;
thread_local HttpExchange* current_exchange = nullptr;

// Threads that are made when they are needed, up to a maximum, and stay.
class ThreadsOnDemand final : public httplib::TaskQueue {
 public:
  explicit ThreadsOnDemand(size_t threads_max) : threads_max_(threads_max) {}

  void enqueue(std::function<void()> task) override {
    {
      MutexLock lock(&mutex_);
      if (tasks_.size() < idle_ || AddThread()) {
        tasks_.push_back(std::move(task));
        changed_.Signal();
        return;
      }
    }
    refusing = true;
    task();
    refusing = false;
  }

  void shutdown() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
    }
    // No thread is added any more: enqueue() is called by the thread that calls this.
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

 private:
  // False at the maximum, and when the system gives no more threads.
  bool AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (threads_.size() >= threads_max_) return false;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    pthread_t thread;
    const int error = pthread_create(
        &thread, &attributes,
        [](void* self) -> void* {
          static_cast<ThreadsOnDemand*>(self)->Run();
          return nullptr;
        },
        this);
    pthread_attr_destroy(&attributes);
    if (error != 0) return false;
    threads_.push_back(thread);
    return true;
  }

  void Run() {
    while (true) {
      std::function<void()> task;
      {
        MutexLock lock(&mutex_);
        ++idle_;
        while (tasks_.empty() && !stopping_) changed_.Wait(&mutex_);
        --idle_;
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  const size_t threads_max_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<pthread_t> threads_;  // added to under mutex_, by the accepting thread alone
};

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
    new_task_queue = [threads_max] { return new ThreadsOnDemand(threads_max); };
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
    if (refusing) {
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
