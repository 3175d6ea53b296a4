// What text takes on a terminal: wide characters count two cells, combining marks none. And text
// made safe to show: ids and names are the user's, and a terminal would act on control characters.
#ifndef NIGHTSHIFT_CLIENT_OUTPUT_TEXT_WIDTH_H_
#define NIGHTSHIFT_CLIENT_OUTPUT_TEXT_WIDTH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace nightshift {

// Cells that `text` takes. A byte that is not UTF-8 and a control character count one.
int DisplayWidth(absl::string_view text);

// At most `cells` cells of `text`, never half a character; where something is cut off, an ellipsis
// ("..." without `utf8`) stands at the end.
std::string CutToWidth(absl::string_view text, int cells, bool utf8 = true);

// Control characters as escapes (\n, \x1b), bytes that are not UTF-8 as "?".
std::string Printable(absl::string_view text);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_OUTPUT_TEXT_WIDTH_H_
