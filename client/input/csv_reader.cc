#include "client/input/csv_reader.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/input/line_reader.h"

namespace nightshift {
namespace {

// More columns than any spreadsheet has; a row beyond it is a bad one.
constexpr size_t kCellsMax = 16384;

}  // namespace

std::string DelimiterName(char delimiter) {
  switch (delimiter) {
    case ',':
      return "comma";
    case ';':
      return "semicolon";
    case '\t':
      return "tab";
    default:
      return absl::StrCat("'", std::string(1, delimiter), "'");
  }
}

CsvReader::CsvReader(ByteSource* source, char delimiter, size_t row_bytes_max, size_t read_bytes)
    : source_(source), delimiter_(delimiter), row_bytes_max_(row_bytes_max), buffer_(read_bytes) {}

// Makes at least one byte available; false at the end.
absl::StatusOr<bool> CsvReader::More() {
  if (at_ < end_) return true;
  if (at_end_) return false;
  ASSIGN_OR_RETURN(end_, source_->Read(buffer_.data(), buffer_.size()));
  at_ = 0;
  at_end_ = end_ == 0;
  return !at_end_;
}

// Looks at the first line as far as one buffer reaches.
absl::Status CsvReader::FindDelimiter() {
  while (end_ < buffer_.size() && std::memchr(buffer_.data(), '\n', end_) == nullptr) {
    ASSIGN_OR_RETURN(const size_t got, source_->Read(buffer_.data() + end_, buffer_.size() - end_));
    if (got == 0) {
      at_end_ = end_ == 0;
      break;
    }
    end_ += got;
  }
  constexpr std::array<char, 3> kCandidates = {',', ';', '\t'};
  std::array<int, 3> counts = {};
  bool quoted = false;
  bool any = false;
  for (size_t i = 0; i < end_; ++i) {
    const char c = buffer_[i];
    if (c == '"') quoted = !quoted;
    if (c == '\n' && any && !quoted) break;
    if (!IsBlankLine(absl::string_view(&c, 1)) && c != '\n') any = true;
    for (size_t k = 0; k < kCandidates.size(); ++k) {
      if (c == kCandidates[k] && !quoted) ++counts[k];
    }
  }
  delimiter_ = kCandidates[static_cast<size_t>(std::max_element(counts.begin(), counts.end()) -
                                               counts.begin())];
  return absl::OkStatus();
}

void CsvReader::StartRow() {
  state_ = State::kCellStart;
  text_.clear();
  cell_ends_.clear();
  row_bytes_ = 0;
  quoted_ = false;
  problem_.clear();
  row_line_ = line_;
}

// Goes `count` bytes on; `keep` says whether they are the cell's.
void CsvReader::Take(size_t count, bool keep) {
  row_bytes_ += count;
  if (keep && row_bytes_ <= row_bytes_max_) text_.append(buffer_.data() + at_, count);
  at_ += count;
}

void CsvReader::EndCell() {
  if (cell_ends_.size() >= kCellsMax && problem_.empty()) {
    problem_ = absl::StrCat("has over ", kCellsMax, " cells");
  }
  if (problem_.empty() && row_bytes_ <= row_bytes_max_) cell_ends_.push_back(text_.size());
  state_ = State::kCellStart;
}

bool CsvReader::EndRow(CsvRow* row) {
  const size_t cell_start = cell_ends_.empty() ? 0 : cell_ends_.back();
  if (state_ == State::kPlain && text_.size() > cell_start && text_.back() == '\r') {
    text_.pop_back();
  }
  EndCell();
  row->line = row_line_;
  row->cells.clear();
  row->problem = problem_;
  if (row_bytes_ > row_bytes_max_) {
    row->problem = absl::StrCat(
        "the row is over ", HumanSize(static_cast<int64_t>(row_bytes_max_)),
        " long (--max-line-bytes)",
        quoted_ ? absl::StrCat("; is the quote that opens on line ", quote_line_, " closed?") : "");
  }
  if (!row->problem.empty()) return true;
  if (cell_ends_.size() == 1 && !quoted_ && IsBlankLine(text_)) return false;
  size_t start = 0;
  for (const size_t end : cell_ends_) {
    row->cells.push_back(absl::string_view(text_).substr(start, end - start));
    start = end;
  }
  return true;
}

// A cell without quotes, as far as the buffer reaches. True at the end of the row.
bool CsvReader::PlainPart() {
  state_ = State::kPlain;
  const char* const start = buffer_.data() + at_;
  const char* const stop = buffer_.data() + end_;
  const char* p = start;
  while (p < stop && *p != '\n' && *p != delimiter_) ++p;
  Take(static_cast<size_t>(p - start), /*keep=*/true);
  if (p == stop) return false;
  Take(1, /*keep=*/false);
  if (*p == '\n') return true;
  EndCell();
  return false;
}

// Inside quotes, as far as the buffer reaches.
void CsvReader::QuotedPart() {
  const char* const start = buffer_.data() + at_;
  const void* const quote = std::memchr(start, '"', end_ - at_);
  const char* const stop =
      quote == nullptr ? buffer_.data() + end_ : static_cast<const char*>(quote);
  line_ += std::count(start, stop, '\n');
  Take(static_cast<size_t>(stop - start), /*keep=*/true);
  if (quote == nullptr) return;
  state_ = State::kQuoteInQuoted;
  Take(1, /*keep=*/false);
}

// One byte behind the closing quote of a cell. True at the end of the row.
bool CsvReader::BehindQuote() {
  state_ = State::kAfterQuoted;
  const char c = buffer_[at_];
  Take(1, /*keep=*/false);
  if (c == '\n') return true;
  if (c == delimiter_) {
    EndCell();
  } else if (c != '\r' && problem_.empty()) {  // a CR may be that of a CRLF
    problem_ = absl::StrCat("has text behind the closing quote of cell ", cell_ends_.size() + 1,
                            "; write a quote inside a cell as \"\"");
  }
  return false;
}

// What comes next, by the state. True at the end of the row.
bool CsvReader::Step() {
  const bool quote = buffer_[at_] == '"';
  switch (state_) {
    case State::kCellStart:
      if (!quote) return PlainPart();
      state_ = State::kQuoted;
      quoted_ = true;
      quote_line_ = line_;
      Take(1, /*keep=*/false);
      return false;
    case State::kPlain:
      return PlainPart();
    case State::kQuoted:
      QuotedPart();
      return false;
    case State::kQuoteInQuoted:
      if (!quote) return BehindQuote();
      state_ = State::kQuoted;
      Take(1, /*keep=*/true);
      return false;
    case State::kAfterQuoted:
      return BehindQuote();
  }
  return false;
}

absl::StatusOr<bool> CsvReader::Next(CsvRow* row) {
  if (delimiter_ == 0) RETURN_IF_ERROR(FindDelimiter());
  StartRow();
  while (true) {
    ASSIGN_OR_RETURN(const bool more, More());
    if (!more) break;
    if (!Step()) continue;
    ++line_;
    if (EndRow(row)) return true;
    StartRow();
  }
  if (state_ == State::kQuoted) {
    return absl::InvalidArgumentError(
        absl::StrCat("the quote that opens a cell on line ", quote_line_,
                     " is never closed, so that the rest of the file became part of that cell; "
                     "close it, or write a quote inside a cell as \"\""));
  }
  // The last row may lack its line end.
  return row_bytes_ > 0 && EndRow(row);
}

}  // namespace nightshift
