// Text in columns, aligned by what it takes on the screen.
#ifndef NIGHTSHIFT_CLIENT_OUTPUT_TEXT_TABLE_H_
#define NIGHTSHIFT_CLIENT_OUTPUT_TEXT_TABLE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/output/text_width.h"

namespace nightshift {

enum class Align { kLeft, kRight };

// Not thread-safe. Control characters in cells are shown, not obeyed.
class TextTable {
 public:
  struct Column {
    std::string name;  // of all columns empty: no header line
    Align align = Align::kLeft;
    int width_max = 0;  // longer cells are cut; 0 = no limit
  };
  explicit TextTable(std::vector<Column> columns);

  // Missing cells at the end are empty; more cells than columns is a broken invariant.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Each line ends in LF and has no blanks at its end; columns are two blanks apart. `indent`
  // blanks before each line.
  std::string Render(int indent = 0, bool utf8 = true) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_OUTPUT_TEXT_TABLE_H_
