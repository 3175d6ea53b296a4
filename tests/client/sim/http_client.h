// A small HTTP client for tests of the simulated server: one connection, raw bytes, no magic.
#ifndef NIGHTSHIFT_TESTS_CLIENT_SIM_HTTP_CLIENT_H_
#define NIGHTSHIFT_TESTS_CLIENT_SIM_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace nightshift {

struct HttpAnswer {
  int status = 0;  // 0: the connection ended before a status line
  std::string head;
  std::string body;       // chunks put together
  bool complete = false;  // as long as the head said, or with its last chunk

  // The value of a header, given in lower case; empty when absent.
  std::string Header(const std::string& name) const {
    std::string lower = head;
    for (char& c : lower) c = static_cast<char>(tolower(c));
    const size_t at = lower.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const size_t begin = at + 2 + name.size() + 2;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class HttpClient {
 public:
  explicit HttpClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience = {30, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient() { Close(); }

  bool connected() const { return connected_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  void Send(const std::string& bytes) {
    (void)!send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void SendPost(const std::string& path, const std::string& body, const std::string& more = "") {
    Send(absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: test\r\n", more,
                      "Content-Length: ", body.size(), "\r\n\r\n", body));
  }

  HttpAnswer Post(const std::string& path, const std::string& body, const std::string& more = "") {
    SendPost(path, body, more);
    return Receive();
  }
  HttpAnswer Get(const std::string& path, const std::string& more = "") {
    Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: test\r\n", more, "\r\n"));
    return Receive();
  }

  HttpAnswer Receive() {
    HttpAnswer answer;
    size_t end;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
      if (!More()) return answer;
    }
    answer.head = in_.substr(0, end + 2);
    in_.erase(0, end + 4);
    answer.status = atoi(answer.head.c_str() + 9);
    if (absl::StrContains(answer.head, "chunked")) {
      answer.complete = ReceiveChunks(answer.body);
      return answer;
    }
    const size_t length = strtoul(answer.Header("content-length").c_str(), nullptr, 10);
    while (in_.size() < length && More()) {
    }
    answer.complete = in_.size() >= length;
    answer.body = in_.substr(0, length);
    in_.erase(0, answer.body.size());
    return answer;
  }

 private:
  bool More() {
    char buffer[65536];
    const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
    if (got <= 0) return false;
    in_.append(buffer, static_cast<size_t>(got));
    return true;
  }

  bool ReceiveChunks(std::string& body) {
    while (true) {
      size_t line;
      while ((line = in_.find("\r\n")) == std::string::npos) {
        if (!More()) return false;
      }
      const size_t size = strtoul(in_.c_str(), nullptr, 16);
      while (in_.size() < line + 2 + size + 2) {
        if (!More()) return false;
      }
      body += in_.substr(line + 2, size);
      in_.erase(0, line + 2 + size + 2);
      if (size == 0) return true;
    }
  }

  int fd_;
  bool connected_ = false;
  std::string in_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_CLIENT_SIM_HTTP_CLIENT_H_
