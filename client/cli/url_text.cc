#include "client/cli/url_text.h"

#include "absl/strings/str_cat.h"

namespace nightshift {

std::string WithoutCredentials(absl::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == absl::string_view::npos) return std::string(url);
  const size_t start = scheme + 3;
  const absl::string_view authority = url.substr(start, url.find('/', start) - start);
  const size_t at = authority.rfind('@');
  if (at == absl::string_view::npos) return std::string(url);
  return absl::StrCat(url.substr(0, start), "***", url.substr(start + at));
}

}  // namespace nightshift
