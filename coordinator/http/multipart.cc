#include "coordinator/http/multipart.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr size_t kBoundaryCharsMax = 70;
// Blanks that may stand between a boundary and the end of its line.
constexpr size_t kPaddingMax = 64;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("The multipart form is malformed: ", what, "."));
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Turns %XX into bytes: all of them, or only those that browsers write for what cannot stand
// between quotes.
std::string PercentDecoded(absl::string_view text, bool all) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = i + 2 < text.size() && text[i] == '%' ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    const char byte = static_cast<char>(high * 16 + low);
    if (low >= 0 && (all || byte == '"' || byte == '\r' || byte == '\n')) {
      out.push_back(byte);
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// The parameters behind the first ';' of a header's value: name=token or name="quoted \" text".
std::optional<std::vector<std::pair<std::string, std::string>>> Parameters(absl::string_view text) {
  std::vector<std::pair<std::string, std::string>> found;
  while (true) {
    text = absl::StripLeadingAsciiWhitespace(text);
    if (text.empty()) return found;
    if (text.front() != ';') return std::nullopt;
    text = absl::StripLeadingAsciiWhitespace(text.substr(1));
    if (text.empty()) return found;
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) return std::nullopt;
    std::string name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text.substr(0, equals)));
    text.remove_prefix(equals + 1);
    std::string value;
    if (!text.empty() && text.front() == '"') {
      size_t at = 1;
      for (; at < text.size() && text[at] != '"'; ++at) {
        const bool escape = text[at] == '\\' && at + 1 < text.size() &&
                            (text[at + 1] == '"' || text[at + 1] == '\\');
        if (escape) ++at;
        value.push_back(text[at]);
      }
      if (at == text.size()) return std::nullopt;
      text.remove_prefix(at + 1);
    } else {
      const size_t end = std::min(text.find(';'), text.size());
      value = std::string(absl::StripAsciiWhitespace(text.substr(0, end)));
      text.remove_prefix(end);
    }
    found.emplace_back(std::move(name), std::move(value));
  }
}

// Of a Content-Disposition.
std::optional<PartHead> ParseDisposition(absl::string_view value) {
  const size_t semicolon = std::min(value.find(';'), value.size());
  const absl::string_view kind = absl::StripAsciiWhitespace(value.substr(0, semicolon));
  const auto parameters = Parameters(value.substr(semicolon));
  if (!absl::EqualsIgnoreCase(kind, "form-data") || !parameters.has_value()) return std::nullopt;
  PartHead head;
  bool named = false;
  bool extended = false;
  for (const auto& [name, text] : *parameters) {
    if (name == "name") {
      head.name = PercentDecoded(text, /*all=*/false);
      named = true;
    } else if (name == "filename" && !extended) {
      head.filename = PercentDecoded(text, /*all=*/false);
      head.has_filename = true;
    } else if (name == "filename*") {
      // charset'language'text; it is meant to win over the plain one.
      const std::vector<absl::string_view> pieces = absl::StrSplit(text, absl::MaxSplits('\'', 2));
      if (pieces.size() != 3) return std::nullopt;
      head.filename = PercentDecoded(pieces[2], /*all=*/true);
      head.has_filename = extended = true;
    }
  }
  if (!named) return std::nullopt;
  return head;
}

}  // namespace

absl::StatusOr<std::string> MultipartBoundary(absl::string_view content_type) {
  const size_t semicolon = std::min(content_type.find(';'), content_type.size());
  const absl::string_view kind = absl::StripAsciiWhitespace(content_type.substr(0, semicolon));
  if (!absl::EqualsIgnoreCase(kind, "multipart/form-data")) {
    return absl::InvalidArgumentError(
        "Files are uploaded as multipart/form-data with the parts \"file\" and \"purpose\".");
  }
  const auto parameters = Parameters(content_type.substr(semicolon));
  if (parameters.has_value()) {
    for (const auto& [name, value] : *parameters) {
      if (name == "boundary" && !value.empty() && value.size() <= kBoundaryCharsMax) return value;
    }
  }
  return absl::InvalidArgumentError(
      "The Content-Type multipart/form-data has no boundary of 1 to 70 characters.");
}

MultipartParser::MultipartParser(absl::string_view boundary, Handlers handlers)
    : mark_(absl::StrCat("\r\n--", boundary)), handlers_(std::move(handlers)) {
  // The first boundary may stand at the very beginning, without a line end before it.
  pending_ = "\r\n";
}

absl::Status MultipartParser::Feed(absl::string_view bytes) {
  if (state_ == State::kClosed) return absl::OkStatus();
  pending_.append(bytes.data(), bytes.size());
  bool progress = true;
  while (progress && state_ != State::kClosed) {
    progress = false;
    RETURN_IF_ERROR(Step(&progress));
  }
  if (state_ == State::kClosed) begin_ = pending_.size();
  pending_.erase(0, begin_);
  begin_ = 0;
  return absl::OkStatus();
}

absl::Status MultipartParser::Finish() const {
  if (state_ == State::kClosed) return absl::OkStatus();
  if (state_ == State::kPreamble) {
    return Malformed("the boundary that Content-Type names is not in the body");
  }
  return Malformed("it ends before its closing boundary, so the upload was cut off");
}

absl::Status MultipartParser::Step(bool* progress) {
  const absl::string_view rest = absl::string_view(pending_).substr(begin_);
  switch (state_) {
    case State::kPreamble:
    case State::kData:
      return FindMark(progress);
    case State::kAfterMark: {
      if (absl::StartsWith(rest, "--")) {
        state_ = State::kClosed;
        return absl::OkStatus();
      }
      const size_t line_end = rest.find("\r\n");
      const bool whole = line_end != absl::string_view::npos;
      const absl::string_view padding = rest.substr(0, line_end);
      // Half of what is to come may be here.
      const size_t other = padding.find_first_not_of(whole ? " \t" : " \t\r-");
      if (other != absl::string_view::npos || padding.size() > kPaddingMax) {
        return Malformed("something else follows a boundary on its line");
      }
      if (!whole) return absl::OkStatus();
      if (++parts_ > kPartsMax) return Malformed(absl::StrCat("more than ", kPartsMax, " parts"));
      // The line end stays: a head without headers is then an empty line like any other.
      begin_ += line_end;
      state_ = State::kHead;
      *progress = true;
      return absl::OkStatus();
    }
    case State::kHead: {
      const size_t end = rest.find("\r\n\r\n");
      if (end == absl::string_view::npos || end > kPartHeadBytesMax) {
        if (rest.size() <= kPartHeadBytesMax) return absl::OkStatus();
        return Malformed(
            absl::StrCat("the headers of a part are longer than ", kPartHeadBytesMax, " bytes"));
      }
      RETURN_IF_ERROR(BeginPart(rest.substr(0, end)));
      begin_ += end + 4;
      state_ = State::kData;
      *progress = true;
      return absl::OkStatus();
    }
    case State::kClosed:
      break;
  }
  return absl::OkStatus();
}

absl::Status MultipartParser::FindMark(bool* progress) {
  const absl::string_view rest = absl::string_view(pending_).substr(begin_);
  const void* const found = memmem(rest.data(), rest.size(), mark_.data(), mark_.size());
  if (found != nullptr) {
    const auto before = static_cast<size_t>(static_cast<const char*>(found) - rest.data());
    RETURN_IF_ERROR(HandOn(before));
    begin_ += before + mark_.size();
    if (state_ == State::kData) RETURN_IF_ERROR(handlers_.end());
    state_ = State::kAfterMark;
    *progress = true;
    return absl::OkStatus();
  }
  // What may be the beginning of a mark waits for more.
  const size_t held = std::min(rest.size(), mark_.size() - 1);
  const size_t from = rest.find('\r', rest.size() - held);
  const size_t sure = from == absl::string_view::npos ? rest.size() : from;
  RETURN_IF_ERROR(HandOn(sure));
  begin_ += sure;
  return absl::OkStatus();
}

absl::Status MultipartParser::HandOn(size_t size) {
  if (state_ != State::kData || size == 0) return absl::OkStatus();
  return handlers_.data(absl::string_view(pending_).substr(begin_, size));
}

absl::Status MultipartParser::BeginPart(absl::string_view head) {
  std::optional<PartHead> part;
  for (const absl::string_view line : absl::StrSplit(head, "\r\n", absl::SkipEmpty())) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) return Malformed("a part has a header without a colon");
    if (!absl::EqualsIgnoreCase(line.substr(0, colon), "content-disposition")) continue;
    if (part.has_value()) return Malformed("a part has two Content-Disposition headers");
    part = ParseDisposition(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    if (!part.has_value()) return Malformed("a part's Content-Disposition cannot be read");
  }
  if (!part.has_value()) return Malformed("a part has no Content-Disposition");
  return handlers_.begin(*part);
}

}  // namespace nightshift
