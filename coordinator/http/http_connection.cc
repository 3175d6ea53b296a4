#include "coordinator/http/http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nightshift {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;
// What is taken of a body that nobody wants, at most.
constexpr int64_t kDrainBytesMax = int64_t{8} << 20;
constexpr absl::Duration kDrainTimeout = absl::Seconds(1);

MonotonicTime DeadlineOf(MonotonicTime started, int64_t bytes) {
  return started + kBodyTimeout + absl::Seconds(bytes / kBodyBytesPerSecondMin);
}

}  // namespace

HttpConnection::HttpConnection(int fd, Clock& clock)
    : fd_(fd), clock_(clock), buffer_(kBufferBytes), started_(clock.Now()) {}

bool HttpConnection::Await(short events, MonotonicTime until) const {
  pollfd polled = {fd_, events, 0};
  while (true) {
    const absl::Duration left = std::max(until - clock_.Now(), absl::ZeroDuration());
    const timespec timeout = absl::ToTimespec(left);
    const int ready = ppoll(&polled, 1, &timeout, nullptr);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool HttpConnection::AwaitRequest(absl::Duration timeout) {
  in_head_ = true;
  head_bytes_ = 0;
  body_bytes_ = 0;
  written_ = 0;
  if (begin_ == end_ && (!Await(POLLIN, clock_.Now() + timeout) || !Fill())) return false;
  started_ = clock_.Now();
  return true;
}

void HttpConnection::HeadEnds() {
  in_head_ = false;
  started_ = clock_.Now();
}

MonotonicTime HttpConnection::ReadDeadline() const {
  if (in_head_) return started_ + kHeadTimeout;
  return std::min(DeadlineOf(started_, body_bytes_), clock_.Now() + kBodyIdleTimeout);
}

bool HttpConnection::Fill() {
  ssize_t got;
  do {
    got = recv(fd_, buffer_.data(), buffer_.size(), 0);
  } while (got < 0 && errno == EINTR);
  begin_ = 0;
  end_ = got > 0 ? static_cast<size_t>(got) : 0;
  return got > 0;
}

ssize_t HttpConnection::read(char* out, size_t size) {
  if (broken_) return -1;
  if (begin_ == end_) {
    if (!Await(POLLIN, ReadDeadline())) {
      timed_out_ = true;
      must_close_ = true;
      broken_ = true;
      return -1;
    }
    if (!Fill()) {
      must_close_ = true;
      return 0;
    }
  }
  const size_t taken = std::min(size, end_ - begin_);
  std::memcpy(out, buffer_.data() + begin_, taken);
  begin_ += taken;
  if (in_head_) {
    head_bytes_ += static_cast<int64_t>(taken);
    if (head_bytes_ > kHeadBytesMax) {
      must_close_ = true;
      broken_ = true;
      return -1;
    }
  } else {
    body_bytes_ += static_cast<int64_t>(taken);
  }
  return static_cast<ssize_t>(taken);
}

bool HttpConnection::is_writable() const {
  char byte;
  const ssize_t got = recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  // Nothing from a client that waits for its answer is as it should be; an end is not.
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

ssize_t HttpConnection::write(const char* bytes, size_t size) {
  if (written_ == 0) write_started_ = clock_.Now();
  size_t done = 0;
  while (done < size) {
    const ssize_t sent = send(fd_, bytes + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      done += static_cast<size_t>(sent);
      written_ += sent;
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    const bool full = sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    const MonotonicTime until =
        std::min(DeadlineOf(write_started_, written_), clock_.Now() + kBodyIdleTimeout);
    if (!full || !Await(POLLOUT, until)) {
      must_close_ = true;
      broken_ = true;
      return -1;
    }
  }
  return static_cast<ssize_t>(size);
}

void HttpConnection::DrainAndShut() {
  shutdown(fd_, SHUT_WR);
  const MonotonicTime until = clock_.Now() + kDrainTimeout;
  for (int64_t taken = 0; taken < kDrainBytesMax && Await(POLLIN, until) && Fill();) {
    taken += static_cast<int64_t>(end_);
  }
  begin_ = end_ = 0;
}

// Nothing here tells clients apart by their address.
void HttpConnection::get_remote_ip_and_port(std::string&, int&) const {}
void HttpConnection::get_local_ip_and_port(std::string&, int&) const {}

}  // namespace nightshift
