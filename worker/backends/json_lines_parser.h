// JSON lines (NDJSON), cut out of bytes that arrive in any chunking: one document per line, ended
// by \n or \r\n; blank lines say nothing. One parser per stream; not thread-safe.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_JSON_LINES_PARSER_H_
#define NIGHTSHIFT_WORKER_BACKENDS_JSON_LINES_PARSER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "worker/backends/sse_parser.h"

namespace nightshift {

class JsonLinesParser {
 public:
  // Returns false when a line has passed SseParser::kFrameBytesMax; the parser is of no more use
  // then. Frames have no event name.
  bool Push(absl::string_view bytes, SseParser::OnFrame on_frame);

  // The response has ended as it should: what has come of a last line without its line end is a
  // line.
  void Finish(SseParser::OnFrame on_frame);

 private:
  std::string partial_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_JSON_LINES_PARSER_H_
