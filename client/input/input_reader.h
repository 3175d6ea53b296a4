// Reads a job's input: JSON Lines, plain text or CSV, compressed or not, from a file or standard
// input, one request at a time and with bounded memory. Used by `run` and `submit`.
//
// A line that cannot be used is an item like a good one, so that all of them can be listed. What
// makes the input as a whole unusable (a cut-off archive, an unclosed quote, UTF-16, no request at
// all) is a status, worded for the person who named the file.
#ifndef NIGHTSHIFT_CLIENT_INPUT_INPUT_READER_H_
#define NIGHTSHIFT_CLIENT_INPUT_INPUT_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/request_line.h"

namespace nightshift {

enum class InputFormat : uint8_t { kJsonLines, kText, kCsv };

struct InputOptions {
  std::string path;            // "-" is standard input
  RequestLineOptions request;  // what the job's options say about every request
  // CSV only, and needed there: the text itself, see client/input/text_argument.h for "@file".
  std::optional<std::string> prompt_template;
  // CSV: ',', ';' or '\t'; 0 = found out from the header.
  char delimiter = 0;
  // A longer line (of CSV: row) is a bad line. Costs up to twice that much memory.
  int64_t max_line_bytes = int64_t{16} << 20;
  // Only the first so many good requests; 0 = all. What comes after is not read.
  int64_t limit = 0;
  // Asked before each read and when a signal interrupts one; true ends with Cancelled.
  std::function<bool()> cancelled;
};

// A larger body is refused with its line, whatever --max-line-bytes allows: a request is one
// message to the coordinator, and that is as much as a message may hold with something to spare.
inline constexpr int64_t kRequestBytesMax = int64_t{60} << 20;

// Either a request or the reason why the line makes none.
struct InputItem {
  bool good = false;
  int64_t line = 0;  // physical line, from 1; of CSV the row's first
  ParsedRequest request;
  RequestLineError error;
};

struct InputStats {
  int64_t requests = 0;      // good items so far
  int64_t bad = 0;           // bad items so far
  int64_t lines = 0;         // physical lines so far, blank ones too
  int64_t body_bytes = 0;    // of the good requests, for estimates
  int64_t empty_values = 0;  // rows in which a cell that the template uses was empty
  int64_t first_empty_value_line = 0;
};

// Not thread-safe.
class InputReader {
 public:
  // Opens the input and reads its beginning, so that what is wrong with the file or the options as
  // a whole is known before anything starts: NotFound (no such file), PermissionDenied,
  // InvalidArgument (a folder, a terminal, UTF-16, a spreadsheet, no --template for CSV, a template
  // that names an unknown column …).
  static absl::StatusOr<std::unique_ptr<InputReader>> Open(InputOptions options);
  virtual ~InputReader() = default;

  // Fills `item` with the next request or bad line; false at the end. DataLoss when compressed data
  // is damaged or cut off, InvalidArgument when the input as a whole turns out to be unusable
  // (an unclosed quote; not one request or bad line); after an error, call it no more.
  virtual absl::StatusOr<bool> Next(InputItem* item) = 0;

  virtual const InputStats& stats() const = 0;
  virtual InputFormat format() const = 0;
  // For CSV: the delimiter in use and the columns.
  virtual char delimiter() const = 0;
  virtual const std::vector<std::string>& columns() const = 0;

  // Identifies what was read: after Next said false, and before any limit, the same as HashFile of
  // the file; with a limit, of the lines taken. 32 hexadecimal digits.
  virtual std::string ContentHash() const = 0;

  // Whole sentences for the person, one line each ("120 rows have an empty value …"). Complete
  // after the end.
  virtual std::vector<std::string> Warnings() const = 0;
};

// "JSON Lines", "plain text", "CSV".
std::string InputFormatName(InputFormat format);

// By name, with or without .gz, .zst or .zstd behind it: *.txt is text, *.csv and *.tsv are CSV,
// all else is JSON Lines.
InputFormat InputFormatOf(const std::string& path);

// The name without its folder and its .gz or .zst, and without the last extension: "in/a.csv.gz"
// -> "a", "-" -> "stdin". For the names of the files that are written.
std::string InputStem(const std::string& path);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_INPUT_INPUT_READER_H_
