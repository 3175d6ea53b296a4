// Server-sent events, cut out of bytes that arrive in any chunking.
//
// One parser per stream; not thread-safe. Lines end with \n, \r\n or \r; a frame ends at an empty
// line; lines that start with a colon are comments (some servers send them as a sign of life);
// several data lines of a frame are joined with \n. A frame that the end of the stream cuts off is
// dropped, as the format demands.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_SSE_PARSER_H_
#define NIGHTSHIFT_WORKER_BACKENDS_SSE_PARSER_H_

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace nightshift {

class SseParser {
 public:
  // `event` is empty where the frame does not name one. The views live as long as the call.
  using OnFrame = absl::FunctionRef<void(absl::string_view event, absl::string_view data)>;

  // A line, or the data of one frame, longer than this is a server gone wrong.
  static constexpr size_t kFrameBytesMax = size_t{16} << 20;

  // Returns false when a line or a frame has passed the maximum; the parser is of no more use then.
  bool Push(absl::string_view bytes, OnFrame on_frame);

 private:
  bool TakeLine(absl::string_view line, OnFrame on_frame);

  std::string partial_;  // the line whose end has not arrived
  std::string event_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // a \n that comes next belongs to the line before
  bool at_start_ = true;   // a byte-order mark may stand in front of the first line
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_SSE_PARSER_H_
