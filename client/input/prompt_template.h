// A text with places for the columns of a table: "Write about {{topic}}".
//
// A place is {{name}}; blanks inside the braces do not count, a name may hold blanks and dots, and
// {{{{ stands for two braces. Filled in one pass: what a cell holds is data, braces or not. There
// are no loops, conditions or code.
#ifndef NIGHTSHIFT_CLIENT_INPUT_PROMPT_TEMPLATE_H_
#define NIGHTSHIFT_CLIENT_INPUT_PROMPT_TEMPLATE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

// Constant after Create, so any number of threads may fill it in.
class PromptTemplate {
 public:
  // InvalidArgument for braces that are not closed, a name that is no column (the known ones are
  // named), or a template without any place: every row would be the same prompt.
  static absl::StatusOr<PromptTemplate> Create(absl::string_view text,
                                               const std::vector<std::string>& columns);

  // The text for one row, which has a cell for each column. `empty_cell` (may be null) is set when
  // a cell that is used holds nothing but blanks.
  std::string Fill(const std::vector<absl::string_view>& cells, bool* empty_cell) const;

 private:
  struct Part {
    std::string text;  // before the place
    int column = -1;   // -1 = none: the end of the template
  };
  std::vector<Part> parts_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_INPUT_PROMPT_TEMPLATE_H_
