#include "client/input/prompt_template.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace nightshift {
namespace {

// Of the template's own text, names and columns in messages are cut here.
constexpr size_t kShownMax = 60;
constexpr size_t kColumnsShownMax = 30;

std::string KnownColumns(const std::vector<std::string>& columns) {
  const size_t shown = std::min(columns.size(), kColumnsShownMax);
  return absl::StrCat(
      absl::StrJoin(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < columns.size() ? absl::StrCat(" and ", columns.size() - shown, " more") : "");
}

}  // namespace

absl::StatusOr<PromptTemplate> PromptTemplate::Create(absl::string_view text,
                                                      const std::vector<std::string>& columns) {
  PromptTemplate made;
  Part part;
  bool any_place = false;
  size_t at = 0;
  while (at < text.size()) {
    const size_t open = text.find("{{", at);
    if (open == absl::string_view::npos) break;
    absl::StrAppend(&part.text, text.substr(at, open - at));
    absl::string_view rest = text.substr(open);
    if (absl::StartsWith(rest, "{{{{")) {
      part.text += "{{";
      at = open + 4;
      continue;
    }
    at = open;
    if (absl::StartsWith(rest, "{{{")) {  // a brace around a place
      part.text += "{";
      ++at;
      rest.remove_prefix(1);
    }
    const size_t close = rest.find("}}");
    if (close == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("--template: \"", rest.substr(0, std::min(rest.size(), kShownMax)),
                       "\" has no closing }}; for two braces as text write {{{{"));
    }
    const absl::string_view name = absl::StripAsciiWhitespace(rest.substr(2, close - 2));
    const auto found = std::find(columns.begin(), columns.end(), std::string(name));
    if (name.empty() || found == columns.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--template: there is no column \"", name.substr(0, std::min(name.size(), kShownMax)),
          "\" in row 1; known columns: ", KnownColumns(columns)));
    }
    part.column = static_cast<int>(found - columns.begin());
    made.parts_.push_back(std::move(part));
    part = Part();
    any_place = true;
    at += close + 2;
  }
  absl::StrAppend(&part.text, text.substr(std::min(at, text.size())));
  made.parts_.push_back(std::move(part));
  if (!any_place) {
    return absl::InvalidArgumentError(
        absl::StrCat("--template: no column is used, so every row would be the same prompt; write ",
                     columns.empty() ? "{{name}}" : absl::StrCat("{{", columns[0], "}}"),
                     ", for example; known columns: ", KnownColumns(columns)));
  }
  return made;
}

std::string PromptTemplate::Fill(const std::vector<absl::string_view>& cells,
                                 bool* empty_cell) const {
  std::string out;
  for (const Part& part : parts_) {
    out += part.text;
    if (part.column < 0) continue;
    NIGHTSHIFT_CHECK(static_cast<size_t>(part.column) < cells.size(), "row shorter than header");
    const absl::string_view cell = cells[static_cast<size_t>(part.column)];
    if (empty_cell != nullptr && absl::StripAsciiWhitespace(cell).empty()) *empty_cell = true;
    absl::StrAppend(&out, cell);
  }
  return out;
}

}  // namespace nightshift
