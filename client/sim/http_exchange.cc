#include "client/sim/http_exchange.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace nightshift {
namespace {

constexpr size_t kReadBytes = size_t{4} << 10;

absl::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 422:
      return "Unprocessable Entity";
    case 429:
      return "Too Many Requests";
    case 500:
      return "Internal Server Error";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

std::string Head(int status, absl::string_view content_type, const HttpHeaders& headers) {
  std::string head = absl::StrCat("HTTP/1.1 ", status, " ", ReasonPhrase(status),
                                  "\r\nContent-Type: ", content_type, "\r\n");
  for (const auto& [name, value] : headers) absl::StrAppend(&head, name, ": ", value, "\r\n");
  return head;
}

}  // namespace

HttpExchange::HttpExchange(int fd, Clock& clock) : fd_(fd), clock_(clock), buffer_(kReadBytes) {}

HttpExchange::~HttpExchange() {
  if (event_fd_ >= 0) close(event_fd_);
}

int HttpExchange::event_fd() {
  if (event_fd_ < 0) event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return event_fd_;
}

bool HttpExchange::Sleep(MonotonicTime until) {
  pollfd polled = {fd_, POLLRDHUP, 0};
  while (true) {
    timespec left{};
    if (!until.infinite()) {
      left = absl::ToTimespec(std::max(until - clock_.Now(), absl::ZeroDuration()));
    }
    const int ready = ppoll(&polled, 1, until.infinite() ? nullptr : &left, nullptr);
    if (ready == 0) return true;
    if (ready > 0 || errno != EINTR) return false;
  }
}

bool HttpExchange::WaitForEvent() {
  pollfd polled[2] = {{fd_, POLLRDHUP, 0}, {event_fd(), POLLIN, 0}};
  while (true) {
    const int ready = poll(polled, 2, -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0 || polled[0].revents != 0) return false;
    eventfd_t ignored;
    if (eventfd_read(event_fd_, &ignored) == 0) return true;
  }
}

bool HttpExchange::Answer(int status, absl::string_view content_type, absl::string_view body,
                          const HttpHeaders& headers) {
  answered_ = true;
  std::string head = Head(status, content_type, headers);
  absl::StrAppend(&head, "Content-Length: ", body.size(), "\r\n\r\n");
  return WriteTwo(head, body);
}

void HttpExchange::AnswerHalf(int status, absl::string_view content_type, absl::string_view body) {
  std::string head = Head(status, content_type, {});
  absl::StrAppend(&head, "Content-Length: ", body.size(), "\r\n\r\n");
  WriteTwo(head, body.substr(0, body.size() / 2));
  Drop();
}

void HttpExchange::Drop() {
  answered_ = true;
  dropped_ = true;
  shutdown(fd_, SHUT_RDWR);
}

bool HttpExchange::BeginStream(absl::string_view content_type, const HttpHeaders& headers) {
  answered_ = true;
  std::string head = Head(200, content_type, headers);
  absl::StrAppend(&head, "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n");
  return Write(head);
}

bool HttpExchange::WriteChunk(absl::string_view chunk) {
  if (chunk.empty()) return true;  // an empty chunk would end the body
  const std::string size = absl::StrFormat("%x\r\n", chunk.size());
  return WriteTwo(size, absl::StrCat(chunk, "\r\n"));
}

bool HttpExchange::EndStream() { return Write("0\r\n\r\n"); }

bool HttpExchange::WaitForBytes() { return begin_ < end_ || Fill() > 0; }

ssize_t HttpExchange::Fill() {
  ssize_t got;
  do {
    got = recv(fd_, buffer_.data(), buffer_.size(), 0);
  } while (got < 0 && errno == EINTR);
  begin_ = 0;
  end_ = got > 0 ? static_cast<size_t>(got) : 0;
  return got;
}

ssize_t HttpExchange::Read(char* out, size_t size) {
  if (begin_ == end_) {
    const ssize_t got = Fill();
    if (got <= 0) return got;
  }
  const size_t taken = std::min(size, end_ - begin_);
  std::memcpy(out, buffer_.data() + begin_, taken);
  begin_ += taken;
  return static_cast<ssize_t>(taken);
}

bool HttpExchange::Write(absl::string_view bytes) { return WriteTwo(bytes, ""); }

bool HttpExchange::WriteTwo(absl::string_view first, absl::string_view second) {
  if (dropped_) return false;
  iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                    {const_cast<char*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) {
      dropped_ = true;
      return false;
    }
    auto left = static_cast<size_t>(sent);
    for (iovec& part : parts) {
      const size_t done = std::min(left, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + done;
      part.iov_len -= done;
      left -= done;
    }
  }
  return true;
}

}  // namespace nightshift
