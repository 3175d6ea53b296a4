#include "client/input/text_argument.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/json_problem.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/input/byte_source.h"

namespace nightshift {
namespace {

constexpr size_t kBytesMax = size_t{16} << 20;

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, OpenFileSource(path, nullptr));
  std::string text;
  std::vector<char> buffer(size_t{64} << 10);
  while (true) {
    ASSIGN_OR_RETURN(const size_t got, source->Read(buffer.data(), buffer.size()));
    if (got == 0) return text;
    text.append(buffer.data(), got);
    if (text.size() > kBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is over ", HumanSize(kBytesMax), " long"));
    }
  }
}

}  // namespace

absl::StatusOr<std::string> ReadTextArgument(absl::string_view flag, absl::string_view value) {
  std::string text(value);
  if (absl::StartsWith(value, "@@")) {
    text.erase(0, 1);
  } else if (absl::StartsWith(value, "@")) {
    absl::StatusOr<std::string> read = ReadWholeFile(text.substr(1));
    if (!read.ok()) return Annotate(read.status(), flag);
    text = *std::move(read);
    if (absl::StartsWith(text, "\xEF\xBB\xBF")) text.erase(0, 3);
    if (absl::EndsWith(text, "\n")) text.pop_back();
    if (absl::EndsWith(text, "\r")) text.pop_back();
  }
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(flag, ": the text is empty"));
  if (!IsValidUtf8(text)) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", InvalidUtf8Message(text)));
  }
  return text;
}

}  // namespace nightshift
