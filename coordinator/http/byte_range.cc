#include "coordinator/http/byte_range.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace nightshift {
namespace {

bool ReadNumber(absl::string_view text, int64_t* number) {
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  return digits && absl::SimpleAtoi(text, number);
}

}  // namespace

ByteRange ParseByteRange(absl::string_view header, int64_t size) {
  ByteRange range;
  range.length = size;
  header = absl::StripAsciiWhitespace(header);
  if (!absl::ConsumePrefix(&header, "bytes=")) return range;
  const size_t dash = header.find('-');
  if (dash == absl::string_view::npos) return range;
  const absl::string_view first_text = absl::StripAsciiWhitespace(header.substr(0, dash));
  const absl::string_view last_text = absl::StripAsciiWhitespace(header.substr(dash + 1));
  int64_t first = 0;
  int64_t last = size - 1;
  if (first_text.empty()) {
    int64_t suffix = 0;
    if (!ReadNumber(last_text, &suffix)) return range;
    first = std::max<int64_t>(0, size - suffix);
  } else {
    if (!ReadNumber(first_text, &first)) return range;
    if (!last_text.empty() && !ReadNumber(last_text, &last)) return range;
    if (!last_text.empty() && last < first) return range;
    last = std::min(last, size - 1);
  }
  if (first > last) {
    range.kind = ByteRange::Kind::kUnsatisfiable;
    return range;
  }
  range.kind = ByteRange::Kind::kPart;
  range.offset = first;
  range.length = last - first + 1;
  return range;
}

}  // namespace nightshift
