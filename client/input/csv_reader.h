// Reads CSV as RFC 4180 has it and spreadsheets write it:
//
//   file    = row *( end row ) [ end ]        end = LF / CRLF
//   row     = cell *( delimiter cell )        delimiter = "," / ";" / TAB
//   cell    = quoted / plain
//   quoted  = %x22 *( any byte but %x22 / %x22 %x22 ) %x22
//   plain   = *( any byte but delimiter, LF ), not starting with %x22
//
// A quote inside a plain cell is text. A CR is text unless LF follows at the end of a row.
#ifndef NIGHTSHIFT_CLIENT_INPUT_CSV_READER_H_
#define NIGHTSHIFT_CLIENT_INPUT_CSV_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/input/byte_source.h"

namespace nightshift {

struct CsvRow {
  std::vector<absl::string_view> cells;  // valid until the next call
  int64_t line = 0;                      // physical line on which it starts, from 1
  std::string problem;                   // not empty: the row cannot be used, `cells` is empty
};

// Not thread-safe. Memory is bounded by the longest row allowed.
class CsvReader {
 public:
  // `delimiter` 0 = the one of ',', ';' and tab that the first line has most of outside quotes;
  // ',' when it has none. `source` must outlive it. `read_bytes`, at least 1: how much is read at a
  // time, and how far the delimiter is looked for.
  CsvReader(ByteSource* source, char delimiter, size_t row_bytes_max,
            size_t read_bytes = size_t{256} << 10);

  // False at the end. Blank lines between rows are skipped. InvalidArgument when a quoted cell is
  // never closed: all that follows it went into that cell, and its line is named.
  absl::StatusOr<bool> Next(CsvRow* row);

  char delimiter() const {
    return delimiter_;
  }                                        // 0 before the first row when it is to be found out
  int64_t lines() const { return line_; }  // physical lines begun so far

 private:
  enum class State : uint8_t { kCellStart, kPlain, kQuoted, kQuoteInQuoted, kAfterQuoted };

  absl::StatusOr<bool> More();
  absl::Status FindDelimiter();
  void StartRow();
  void Take(size_t count, bool keep);
  bool Step();
  bool PlainPart();
  void QuotedPart();
  bool BehindQuote();
  void EndCell();
  // False for a blank line.
  bool EndRow(CsvRow* row);

  ByteSource* const source_;
  char delimiter_;
  const size_t row_bytes_max_;

  std::vector<char> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  bool at_end_ = false;

  State state_ = State::kCellStart;
  std::string text_;               // the cells of the row, one after the other
  std::vector<size_t> cell_ends_;  // in text_
  size_t row_bytes_ = 0;           // as they come, quotes and all
  bool quoted_ = false;            // some cell of the row is; then it is not a blank line
  std::string problem_;
  int64_t line_ = 1;
  int64_t row_line_ = 1;
  int64_t quote_line_ = 0;  // where the last quoted cell opened
};

// "comma", "semicolon", "tab".
std::string DelimiterName(char delimiter);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_INPUT_CSV_READER_H_
