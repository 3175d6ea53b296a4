// Takes a multipart/form-data body apart while it arrives (RFC 7578): parts in any order, data
// handed on in pieces as they come. Memory is a few kilobytes whatever is sent.
//
//   body     := preamble? "--" boundary ( CRLF headers CRLF CRLF data CRLF "--" boundary )* "--" …
//
// Not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_MULTIPART_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_MULTIPART_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

// Parts of one body; more are refused.
inline constexpr int kPartsMax = 32;
// Headers of one part; more are refused.
inline constexpr size_t kPartHeadBytesMax = size_t{8} << 10;

// The boundary of a Content-Type header; InvalidArgument when it is not multipart/form-data with a
// boundary of 1 to 70 characters.
absl::StatusOr<std::string> MultipartBoundary(absl::string_view content_type);

struct PartHead {
  std::string name;
  bool has_filename = false;
  std::string filename;  // as sent: may hold anything
};

class MultipartParser {
 public:
  // What they return ends the parsing and is returned by Feed.
  struct Handlers {
    std::function<absl::Status(const PartHead&)> begin;
    std::function<absl::Status(absl::string_view)> data;
    std::function<absl::Status()> end;
  };

  MultipartParser(absl::string_view boundary, Handlers handlers);

  // The next bytes. InvalidArgument when they are not of such a body; after an error, no more.
  absl::Status Feed(absl::string_view bytes);

  // After the last byte. InvalidArgument unless the closing boundary has come: a body that was cut
  // off must not pass for a whole one.
  absl::Status Finish() const;

 private:
  enum class State {
    kPreamble,   // before the first boundary
    kAfterMark,  // behind a boundary: "--" closes, a line end opens a part
    kHead,       // headers of a part
    kData,       // until the next boundary
    kClosed,     // the rest is ignored
  };

  absl::Status Step(bool* progress);
  absl::Status FindMark(bool* progress);
  absl::Status HandOn(size_t size);
  absl::Status BeginPart(absl::string_view head);

  const std::string mark_;  // CRLF "--" boundary
  const Handlers handlers_;
  State state_ = State::kPreamble;
  std::string pending_;  // not looked at yet, or the possible beginning of a mark
  size_t begin_ = 0;     // of what is left in pending_
  int parts_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_MULTIPART_H_
