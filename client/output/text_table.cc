#include "client/output/text_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace nightshift {
namespace {

constexpr int kGap = 2;

std::string Blanks(int count) { return std::string(static_cast<size_t>(std::max(count, 0)), ' '); }

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::AddRow(std::vector<std::string> cells) {
  NIGHTSHIFT_CHECK(cells.size() <= columns_.size(), "more cells than columns");
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::Render(int indent, bool utf8) const {
  std::vector<std::vector<std::string>> lines;
  const bool named = std::any_of(columns_.begin(), columns_.end(),
                                 [](const Column& column) { return !column.name.empty(); });
  if (named) {
    std::vector<std::string>& names = lines.emplace_back();
    for (const Column& column : columns_) names.push_back(column.name);
  }
  std::vector<int> widths(columns_.size(), 0);
  for (const std::vector<std::string>& row : rows_) {
    std::vector<std::string>& line = lines.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = Printable(row[i]);
      const int max = columns_[i].width_max;
      line.push_back(max > 0 ? CutToWidth(cell, max, utf8) : cell);
    }
  }
  for (const std::vector<std::string>& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(line[i]));
  }
  std::string out;
  for (const std::vector<std::string>& line : lines) {
    std::string text = Blanks(indent);
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string padding = Blanks(widths[i] - DisplayWidth(line[i]));
      const bool right = columns_[i].align == Align::kRight;
      absl::StrAppend(&text, i > 0 ? Blanks(kGap) : "", right ? padding : "", line[i],
                      right ? "" : padding);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, text, "\n");
  }
  return out;
}

}  // namespace nightshift
