#include "coordinator/http/file_lines.h"

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

FileLines::FileLines(const OpenFile& file, size_t line_bytes_max)
    : file_(file), line_bytes_max_(line_bytes_max) {}

absl::StatusOr<bool> FileLines::Fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t had = buffer_.size();
  buffer_.resize(had + kReadBytes);
  ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(offset_, buffer_.data() + had, kReadBytes));
  buffer_.resize(had + got);
  offset_ += static_cast<int64_t>(got);
  return got > 0;
}

absl::StatusOr<bool> FileLines::Next(Line* line) {
  while (true) {
    size_t looked = 0;
    size_t end;
    bool more = true;
    bool too_long = false;
    while ((end = buffer_.find('\n', begin_ + looked)) == std::string::npos && more) {
      looked = buffer_.size() - begin_;
      if (looked > line_bytes_max_) {
        // The beginning is enough to say which line it is; the rest is passed over.
        too_long = true;
        buffer_.resize(begin_ + line_bytes_max_);
        looked = line_bytes_max_;
      }
      ASSIGN_OR_RETURN(more, Fill());
    }
    const bool at_end = end == std::string::npos;
    if (at_end) end = buffer_.size();
    if (at_end && begin_ == end) return false;
    absl::string_view text = absl::string_view(buffer_).substr(begin_, end - begin_);
    begin_ = at_end ? end : end + 1;
    ++number_;
    if (text.size() > line_bytes_max_) {
      too_long = true;
      text = text.substr(0, line_bytes_max_);
    }
    if (number_ == 1) absl::ConsumePrefix(&text, kByteOrderMark);
    absl::ConsumeSuffix(&text, "\r");
    if (absl::StripAsciiWhitespace(text).empty() && !too_long) continue;
    line->number = number_;
    line->text = text;
    line->too_long = too_long;
    return true;
  }
}

}  // namespace nightshift
