#include "worker/backends/socket_watcher.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace nightshift {

SocketWatcher::~SocketWatcher() {
  if (epoll_ >= 0) close(epoll_);
}

absl::Status SocketWatcher::Create() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0)
    return absl::ResourceExhaustedError(absl::StrCat("epoll_create1: ", std::strerror(errno)));
  return absl::OkStatus();
}

absl::Status SocketWatcher::AddWakeup(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
    return absl::ResourceExhaustedError(absl::StrCat("epoll_ctl: ", std::strerror(errno)));
  wakeup_ = fd;
  return absl::OkStatus();
}

SocketWatcher::Socket& SocketWatcher::At(int fd) {
  if (static_cast<size_t>(fd) >= sockets_.size()) sockets_.resize(fd + 64);
  return sockets_[fd];
}

void SocketWatcher::Opened(int fd) {
  At(fd) = Socket();
  At(fd).ours = true;
}

// Closing a descriptor takes it out of the epoll set.
void SocketWatcher::Closing(int fd) { At(fd) = Socket(); }

void SocketWatcher::Want(int fd, uint32_t events, int owner) {
  Socket& socket = At(fd);
  socket.wanted = events;
  socket.owner = owner;
  const bool all_watched = (socket.watched & events) == events;
  // A socket that is not waited for is seldom readable, but nearly always writable.
  const bool harmless_excess = ((socket.watched & ~events) & EPOLLOUT) == 0;
  if (socket.ours && all_watched && harmless_excess) return;
  Set(fd, socket, events);
}

void SocketWatcher::Set(int fd, Socket& socket, uint32_t events) {
  if (socket.watched == events) return;
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  int result;
  if (events == 0) {
    result = epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, &event);
    if (result != 0 && (errno == EBADF || errno == ENOENT)) result = 0;  // closed by its owner
    if (!socket.ours) socket = Socket();
  } else {
    result = epoll_ctl(epoll_, socket.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
    if (result != 0 && errno == EEXIST) result = epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
    if (result != 0 && errno == ENOENT) result = epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }
  NIGHTSHIFT_CHECK(result == 0, absl::StrCat("epoll_ctl: ", std::strerror(errno)));
  socket.watched = events;
}

const std::vector<SocketWatcher::Ready>& SocketWatcher::Wait(int timeout_ms) {
  ready_.clear();
  const int count = epoll_wait(epoll_, events_.data(), kEventsPerWait, timeout_ms);
  NIGHTSHIFT_CHECK(count >= 0 || errno == EINTR,
                   absl::StrCat("epoll_wait: ", std::strerror(errno)));
  for (int i = 0; i < count; ++i) {
    const int fd = events_[i].data.fd;
    ready_.push_back(Ready{fd, events_[i].events, fd == wakeup_ ? -1 : At(fd).owner});
  }
  return ready_;
}

int SocketWatcher::StillWanted(const Ready& ready) {
  Socket& socket = At(ready.fd);
  if (socket.wanted == 0) {
    // An idle connection that the server has closed; libcurl looks before it uses one again.
    Set(ready.fd, socket, 0);
    return -1;
  }
  return socket.owner;
}

}  // namespace nightshift
