// Cuts a stream of bytes into lines, on LF only: other line separators of Unicode are text.
#ifndef NIGHTSHIFT_CLIENT_INPUT_LINE_READER_H_
#define NIGHTSHIFT_CLIENT_INPUT_LINE_READER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/input/byte_source.h"

namespace nightshift {

struct TextLine {
  // Without its LF and a CR before that. Valid until the next call; empty when too long.
  absl::string_view text;
  int64_t number = 0;  // from 1, blank lines counted
  bool too_long = false;
};

// Not thread-safe. Holds at most one line of `line_bytes_max` and what was read beyond it; of a
// longer line the bytes are let go as they come.
class LineReader {
 public:
  // `source` must outlive it.
  LineReader(ByteSource* source, size_t line_bytes_max);

  // False at the end. A last line without LF is a line.
  absl::StatusOr<bool> Next(TextLine* line);

 private:
  absl::Status Fill();

  ByteSource* const source_;
  const size_t line_bytes_max_;
  std::vector<char> buffer_;
  size_t begin_ = 0;    // of the line
  size_t scanned_ = 0;  // no LF in [begin_, scanned_)
  size_t end_ = 0;
  bool at_end_ = false;
  int64_t number_ = 0;
};

// Only blanks, tabs and CR: such lines are skipped.
bool IsBlankLine(absl::string_view text);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_INPUT_LINE_READER_H_
