#include "client/input/input_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/json_problem.h"
#include "base/request_shape.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/input/byte_source.h"
#include "client/input/csv_reader.h"
#include "client/input/decompress.h"
#include "client/input/file_hash.h"
#include "client/input/line_reader.h"
#include "client/input/prompt_template.h"

namespace nightshift {
namespace {

// So much of the text is looked at to tell UTF-16 from UTF-8.
constexpr size_t kLookBytes = 4;

// The input as text: raw bytes, hashed, unpacked, without a byte-order mark.
struct Text {
  std::unique_ptr<StreamHash> hash = std::make_unique<StreamHash>();
  DecompressingSource* unpacked = nullptr;  // owned by `bytes`
  std::unique_ptr<PeekSource> bytes;
};

absl::Status RefuseUtf16(absl::string_view start, const std::string& name) {
  const bool mark = absl::StartsWith(start, "\xFF\xFE") || absl::StartsWith(start, "\xFE\xFF");
  const bool zero = start.size() >= 2 && (start[0] == '\0') != (start[1] == '\0');
  if (!mark && !zero) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is UTF-16 text; save it as UTF-8 (iconv -f UTF-16 -t UTF-8 FILE > NEW)"));
}

absl::StatusOr<Text> OpenText(const InputOptions& options) {
  const std::string name = SourceName(options.path);
  Text text;
  ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file,
                   OpenFileSource(options.path, options.cancelled));
  auto hashed = std::make_unique<HashingSource>(std::move(file), text.hash.get());
  ASSIGN_OR_RETURN(std::unique_ptr<DecompressingSource> unpacked,
                   DecompressingSource::Create(std::move(hashed), name));
  text.unpacked = unpacked.get();
  text.bytes = std::make_unique<PeekSource>(std::move(unpacked));
  ASSIGN_OR_RETURN(const absl::string_view start, text.bytes->Peek(kLookBytes));
  RETURN_IF_ERROR(RefuseUtf16(start, name));
  if (absl::StartsWith(start, "\xEF\xBB\xBF")) text.bytes->Drop(3);
  return text;
}

// What all formats share: counting, the limit, the hash, the end.
class BaseReader : public InputReader {
 public:
  BaseReader(InputOptions options, Text text)
      : options_(std::move(options)), name_(SourceName(options_.path)), text_(std::move(text)) {}

  absl::StatusOr<bool> Next(InputItem* item) final {
    if (options_.limit > 0 && stats_.requests >= options_.limit) {
      limited_ = true;
      return false;
    }
    ASSIGN_OR_RETURN(const bool more, Read(item));
    if (!more) {
      if (stats_.requests + stats_.bad > 0) return false;
      return absl::InvalidArgumentError(absl::StrCat(name_, " ", NothingInIt()));
    }
    if (item->good && static_cast<int64_t>(item->request.body.size()) > kRequestBytesMax) {
      // A copy: it is refused together with the request that it is part of.
      const std::string custom_id = item->request.custom_id;
      Refuse(item, custom_id, "",
             absl::StrCat("the request is ",
                          HumanSize(static_cast<int64_t>(item->request.body.size())),
                          " long; at most ", HumanSize(kRequestBytesMax), " are sent"));
    }
    if (item->good) {
      ++stats_.requests;
      stats_.body_bytes += static_cast<int64_t>(item->request.body.size());
    } else {
      ++stats_.bad;
    }
    if (options_.limit > 0) HashItem(*item);
    return true;
  }

  const InputStats& stats() const override { return stats_; }
  char delimiter() const override { return 0; }
  const std::vector<std::string>& columns() const override { return columns_; }

  std::string ContentHash() const override { return limited_ ? taken_.Hex() : text_.hash->Hex(); }

  std::vector<std::string> Warnings() const override {
    std::vector<std::string> warnings;
    if (std::string archive = text_.unpacked->warning(); !archive.empty()) {
      warnings.push_back(std::move(archive));
    }
    if (stats_.empty_values > 0) {
      warnings.push_back(absl::StrCat(
          WithCommas(stats_.empty_values), stats_.empty_values == 1 ? " row has" : " rows have",
          " an empty value in a column that the template uses; the first is on line ",
          stats_.first_empty_value_line));
    }
    return warnings;
  }

 protected:
  // The next request or bad line, not counted yet; false at the end.
  virtual absl::StatusOr<bool> Read(InputItem* item) = 0;
  // "is empty", "has blank lines only": when nothing was found.
  virtual std::string NothingInIt() const {
    return stats_.lines == 0 ? "is empty: there is no request in it"
                             : "has blank lines only: there is no request in it";
  }

  void Refuse(InputItem* item, absl::string_view custom_id, absl::string_view field,
              absl::string_view reason) const {
    item->good = false;
    item->request = ParsedRequest();
    item->error = {std::string(custom_id), std::string(field), std::string(reason)};
  }

  std::string TooLong() const {
    return absl::StrCat("the line is over ", HumanSize(options_.max_line_bytes),
                        " long (--max-line-bytes)");
  }

  const InputOptions options_;
  const std::string name_;
  Text text_;
  InputStats stats_;
  std::vector<std::string> columns_;

 private:
  void HashItem(const InputItem& item) {
    taken_.Update(item.good ? item.request.custom_id : item.error.reason);
    taken_.Update(absl::string_view("\0", 1));
    taken_.Update(item.request.body);
    taken_.Update(absl::string_view("\0", 1));
  }

  StreamHash taken_;
  bool limited_ = false;
};

class LineFormatReader : public BaseReader {
 public:
  LineFormatReader(InputOptions options, Text text)
      : BaseReader(std::move(options), std::move(text)),
        lines_(text_.bytes.get(), static_cast<size_t>(options_.max_line_bytes)) {}

 protected:
  absl::StatusOr<bool> Read(InputItem* item) override {
    TextLine line;
    do {
      ASSIGN_OR_RETURN(const bool more, lines_.Next(&line));
      if (!more) return false;
      stats_.lines = line.number;
    } while (!line.too_long && IsBlankLine(line.text));
    item->line = line.number;
    if (line.too_long) {
      Refuse(item, "", "", TooLong());
    } else {
      Take(line, item);
    }
    return true;
  }

  virtual void Take(const TextLine& line, InputItem* item) = 0;

 private:
  LineReader lines_;
};

class JsonLinesReader final : public LineFormatReader {
 public:
  using LineFormatReader::LineFormatReader;
  InputFormat format() const override { return InputFormat::kJsonLines; }

 protected:
  void Take(const TextLine& line, InputItem* item) override {
    item->good =
        ParseRequestLine(line.text, line.number, options_.request, &item->request, &item->error);
  }
};

class TextReader final : public LineFormatReader {
 public:
  using LineFormatReader::LineFormatReader;
  InputFormat format() const override { return InputFormat::kText; }

 protected:
  void Take(const TextLine& line, InputItem* item) override {
    if (!IsValidUtf8(line.text)) {
      Refuse(item, "", "", InvalidUtf8Message(line.text));
      return;
    }
    item->good = true;
    item->error = RequestLineError();
    item->request = RequestFromPrompt(line.text, "", line.number, options_.request);
  }
};

class CsvFormatReader final : public BaseReader {
 public:
  CsvFormatReader(InputOptions options, Text text)
      : BaseReader(std::move(options), std::move(text)),
        rows_(text_.bytes.get(), options_.delimiter, static_cast<size_t>(options_.max_line_bytes)) {
  }

  // Reads the header and takes the template apart.
  absl::Status Start() {
    ASSIGN_OR_RETURN(const bool any, NextRow());
    if (!any) return absl::InvalidArgumentError(absl::StrCat(name_, " ", NothingInIt()));
    if (!row_.problem.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": line ", row_.line, ": the header ", row_.problem));
    }
    for (size_t i = 0; i < row_.cells.size(); ++i) {
      const absl::string_view cell = row_.cells[i];
      if (!IsValidUtf8(cell)) {
        return absl::InvalidArgumentError(
            absl::StrCat(name_, ": the name of column ", i + 1, ": ", InvalidUtf8Message(cell)));
      }
      std::string column(absl::StripAsciiWhitespace(cell));
      if (!column.empty() && std::count(columns_.begin(), columns_.end(), column) > 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(name_, ": two columns are called \"", column, "\"; rename one"));
      }
      if (column == "custom_id") custom_id_column_ = static_cast<int>(i);
      columns_.push_back(std::move(column));
    }
    if (!options_.prompt_template) {
      return absl::InvalidArgumentError(absl::StrCat(
          name_,
          ": a CSV file needs --template to make prompts of its rows, for example --template "
          "\"Write about {{",
          columns_[custom_id_column_ == 0 && columns_.size() > 1 ? 1 : 0],
          "}}\"; known columns: ", absl::StrJoin(columns_, ", ")));
    }
    ASSIGN_OR_RETURN(template_, PromptTemplate::Create(*options_.prompt_template, columns_));
    return absl::OkStatus();
  }

  InputFormat format() const override { return InputFormat::kCsv; }
  char delimiter() const override { return rows_.delimiter(); }

 protected:
  absl::StatusOr<bool> Read(InputItem* item) override {
    ASSIGN_OR_RETURN(const bool more, NextRow());
    if (!more) return false;
    item->line = row_.line;
    TakeRow(item);
    return true;
  }

  std::string NothingInIt() const override {
    return columns_.empty() ? "is empty: there is no row in it"
                            : "has a header and no rows: there is no request in it";
  }

 private:
  absl::StatusOr<bool> NextRow() {
    const absl::StatusOr<bool> more = rows_.Next(&row_);
    stats_.lines = rows_.lines() - 1;
    // The rows do not know the file's name; the layers below them do.
    if (more.ok() || absl::StartsWith(more.status().message(), name_)) return more;
    return Annotate(more.status(), name_);
  }

  void TakeRow(InputItem* item) {
    if (!row_.problem.empty()) return Refuse(item, "", "", row_.problem);
    if (row_.cells.size() != columns_.size()) {
      return Refuse(item, KnownId(), "",
                    absl::StrCat("the row has ", row_.cells.size(), " cells, the header has ",
                                 columns_.size()));
    }
    for (size_t i = 0; i < row_.cells.size(); ++i) {
      if (IsValidUtf8(row_.cells[i])) continue;
      return Refuse(item, KnownId(), columns_[i], InvalidUtf8Message(row_.cells[i]));
    }
    absl::string_view custom_id;
    if (custom_id_column_ >= 0) custom_id = row_.cells[static_cast<size_t>(custom_id_column_)];
    if (custom_id.size() > kCustomIdBytesMax) {
      return Refuse(item, "", "custom_id",
                    absl::StrCat("is ", custom_id.size(), " bytes long; at most ",
                                 kCustomIdBytesMax, " are allowed"));
    }
    bool empty_cell = false;
    const std::string prompt = template_.Fill(row_.cells, &empty_cell);
    if (empty_cell && stats_.empty_values++ == 0) stats_.first_empty_value_line = row_.line;
    item->good = true;
    item->error = RequestLineError();
    item->request = RequestFromPrompt(prompt, custom_id, row_.line, options_.request);
  }

  // Of a row that is refused, for the message.
  absl::string_view KnownId() const {
    const auto column = static_cast<size_t>(custom_id_column_);
    if (custom_id_column_ < 0 || column >= row_.cells.size()) return "";
    const absl::string_view id = row_.cells[column];
    return id.size() <= kCustomIdBytesMax && IsValidUtf8(id) ? id : "";
  }

  CsvReader rows_;
  CsvRow row_;
  PromptTemplate template_;
  int custom_id_column_ = -1;
};

absl::Status CheckOptions(const InputOptions& options, InputFormat format) {
  const Endpoint endpoint = options.request.endpoint;
  if (options.max_line_bytes <= 0) {
    return absl::InvalidArgumentError("--max-line-bytes must be more than 0");
  }
  if (options.prompt_template && format != InputFormat::kCsv) {
    return absl::InvalidArgumentError(
        absl::StrCat("--template is for CSV files (name ending in .csv or .tsv); ", options.path,
                     " is read as ", InputFormatName(format)));
  }
  if (format != InputFormat::kJsonLines && !TakesPrompt(endpoint)) {
    return absl::InvalidArgumentError(absl::StrCat(
        EndpointPath(endpoint), " takes no plain prompt; write its requests as JSON Lines"));
  }
  if (!options.request.system.empty() && !TakesSystem(endpoint)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--system has no meaning for ", EndpointPath(endpoint)));
  }
  return absl::OkStatus();
}

std::string WithoutPacking(const std::string& path) {
  const std::string lower = absl::AsciiStrToLower(path);
  for (const absl::string_view ending : {".gz", ".zst", ".zstd"}) {
    if (absl::EndsWith(lower, ending)) return path.substr(0, path.size() - ending.size());
  }
  return path;
}

}  // namespace

std::string InputFormatName(InputFormat format) {
  switch (format) {
    case InputFormat::kJsonLines:
      return "JSON Lines";
    case InputFormat::kText:
      return "plain text";
    case InputFormat::kCsv:
      return "CSV";
  }
  return "unknown";
}

InputFormat InputFormatOf(const std::string& path) {
  const std::string name = absl::AsciiStrToLower(WithoutPacking(path));
  if (absl::EndsWith(name, ".txt")) return InputFormat::kText;
  if (absl::EndsWith(name, ".csv") || absl::EndsWith(name, ".tsv")) return InputFormat::kCsv;
  return InputFormat::kJsonLines;
}

std::string InputStem(const std::string& path) {
  if (path == "-") return "stdin";
  std::string name = WithoutPacking(path);
  name.erase(0, name.find_last_of('/') + 1);
  const size_t dot = name.find_last_of('.');
  if (dot != std::string::npos && dot > 0) name.resize(dot);
  return name;
}

absl::StatusOr<std::unique_ptr<InputReader>> InputReader::Open(InputOptions options) {
  InputFormat format = InputFormatOf(options.path);
  // Standard input has no name to tell by, and a template says that it is a table.
  if (options.path == "-" && options.prompt_template) format = InputFormat::kCsv;
  RETURN_IF_ERROR(CheckOptions(options, format));
  if (options.delimiter == 0 &&
      absl::EndsWith(absl::AsciiStrToLower(WithoutPacking(options.path)), ".tsv")) {
    options.delimiter = '\t';
  }
  ASSIGN_OR_RETURN(Text text, OpenText(options));
  switch (format) {
    case InputFormat::kJsonLines:
      return std::make_unique<JsonLinesReader>(std::move(options), std::move(text));
    case InputFormat::kText:
      return std::make_unique<TextReader>(std::move(options), std::move(text));
    case InputFormat::kCsv:
      break;
  }
  auto csv = std::make_unique<CsvFormatReader>(std::move(options), std::move(text));
  RETURN_IF_ERROR(csv->Start());
  return csv;
}

}  // namespace nightshift
