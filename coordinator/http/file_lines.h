// The lines of a file, split at LF alone: a byte-order mark on the first, CR before LF and lines of
// blanks are passed over, and numbers count physical lines from 1.
//
// Memory is one line, at most the limit. Not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_FILE_LINES_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_FILE_LINES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/http/file_table.h"

namespace nightshift {

class FileLines {
 public:
  // `file` must outlive it.
  FileLines(const OpenFile& file, size_t line_bytes_max);

  struct Line {
    int64_t number = 0;
    absl::string_view text;  // until the next call; without its line end
    bool too_long = false;   // then `text` is only its beginning
  };
  // False at the end.
  absl::StatusOr<bool> Next(Line* line);

 private:
  // Reads on; false at the end of the file.
  absl::StatusOr<bool> Fill();

  const OpenFile& file_;
  const size_t line_bytes_max_;
  int64_t offset_ = 0;
  std::string buffer_;
  size_t begin_ = 0;
  int64_t number_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_FILE_LINES_H_
