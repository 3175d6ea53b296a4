#include "client/commands/route_flags.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

using Named = std::pair<std::string, double>;

// NAME=NUMBER of each; names may hold "=" themselves. `percent`: with a % behind the number.
absl::StatusOr<std::vector<Named>> ReadNumbers(const Settings& settings, const char* flag,
                                               bool percent) {
  std::vector<Named> out;
  for (const std::string& text : settings.List(flag)) {
    const size_t at = text.rfind('=');
    absl::string_view number =
        at == std::string::npos ? absl::string_view() : absl::string_view(text).substr(at + 1);
    double value = 0;
    if (at == 0 || (percent && !absl::ConsumeSuffix(&number, "%")) ||
        !absl::SimpleAtod(number, &value) || !(value > 0) || !std::isfinite(value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", flag, " \"", text,
          "\" is not BACKEND=", percent ? "PERCENT%, such as new=10%" : "NUMBER, such as big=3"));
    }
    out.emplace_back(text.substr(0, at), percent ? value / 100 : value);
  }
  return out;
}

absl::Status CheckName(const std::string& name, const std::vector<std::string>& backends) {
  if (backends.empty() || std::find(backends.begin(), backends.end(), name) != backends.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no backend \"", name, "\"; there are ",
                                                 absl::StrJoin(backends, ", ")));
}

}  // namespace

absl::Status ReadRoute(const Settings& settings, const std::vector<std::string>& backends,
                       v1::JobOptions* options) {
  ASSIGN_OR_RETURN(const std::vector<Named> rollouts, ReadNumbers(settings, "rollout", true));
  ASSIGN_OR_RETURN(const std::vector<Named> weights,
                   ReadNumbers(settings, "backend-weight", false));
  v1::Route route;
  double rest = 1;
  for (const auto& [name, share] : rollouts) {
    v1::Route::Share& to = *route.add_shares();
    to.set_backend(name);
    to.set_share(share);
    rest -= share;
  }
  double sum = 0;
  for (const auto& [name, weight] : weights) sum += weight;
  if (!weights.empty() && rest <= 0) {
    return absl::InvalidArgumentError("--rollout leaves nothing for --backend-weight to share out");
  }
  for (const auto& [name, weight] : weights) {
    v1::Route::Share& to = *route.add_shares();
    to.set_backend(name);
    to.set_share(rest * weight / sum);
  }
  for (const std::string& text : settings.List("fallback")) {
    for (const absl::string_view name : absl::StrSplit(text, ',')) {
      *route.add_fallback() = std::string(name);
    }
  }
  if (route.shares().empty() && route.fallback().empty()) return absl::OkStatus();
  for (const v1::Route::Share& share : route.shares()) {
    RETURN_IF_ERROR(CheckName(share.backend(), backends));
  }
  for (const std::string& name : route.fallback()) RETURN_IF_ERROR(CheckName(name, backends));
  *options->mutable_route() = std::move(route);
  return absl::OkStatus();
}

}  // namespace nightshift
