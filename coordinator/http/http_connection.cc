#include "coordinator/http/http_connection.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/string_view.h"

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

HttpConnection::HttpConnection(int fd, std::shared_ptr<SSL_CTX> tls, Clock& clock)
    : fd_(fd),
      tls_context_(std::move(tls)),
      clock_(clock),
      buffer_(kBufferBytes),
      started_(clock.Now()) {}

HttpConnection::~HttpConnection() { SSL_free(tls_); }

bool HttpConnection::Handshake(absl::Duration timeout) {
  if (tls_context_ == nullptr) return true;
  tls_ = SSL_new(tls_context_.get());
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  if (tls_ == nullptr || SSL_set_fd(tls_, fd_) != 1) return false;
  const MonotonicTime until = clock_.Now() + timeout;
  while (true) {
    ERR_clear_error();
    const int result = SSL_accept(tls_);
    bool timed_out = false;
    if (result == 1) return true;
    if (!AwaitTls(result, until, &timed_out)) return false;
  }
}

bool HttpConnection::AwaitTls(int result, MonotonicTime until, bool* timed_out) {
  const int wanted = SSL_get_error(tls_, result);
  ERR_clear_error();
  if (wanted != SSL_ERROR_WANT_READ && wanted != SSL_ERROR_WANT_WRITE) return false;
  *timed_out = !Await(wanted == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until);
  return !*timed_out;
}

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
  range_.Restart();
  head_bytes_ = 0;
  body_bytes_ = 0;
  askable_ = 0;
  chunks_.reset();
  written_ = 0;
  if (begin_ == end_ && Fill(clock_.Now() + timeout) != Got::kBytes) return false;
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

HttpConnection::Got HttpConnection::Fill(MonotonicTime until) {
  begin_ = 0;
  end_ = 0;
  ssize_t got = 0;
  if (tls_ == nullptr) {
    if (!Await(POLLIN, until)) return Got::kTimeout;
    do {
      got = recv(fd_, buffer_.data(), buffer_.size(), 0);
    } while (got < 0 && errno == EINTR);
  } else {
    bool timed_out = false;
    do {
      ERR_clear_error();
      got = SSL_read(tls_, buffer_.data(), static_cast<int>(buffer_.size()));
    } while (got <= 0 && AwaitTls(static_cast<int>(got), until, &timed_out));
    if (timed_out) return Got::kTimeout;
  }
  if (got <= 0) return Got::kEnd;
  end_ = static_cast<size_t>(got);
  return Got::kBytes;
}

ssize_t HttpConnection::Send(const char* bytes, size_t size, MonotonicTime until) {
  if (tls_ != nullptr) {
    int sent = 0;
    bool timed_out = false;
    do {
      ERR_clear_error();
      sent = SSL_write(tls_, bytes, static_cast<int>(std::min(size, kBufferBytes)));
    } while (sent <= 0 && AwaitTls(sent, until, &timed_out));
    return sent > 0 ? sent : (timed_out ? 0 : -1);
  }
  while (true) {
    const ssize_t sent = send(fd_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) return sent;
    if (sent < 0 && errno == EINTR) continue;
    const bool full = sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (!full) return -1;
    if (!Await(POLLOUT, until)) return 0;
  }
}

ssize_t HttpConnection::read(char* out, size_t size) {
  if (broken_) return -1;
  if (!in_head_ && askable_ == 0) return RefuseBody();
  if (begin_ == end_) {
    const Got got = Fill(ReadDeadline());
    if (got == Got::kTimeout) {
      timed_out_ = true;
      must_close_ = true;
      broken_ = true;
      return -1;
    }
    if (got == Got::kEnd) {
      must_close_ = true;
      return 0;
    }
  }
  if (in_head_) return ReadHead(out);
  const size_t taken = std::min({size, end_ - begin_, askable_});
  std::memcpy(out, buffer_.data() + begin_, taken);
  begin_ += taken;
  askable_ -= taken;
  body_bytes_ += static_cast<int64_t>(taken);
  if (chunks_.has_value() && !chunks_->Take(absl::string_view(out, taken))) return RefuseBody();
  return static_cast<ssize_t>(taken);
}

ssize_t HttpConnection::RefuseBody() {
  badly_framed_ = true;
  must_close_ = true;
  broken_ = true;
  return -1;
}

ssize_t HttpConnection::ReadHead(char* out) {
  bool taken = false;
  *out = range_.Put(buffer_[begin_], &taken);
  if (taken) ++begin_;
  if (++head_bytes_ > kHeadBytesMax) {
    must_close_ = true;
    broken_ = true;
    return -1;
  }
  return 1;
}

bool HttpConnection::is_writable() const {
  // A client that waits for its answer may be silent, and one that has ended its side is gone. Not
  // told by reading: bytes that come before the end would hide it, as the farewell of TLS does.
  pollfd polled = {fd_, POLLRDHUP, 0};
  const int ready = poll(&polled, 1, 0);
  return ready == 0 || (ready < 0 && errno == EINTR);
}

ssize_t HttpConnection::write(const char* bytes, size_t size) {
  if (written_ == 0) write_started_ = clock_.Now();
  size_t done = 0;
  while (done < size) {
    const MonotonicTime until =
        std::min(DeadlineOf(write_started_, written_), clock_.Now() + kBodyIdleTimeout);
    const ssize_t sent = Send(bytes + done, size - done, until);
    if (sent <= 0) {
      must_close_ = true;
      broken_ = true;
      return -1;
    }
    done += static_cast<size_t>(sent);
    written_ += sent;
  }
  return static_cast<ssize_t>(size);
}

void HttpConnection::DrainAndShut() {
  if (tls_ != nullptr) SSL_shutdown(tls_);
  ERR_clear_error();
  shutdown(fd_, SHUT_WR);
  const MonotonicTime until = clock_.Now() + kDrainTimeout;
  for (int64_t taken = 0; taken < kDrainBytesMax && Fill(until) == Got::kBytes;) {
    taken += static_cast<int64_t>(end_);
  }
  begin_ = end_ = 0;
}

// Nothing here tells clients apart by their address.
void HttpConnection::get_remote_ip_and_port(std::string&, int&) const {}
void HttpConnection::get_local_ip_and_port(std::string&, int&) const {}

}  // namespace nightshift
