#include "worker/backends/json_lines_parser.h"

#include "absl/strings/ascii.h"

namespace nightshift {
namespace {

void TakeLine(absl::string_view line, SseParser::OnFrame on_frame) {
  line = absl::StripAsciiWhitespace(line);
  if (!line.empty()) on_frame("", line);
}

}  // namespace

bool JsonLinesParser::Push(absl::string_view bytes, SseParser::OnFrame on_frame) {
  for (;;) {
    const size_t end = bytes.find('\n');
    const absl::string_view piece = bytes.substr(0, end);
    if (partial_.size() + piece.size() > SseParser::kFrameBytesMax) return false;
    if (end == absl::string_view::npos) {
      partial_.append(piece.data(), piece.size());
      return true;
    }
    if (partial_.empty()) {
      TakeLine(piece, on_frame);
    } else {
      partial_.append(piece.data(), piece.size());
      TakeLine(partial_, on_frame);
      partial_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
}

void JsonLinesParser::Finish(SseParser::OnFrame on_frame) {
  TakeLine(partial_, on_frame);
  partial_.clear();
}

}  // namespace nightshift
