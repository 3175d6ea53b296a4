#include "tests/worker/backends/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace nightshift {

ScriptedServer::ScriptedServer(Handler handler, Options options)
    : handler_(std::move(handler)), options_(std::move(options)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  NIGHTSHIFT_CHECK(listener_ >= 0, "socket");
  if (!options_.reads) {
    const int small = 4096;  // so that a sender is soon stuck
    setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  NIGHTSHIFT_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0,
                   "bind");
  NIGHTSHIFT_CHECK(listen(listener_, 1024) == 0, "listen");
  socklen_t length = sizeof(address);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  wakeup_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { Serve(); });
}

ScriptedServer::~ScriptedServer() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  for (const auto& [fd, connection] : open_) close(fd);
  close(listener_);
  close(wakeup_);
}

std::string ScriptedServer::url() const { return absl::StrCat("http://127.0.0.1:", port_); }

void ScriptedServer::Wake() { eventfd_write(wakeup_, 1); }

void ScriptedServer::Release() {
  {
    MutexLock lock(&mutex_);
    released_ = true;
  }
  Wake();
}

void ScriptedServer::WaitForHeld(int count) {
  MutexLock lock(&mutex_);
  while (held_ < count) changed_.Wait(&mutex_);
}

void ScriptedServer::WaitForSent(int count) {
  MutexLock lock(&mutex_);
  while (sent_ < count) changed_.Wait(&mutex_);
}

void ScriptedServer::WaitForConnections(int count) {
  MutexLock lock(&mutex_);
  while (connections_ < count) changed_.Wait(&mutex_);
}

void ScriptedServer::WaitForClosedByPeer(int count) {
  MutexLock lock(&mutex_);
  while (closed_by_peer_ < count) changed_.Wait(&mutex_);
}

void ScriptedServer::WaitForClosed(int count) {
  MutexLock lock(&mutex_);
  while (closed_by_us_ < count) changed_.Wait(&mutex_);
}

int ScriptedServer::connections() const {
  MutexLock lock(&mutex_);
  return connections_;
}

std::vector<ScriptedServer::Request> ScriptedServer::requests() const {
  MutexLock lock(&mutex_);
  return requests_;
}

void ScriptedServer::Serve() {
  for (;;) {
    std::vector<pollfd> waits = {{wakeup_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& [fd, connection] : open_)
      waits.push_back({fd, static_cast<short>(options_.reads ? POLLIN : 0), 0});
    poll(waits.data(), waits.size(), -1);
    bool released;
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      released = released_;
    }
    if (waits[0].revents != 0) {
      eventfd_t count;
      eventfd_read(wakeup_, &count);
    }
    if (released) {
      std::vector<std::pair<int, std::vector<Reply>>> due;
      for (auto& [fd, connection] : open_) {
        if (!connection.held.empty()) due.emplace_back(fd, std::move(connection.held));
        connection.held.clear();
      }
      for (const auto& [fd, replies] : due) {
        for (const Reply& reply : replies) {
          if (!SendReply(fd, reply)) break;
        }
      }
    }
    if (waits[1].revents != 0) Accept();
    for (size_t i = 2; i < waits.size(); ++i) {
      if (waits[i].revents != 0 && open_.count(waits[i].fd) > 0) ReadFrom(waits[i].fd);
    }
  }
}

void ScriptedServer::Accept() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  send(fd, options_.greeting.data(), options_.greeting.size(), MSG_NOSIGNAL);
  MutexLock lock(&mutex_);
  open_[fd].number = connections_++;
  changed_.SignalAll();
}

void ScriptedServer::CloseConnection(int fd, bool by_peer) {
  open_.erase(fd);
  close(fd);
  MutexLock lock(&mutex_);
  ++(by_peer ? closed_by_peer_ : closed_by_us_);
  changed_.SignalAll();
}

bool ScriptedServer::ReadFrom(int fd) {
  char bytes[65536];
  const ssize_t count = recv(fd, bytes, sizeof(bytes), 0);
  if (count <= 0) {
    CloseConnection(fd, true);
    return false;
  }
  Connection& connection = open_[fd];
  connection.input.append(bytes, count);
  for (;;) {
    const size_t head_end = connection.input.find("\r\n\r\n");
    if (head_end == std::string::npos || connection.hung) return true;
    Request request;
    request.head = connection.input.substr(0, head_end + 2);
    const std::string lower = absl::AsciiStrToLower(request.head);
    size_t length = 0;
    const size_t field = lower.find("content-length:");
    if (field != std::string::npos) length = std::strtoul(lower.c_str() + field + 15, nullptr, 10);
    if (connection.input.size() < head_end + 4 + length) return true;
    request.body = connection.input.substr(head_end + 4, length);
    connection.input.erase(0, head_end + 4 + length);
    request.connection = connection.number;
    request.number_on_connection = connection.requests++;
    Reply reply = handler_(request);
    {
      MutexLock lock(&mutex_);
      requests_.push_back(request);
      changed_.SignalAll();
      if (reply.hold && !released_) {
        connection.held.push_back(reply);
        ++held_;
        continue;
      }
    }
    if (!SendReply(fd, reply)) return false;
  }
}

bool ScriptedServer::SendReply(int fd, const Reply& reply) {
  const size_t piece = reply.piece == 0 ? reply.bytes.size() : reply.piece;
  for (size_t at = 0; at < reply.bytes.size();) {
    const ssize_t sent =
        send(fd, reply.bytes.data() + at, std::min(piece, reply.bytes.size() - at), MSG_NOSIGNAL);
    if (sent <= 0) {
      CloseConnection(fd, true);
      return false;
    }
    at += sent;
  }
  {
    MutexLock lock(&mutex_);
    ++sent_;
    changed_.SignalAll();
  }
  switch (reply.then) {
    case Then::kKeep:
      return true;
    case Then::kHang:
      open_[fd].hung = true;
      return true;
    case Then::kDie:
      close(listener_);
      listener_ = -1;
      [[fallthrough]];
    case Then::kReset: {
      const linger at_once = {1, 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
      break;
    }
    case Then::kClose:
      break;
  }
  CloseConnection(fd, false);
  return false;
}

std::string ScriptedServer::Response(int status, const std::string& body,
                                     const std::string& headers) {
  return absl::StrCat("HTTP/1.1 ", status, " Whatever\r\n", headers,
                      "Content-Length: ", body.size(), "\r\n\r\n", body);
}

std::string ScriptedServer::EventStream(const std::string& body, bool whole) {
  return absl::StrCat(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
      absl::StrFormat("%x\r\n", body.size()), body, "\r\n", whole ? "0\r\n\r\n" : "");
}

std::string ScriptedServer::ChatAnswer(const std::string& content) {
  return absl::StrCat(R"({"choices":[{"index":0,"message":{"role":"assistant","content":")",
                      content,
                      R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,)"
                      R"("completion_tokens":4}})");
}

}  // namespace nightshift
