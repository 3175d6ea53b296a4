#include "client/input/line_reader.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr size_t kLineReadBytes = size_t{256} << 10;

}  // namespace

bool IsBlankLine(absl::string_view text) {
  return text.find_first_not_of(" \t\r\v\f") == absl::string_view::npos;
}

LineReader::LineReader(ByteSource* source, size_t line_bytes_max)
    : source_(source), line_bytes_max_(line_bytes_max), buffer_(2 * kLineReadBytes) {}

// Adds bytes behind end_, after making room for them.
absl::Status LineReader::Fill() {
  if (buffer_.size() - end_ < kLineReadBytes) {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      scanned_ -= begin_;
      begin_ = 0;
    }
    if (buffer_.size() - end_ < kLineReadBytes) {
      buffer_.resize(std::min(2 * buffer_.size(), line_bytes_max_ + 2 * kLineReadBytes));
    }
  }
  ASSIGN_OR_RETURN(const size_t got, source_->Read(buffer_.data() + end_, buffer_.size() - end_));
  end_ += got;
  at_end_ = got == 0;
  return absl::OkStatus();
}

absl::StatusOr<bool> LineReader::Next(TextLine* line) {
  bool too_long = false;
  const char* feed = nullptr;
  while (true) {
    feed = static_cast<const char*>(
        end_ > scanned_ ? std::memchr(buffer_.data() + scanned_, '\n', end_ - scanned_) : nullptr);
    if (feed != nullptr) break;
    scanned_ = end_;
    if (at_end_) break;
    // One more than the limit for the CR that may follow.
    if (end_ - begin_ > line_bytes_max_ + 1) {
      too_long = true;
      begin_ = scanned_ = end_ = 0;
    }
    RETURN_IF_ERROR(Fill());
  }
  if (feed == nullptr && begin_ == end_ && !too_long) return false;
  const size_t stop = feed == nullptr ? end_ : static_cast<size_t>(feed - buffer_.data());
  absl::string_view text(buffer_.data() + begin_, stop - begin_);
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  begin_ = scanned_ = feed == nullptr ? stop : stop + 1;
  line->number = ++number_;
  line->too_long = too_long || text.size() > line_bytes_max_;
  line->text = line->too_long ? absl::string_view() : text;
  return true;
}

}  // namespace nightshift
