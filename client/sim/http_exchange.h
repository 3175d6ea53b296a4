// One connection of a simulated server's client, and the call that it carries now: reading, waiting
// without losing sight of the client, and writing answers, whole, broken or piece by piece.
#ifndef NIGHTSHIFT_CLIENT_SIM_HTTP_EXCHANGE_H_
#define NIGHTSHIFT_CLIENT_SIM_HTTP_EXCHANGE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace nightshift {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// What was asked. The views live as long as the call.
struct HttpCall {
  absl::string_view method;
  absl::string_view path;
  absl::string_view authorization;
  absl::string_view body;
};

// Not thread-safe: it belongs to the thread that serves the connection.
class HttpExchange {
 public:
  HttpExchange(int fd, Clock& clock);
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;
  // Closes what event_fd() made; the connection is its owner's.
  ~HttpExchange();

  // --- for the answering side ---

  // Waits until then. False: the client closed the connection meanwhile.
  bool Sleep(MonotonicTime until);
  // Waits for a write to event_fd(); it may be one that was meant for a call before, so look at
  // what you wait for. False: the client closed the connection.
  bool WaitForEvent();
  // An eventfd of this connection, made when first asked for; -1 when there are no more files.
  int event_fd();

  // Exactly one of these per call. False: the client is gone.
  bool Answer(int status, absl::string_view content_type, absl::string_view body,
              const HttpHeaders& headers = {});
  // The head and the first half of the body, then the connection ends.
  void AnswerHalf(int status, absl::string_view content_type, absl::string_view body);
  // Nothing, and the connection ends.
  void Drop();
  // A body of chunks: Begin, any number of chunks, End. Drop() after Begin cuts it off.
  bool BeginStream(absl::string_view content_type, const HttpHeaders& headers);
  bool WriteChunk(absl::string_view chunk);
  bool EndStream();

  // --- for the transport ---

  // Waits for the next call on this connection; false when none comes in the connection's time for
  // reading (SO_RCVTIMEO).
  bool WaitForBytes();
  // Up to `size` bytes; 0 at the end, -1 on an error.
  ssize_t Read(char* out, size_t size);
  bool Write(absl::string_view bytes);
  void BeginCall() { answered_ = false; }
  bool answered() const { return answered_; }
  bool dropped() const { return dropped_; }

 private:
  // As Read, into buffer_.
  ssize_t Fill();
  bool WriteTwo(absl::string_view first, absl::string_view second);

  const int fd_;
  Clock& clock_;
  int event_fd_ = -1;
  bool answered_ = false;
  bool dropped_ = false;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is unread in buffer_
  size_t end_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_SIM_HTTP_EXCHANGE_H_
