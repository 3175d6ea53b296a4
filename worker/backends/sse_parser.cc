#include "worker/backends/sse_parser.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace nightshift {

bool SseParser::Push(absl::string_view bytes, OnFrame on_frame) {
  while (!bytes.empty()) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const size_t end = bytes.find_first_of("\r\n");
    if (end == absl::string_view::npos) {
      if (partial_.size() + bytes.size() > kFrameBytesMax) return false;
      partial_.append(bytes.data(), bytes.size());
      return true;
    }
    after_cr_ = bytes[end] == '\r';
    const absl::string_view rest_of_line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    bool within_bounds;
    if (partial_.empty()) {
      within_bounds = TakeLine(rest_of_line, on_frame);
    } else {
      partial_.append(rest_of_line.data(), rest_of_line.size());
      within_bounds = TakeLine(partial_, on_frame);
      partial_.clear();
    }
    if (!within_bounds) return false;
  }
  return true;
}

bool SseParser::TakeLine(absl::string_view line, OnFrame on_frame) {
  if (at_start_) {
    at_start_ = false;
    absl::ConsumePrefix(&line, "\xEF\xBB\xBF");
  }
  if (line.empty()) {
    if (has_data_) on_frame(event_, data_);
    event_.clear();
    data_.clear();
    has_data_ = false;
    return true;
  }
  if (line.front() == ':') return true;
  absl::string_view field = line;
  absl::string_view value;
  const size_t colon = line.find(':');
  if (colon != absl::string_view::npos) {
    field = line.substr(0, colon);
    value = line.substr(colon + 1);
    absl::ConsumePrefix(&value, " ");
  }
  if (field == "data") {
    if (data_.size() + value.size() + 1 > kFrameBytesMax) return false;
    if (has_data_) data_.push_back('\n');
    data_.append(value.data(), value.size());
    has_data_ = true;
  } else if (field == "event") {
    event_.assign(value.data(), value.size());
  }
  return true;
}

}  // namespace nightshift
