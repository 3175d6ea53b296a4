#include "coordinator/http/http_server.h"

#include <httplib.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <thread>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/health_server.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/range_renamer.h"
#include "base/threads_on_demand.h"
#include "coordinator/http/api_reply.h"
#include "coordinator/http/http_connection.h"

namespace nightshift {
namespace {

// The kernel clips it to net.core.somaxconn. The library's own is 5.
constexpr int kListenBacklog = 1024;
// How long a connection may rest between two requests. Clients of the usual kind give up after 4 to
// 5 s; whoever closes first while the other sends loses a request, so this side waits longer.
constexpr absl::Duration kKeepAlive = absl::Seconds(15);
constexpr absl::Duration kKeepAliveWhenBusy = absl::Milliseconds(100);
constexpr int kBusyConnections = kHttpConnectionsMax / 2;
// A connection that has waited shorter than this is not ended for another.
constexpr absl::Duration kWaitMin = absl::Milliseconds(200);
// The same once every thread is taken: a client that means it sends its head at once.
constexpr absl::Duration kWaitMinWhenFull = absl::Milliseconds(20);
// Of a crowded connection's head.
constexpr absl::Duration kCrowdedHeadTimeout = absl::Seconds(1);
constexpr int kRequestsPerConnectionMax = 1000;
// Of a connection's thread.
constexpr size_t kStackBytes = size_t{1} << 20;

// To whoever comes when all connections are taken.
std::string Refusal() {
  const std::string body = TooManyConnections().body;
  return absl::StrCat(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
      "Retry-After: 1\r\nContent-Length: ",
      body.size(), "\r\n\r\n", body);
}

// What the library's handlers have to know of the request on this thread.
struct Exchange {
  HttpConnection* connection = nullptr;
  HttpFields headers;
  bool has_body = false;
  bool crowded = false;
  std::string problem;  // the framing is wrong: nothing after the head can be trusted
  std::string request_id;
};
thread_local Exchange* exchange = nullptr;

// Counts what the library reads and stops it at the limit.
class LibraryBody final : public HttpBody {
 public:
  explicit LibraryBody(const httplib::ContentReader* reader) : reader_(reader) {}

  absl::Status Read(int64_t bytes_max,
                    absl::FunctionRef<absl::Status(absl::string_view)> take) override {
    if (reader_ == nullptr || !exchange->has_body) return absl::OkStatus();
    absl::Status status;
    int64_t taken = 0;
    exchange->connection->AskForBody();
    const bool whole = (*reader_)([&](const char* bytes, size_t size) {
      exchange->connection->AskForBody();
      taken += static_cast<int64_t>(size);
      if (taken > bytes_max) {
        status = absl::OutOfRangeError(
            absl::StrCat("The body is larger than the maximum of ", bytes_max, " bytes."));
      } else {
        status = take(absl::string_view(bytes, size));
      }
      return status.ok();
    });
    if (!status.ok() || !whole) exchange->connection->MustClose();
    if (status.ok() && !whole) {
      status = absl::InvalidArgumentError(WhyCut());
    }
    read_ = status.ok();
    return status;
  }

  // Whether what follows on the connection is the next request.
  bool done() const { return read_ || !exchange->has_body; }

 private:
  static absl::string_view WhyCut() {
    if (exchange->connection->timed_out()) return "The body came too slowly and was given up.";
    if (exchange->connection->badly_framed()) return "The body is not properly chunked.";
    return "The body ends early: fewer bytes came than the request announced.";
  }

  const httplib::ContentReader* const reader_;
  bool read_ = false;
};

bool IsDigits(absl::string_view text) {
  return !text.empty() && text.size() <= 18 && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

// Those that have a route.
constexpr absl::string_view kMethods[] = {"GET",   "HEAD",   "POST",   "PUT",
                                          "PATCH", "DELETE", "OPTIONS"};

bool IsRoutedMethod(absl::string_view method) { return absl::c_linear_search(kMethods, method); }

// Whether the pattern of the routes matches it: `.` takes no end of a line, and on a long one the
// library's regular expression would use up the stack.
bool MayBePath(absl::string_view path) {
  return absl::StartsWith(path, "/") && path.size() <= kHttpPathBytesMax &&
         std::none_of(path.begin(), path.end(),
                      [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

// How the body is delimited, judged before a byte of it is read: the library would guess, and what
// two programs read differently can be made to smuggle a second request.
void CheckFraming(const httplib::Request& request, Exchange& now) {
  const size_t lengths = request.get_header_value_count("Content-Length");
  const size_t codings = request.get_header_value_count("Transfer-Encoding");
  if (codings > 0) {
    if (lengths > 0 || codings > 1 ||
        !absl::EqualsIgnoreCase(request.get_header_value("Transfer-Encoding"), "chunked")) {
      now.problem = "The body must come with one Content-Length, or chunked and without one.";
    }
    now.has_body = true;
    now.connection->BodyIsChunked();
  } else if (lengths > 0) {
    const std::string value = request.get_header_value("Content-Length");
    if (lengths > 1 || !IsDigits(value)) now.problem = "Content-Length must be one number.";
    now.has_body = value != "0";
  }
  if (now.problem.empty() && now.has_body && request.has_header("Content-Encoding") &&
      !absl::EqualsIgnoreCase(request.get_header_value("Content-Encoding"), "identity")) {
    now.problem = "Compressed bodies are not taken; send it as it is.";
  }
  if (!now.problem.empty()) now.connection->MustClose();
}

class LibraryServer final : public HttpServer, private httplib::Server {
 public:
  LibraryServer(TlsIdentity* tls, Clock& clock, HttpServer::Handler handler)
      : tls_(tls), clock_(clock), handler_(std::move(handler)), random_(Random::FromSystem()) {
    new_task_queue = [this] {
      return NewThreadsOnDemand(kHttpConnectionsMax + kHttpReserve, kStackBytes,
                                [this] { return MakeRoom(); });
    };
    // Without SO_REUSEPORT, which the library would set: a second server on the port must fail.
    set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    set_tcp_nodelay(true);
    set_keep_alive_timeout(absl::ToInt64Seconds(kKeepAlive));
    set_keep_alive_max_count(kRequestsPerConnectionMax);
    // Bodies are counted where they are read, and an upload may be of any size.
    set_payload_max_length(std::numeric_limits<size_t>::max());
    set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
      // What no route takes: the library would read the body of it into memory first.
      if (!IsRoutedMethod(request.method)) {
        response.status = 405;
        response.set_header("Allow", absl::StrJoin(kMethods, ", "));
        return HandlerResponse::Handled;
      }
      // Before the library's regular expression sees it.
      if (MayBePath(request.path)) return HandlerResponse::Unhandled;
      response.status = 404;
      return HandlerResponse::Handled;
    });
    const auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
      Handle(request, response, nullptr);
    };
    const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& reader) {
      Handle(request, response, &reader);
    };
    // All of kMethods, so that no body is ever read by the library on its own.
    Get("/.*", without_body);
    Options("/.*", without_body);
    Post("/.*", with_body);
    Put("/.*", with_body);
    Patch("/.*", with_body);
    Delete("/.*", with_body);
    set_error_handler(
        [](const httplib::Request&, httplib::Response& response) { DressError(response); });
    set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
      response.set_header("x-request-id", exchange->request_id);
    });
    set_exception_handler(
        [](const httplib::Request& request, httplib::Response& response, std::exception_ptr) {
          LogError("an HTTP request ended in an exception: ", request.method, " ", request.path);
          response.status = 500;
          exchange->connection->MustClose();
        });
  }
  ~LibraryServer() override { LibraryServer::Stop(); }

  absl::Status Listen(const std::string& address) {
    std::string host;
    int port = 0;
    if (absl::Status split = SplitAddress(address, &host, &port); !split.ok()) return split;
    if (port == 0) {
      port = bind_to_any_port(host);
    } else if (!bind_to_port(host, port)) {
      port = -1;
    }
    if (port <= 0) return WhyCannotListen(address);
    ::listen(svr_sock_, kListenBacklog);
    const bool v6 = absl::StrContains(host, ':');
    address_ = absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", port);
    accepting_ = std::thread([this] {
      listen_after_bind();
      ended_ = true;
    });
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }

  void Stop() override {
    if (!accepting_.joinable()) return;
    // stop() does nothing on a server whose thread has not come to listen yet.
    while (!is_running() && !ended_) std::this_thread::yield();
    stop();
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      for (const auto& [fd, state] : connections_) ::shutdown(fd, SHUT_RDWR);
    }
    accepting_.join();
  }

 private:
  // Of a connection.
  struct State {
    MonotonicTime waits_since = MonotonicTime::Infinite();  // for a request
    bool ended = false;                                     // to make room for another
  };

  // For what the library answers by itself; replies of ours have a body already.
  static void DressError(httplib::Response& response) {
    if (!response.body.empty() || response.content_length_ > 0) return;
    HttpConnection& connection = *exchange->connection;
    ApiError error;
    if (connection.head_too_large()) {
      response.status = 431;
      error.message = absl::StrCat("The headers are larger than ", kHeadBytesMax, " bytes.");
    } else if (connection.timed_out()) {
      response.status = 408;
      error.message = "The request came too slowly and was given up.";
    } else if (response.status == 404) {
      error.message = "Unknown request URL.";
      error.code = "unknown_url";
    } else if (response.status == 405) {
      error.message = "No request URL here takes that method.";
      error.code = "method_not_allowed";
    } else if (response.status >= 500) {
      error.message = "The server could not answer; its log says why.";
    } else {
      error.message = "The request is not valid HTTP.";
    }
    error.status = response.status;
    connection.MustClose();
    const HttpReply reply = ErrorReply(error);
    response.set_content(reply.body, reply.content_type);
    response.set_header("Connection", "close");
  }

  bool process_and_close_socket(socket_t fd) override {
    if (TurnsAway()) {
      const std::string refusal = Refusal();
      (void)!send(fd, refusal.data(), refusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      ::shutdown(fd, SHUT_RDWR);
    } else if (bool crowded = false; Register(fd, &crowded)) {
      Serve(fd, crowded);
      Unregister(fd);
    }
    close(fd);
    return true;
  }

  void Serve(int fd, bool crowded) {
    const int requests_max = crowded ? 1 : kRequestsPerConnectionMax;
    HttpConnection connection(fd, tls_ == nullptr ? nullptr : tls_->Current(), clock_);
    Exchange now;
    exchange = &now;
    SetWaiting(fd, clock_.Now());
    const bool agreed = connection.Handshake(crowded ? kCrowdedHeadTimeout : kHeadTimeout);
    for (int served = 1; agreed && served <= requests_max; ++served) {
      const absl::Duration patience =
          crowded ? kCrowdedHeadTimeout
                  : (served == 1 ? kHeadTimeout : (busy() ? kKeepAliveWhenBusy : kKeepAlive));
      SetWaiting(fd, clock_.Now());
      if (!connection.AwaitRequest(patience)) break;
      now = Exchange();
      now.connection = &connection;
      now.request_id = NewRequestId();
      now.crowded = crowded;
      bool closed = false;
      const bool ok = process_request(connection, served == requests_max, closed,
                                      [&](httplib::Request& request) {
                                        SetWaiting(fd, MonotonicTime::Infinite());
                                        TakeHead(request, connection, now);
                                      });
      if (!ok || closed || connection.must_close()) break;
    }
    if (connection.must_close()) {
      // Its answer has been sent, so that others may have its place.
      SetWaiting(fd, clock_.Now());
      connection.DrainAndShut();
    }
    ::shutdown(fd, SHUT_RDWR);
    exchange = nullptr;
  }

  // Keeps the headers for us and takes from the library those that it would act on: it would parse
  // forms in memory and unpack bodies without a limit. Ranges it never sees: see RangeRenamer.
  static void TakeHead(httplib::Request& request, HttpConnection& connection, Exchange& now) {
    connection.HeadEnds();
    for (const auto& [name, value] : request.headers) {
      const bool range = absl::EqualsIgnoreCase(name, kRenamedRange);
      now.headers.emplace_back(range ? "Range" : name, value);
    }
    CheckFraming(request, now);
    for (const char* name : {"Content-Type", "Content-Encoding", "Accept-Encoding"}) {
      request.headers.erase(name);
    }
  }

  void Handle(const httplib::Request& library_request, httplib::Response& response,
              const httplib::ContentReader* reader) {
    LibraryBody body(reader);
    HttpReply reply;
    if (!exchange->problem.empty()) {
      reply = ErrorReply(ApiError{.message = exchange->problem});
    } else {
      HttpRequest request;
      request.method = library_request.method == "HEAD" ? "GET" : library_request.method;
      request.path = library_request.path;
      request.query.assign(library_request.params.begin(), library_request.params.end());
      request.headers = exchange->headers;
      request.body = &body;
      request.crowded = exchange->crowded;
      reply = handler_(request);
    }
    if (!body.done()) exchange->connection->MustClose();
    if (exchange->connection->must_close()) response.set_header("Connection", "close");
    response.status = reply.status;
    for (auto& [name, value] : reply.headers) response.set_header(name, value);
    if (reply.source == nullptr) {
      response.set_content(reply.body, reply.content_type);
    } else {
      SendSource(reply, response);
    }
  }

  static void SendSource(const HttpReply& reply, httplib::Response& response) {
    if (reply.source_bytes == HttpReply::kUnknownBytes) return SendStream(reply, response);
    const auto send = [source = reply.source](size_t, size_t, httplib::DataSink& sink) {
      const absl::StatusOr<absl::string_view> next = source->Next();
      if (!next.ok()) LogWarning("a download was cut: ", next.status().message());
      return next.ok() && !next->empty() && sink.write(next->data(), next->size());
    };
    response.set_content_provider(static_cast<size_t>(reply.source_bytes), reply.content_type,
                                  send);
  }

  static void SendStream(const HttpReply& reply, httplib::Response& response) {
    // It may go on for ever, and nothing else follows on its connection.
    exchange->connection->MustClose();
    response.set_header("Connection", "close");
    HttpConnection* const connection = exchange->connection;
    const auto send = [source = reply.source, connection](size_t, httplib::DataSink& sink) {
      // Each part has its own time to be taken in.
      connection->BeginWrite();
      const absl::StatusOr<absl::string_view> next = source->Next();
      if (!next.ok()) LogWarning("a stream was cut: ", next.status().message());
      if (!next.ok() || !connection->is_writable()) return false;
      if (!next->empty()) return sink.write(next->data(), next->size());
      if (!source->MoreToCome()) sink.done();
      return true;
    };
    response.set_chunked_content_provider(reply.content_type, send);
  }

  std::string NewRequestId() {
    MutexLock lock(&mutex_);
    return absl::StrFormat("req_%016x%08x", random_.Next(), random_.Next() & 0xffffffff);
  }

  bool busy() const {
    MutexLock lock(&mutex_);
    return connections_.size() > kBusyConnections;
  }

  // False when the server ends. `crowded`: beyond the connections that others may have.
  bool Register(int fd, bool* crowded) {
    MutexLock lock(&mutex_);
    if (stopping_) return false;
    *crowded = connections_.size() >= kHttpConnectionsMax && !EndLongestWaiting(kWaitMin);
    connections_[fd] = State();
    return true;
  }

  // Called when no thread is free: those that serve requests are not disturbed, those that wait for
  // one give way, also among the crowded.
  bool MakeRoom() {
    MutexLock lock(&mutex_);
    return !stopping_ && EndLongestWaiting(kWaitMinWhenFull);
  }

  bool EndLongestWaiting(absl::Duration wait_min) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto longest = std::min_element(
        connections_.begin(), connections_.end(),
        [](const auto& a, const auto& b) { return a.second.waits_since < b.second.waits_since; });
    if (longest == connections_.end() || longest->second.waits_since + wait_min > clock_.Now()) {
      return false;
    }
    ::shutdown(longest->first, SHUT_RDWR);
    longest->second = {MonotonicTime::Infinite(), true};
    return true;
  }

  // Since when it waits for a request to be whole, or for its end; never while it serves one.
  void SetWaiting(int fd, MonotonicTime since) {
    MutexLock lock(&mutex_);
    State& state = connections_[fd];
    // Its place is promised already.
    if (!state.ended) state.waits_since = since;
  }

  // Before the descriptor is closed, or Stop() could end another connection with the same number.
  void Unregister(int fd) {
    MutexLock lock(&mutex_);
    connections_.erase(fd);
  }

  TlsIdentity* const tls_;
  Clock& clock_;
  const HttpServer::Handler handler_;
  std::string address_;
  std::thread accepting_;
  std::atomic<bool> ended_{false};

  mutable Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<int, State> connections_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              TlsIdentity* tls, Clock& clock,
                                                              Handler handler) {
  // A client that goes away while it is written to must not end the process.
  signal(SIGPIPE, SIG_IGN);
  auto server = std::make_unique<LibraryServer>(tls, clock, std::move(handler));
  if (absl::Status status = server->Listen(address); !status.ok()) return status;
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace nightshift
