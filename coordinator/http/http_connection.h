// One connection of a client, as the HTTP library reads from and writes to it: buffered, and with
// the limits that the library lacks. A head must be small and come soon; a body and a reply must
// keep a least rate, however the bytes are spread, so that nobody holds a thread for ever with a
// byte now and then.
//
// Used by one thread.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_HTTP_CONNECTION_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_HTTP_CONNECTION_H_

#include <httplib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/range_renamer.h"
#include "coordinator/http/chunk_check.h"

// Of OpenSSL.
typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;

namespace nightshift {

// Request line and headers together. More is answered with 431.
inline constexpr int64_t kHeadBytesMax = int64_t{64} << 10;
// From the first byte of a request to the end of its headers. Later ones are answered with 408.
inline constexpr absl::Duration kHeadTimeout = absl::Seconds(10);
// How long nothing at all may come or go within a body.
inline constexpr absl::Duration kBodyIdleTimeout = absl::Seconds(30);
// A body may take this long, and a second more for each kBodyBytesPerSecondMin of it.
inline constexpr absl::Duration kBodyTimeout = absl::Seconds(60);
inline constexpr int64_t kBodyBytesPerSecondMin = 1024;
// The library hands a body on in parts of 4 KiB. What it keeps meanwhile, lengths of chunks and
// what follows the last one, it keeps without a bound of its own.
inline constexpr size_t kUndeliveredBytesMax = size_t{16} << 10;

class HttpConnection final : public httplib::Stream {
 public:
  // `fd` stays the caller's. With `tls` the bytes are encrypted; Handshake comes first.
  HttpConnection(int fd, std::shared_ptr<SSL_CTX> tls, Clock& clock);
  ~HttpConnection() override;

  // Agrees with the client on how to encrypt; false when that fails or takes too long. Without TLS
  // there is nothing to agree on.
  bool Handshake(absl::Duration timeout);

  // Waits for the first byte of a request; false when none comes in that time or the client is
  // gone.
  bool AwaitRequest(absl::Duration timeout);
  // From here on bytes are the body's. None is read before somebody asks for them.
  void HeadEnds();
  // Its bytes are to be chunks; of this body only.
  void BodyIsChunked() { chunks_.emplace(); }
  // Whoever takes the body asks for more of it: so many bytes may be read until the next call.
  void AskForBody() { askable_ = kUndeliveredBytesMax; }
  // After an error the rest of a body may be on its way. Takes what comes for a moment, so that the
  // client reads its answer before the connection breaks.
  void DrainAndShut();

  bool head_too_large() const { return in_head_ && head_bytes_ > kHeadBytesMax; }
  bool timed_out() const { return timed_out_; }
  // The body's chunks are none, or more came between them than its receiver got.
  bool badly_framed() const { return badly_framed_; }
  // The bytes of a message were not all read, or cannot be told from the next one's.
  bool must_close() const { return must_close_; }
  void MustClose() { must_close_ = true; }
  // What is written from here on is a reply, or a part of one, with a time of its own.
  void BeginWrite() { written_ = 0; }

  bool is_readable() const override { return true; }
  bool is_writable() const override;
  ssize_t read(char* out, size_t size) override;
  ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  // The library refuses descriptors that select() cannot take; nothing here uses select().
  socket_t socket() const override { return 0; }

 private:
  // False when `events` did not come up in time.
  bool Await(short events, MonotonicTime until) const;
  MonotonicTime ReadDeadline() const;
  // Nothing more is read.
  ssize_t RefuseBody();
  // One byte, from the buffer.
  ssize_t ReadHead(char* out);
  // Waits for bytes and takes them into the buffer.
  enum class Got { kBytes, kEnd, kTimeout };
  Got Fill(MonotonicTime until);
  // Sends some of the bytes: how many, 0 when the client takes none in time, below 0 when it is
  // gone.
  ssize_t Send(const char* bytes, size_t size, MonotonicTime until);
  // Waits for what TLS wants before `result` can become one; false when it wants nothing, or not in
  // time.
  bool AwaitTls(int result, MonotonicTime until, bool* timed_out);

  const int fd_;
  const std::shared_ptr<SSL_CTX> tls_context_;
  SSL* tls_ = nullptr;
  Clock& clock_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool in_head_ = true;
  bool timed_out_ = false;
  bool must_close_ = false;
  bool broken_ = false;
  bool badly_framed_ = false;
  RangeRenamer range_;
  MonotonicTime started_;  // of the head, then of the body
  int64_t head_bytes_ = 0;
  int64_t body_bytes_ = 0;
  size_t askable_ = 0;
  std::optional<ChunkCheck> chunks_;
  MonotonicTime write_started_;
  int64_t written_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_HTTP_CONNECTION_H_
