#include "coordinator/core/route.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nightshift {
namespace {

// Above what rounding adds to a sum of a few shares.
constexpr double kSumMax = 1 + 1e-9;

}  // namespace

absl::Status CheckRoute(const v1::Route& route) {
  std::set<std::string> names;
  double sum = 0;
  for (const v1::Route::Share& share : route.shares()) {
    if (share.backend().empty()) return absl::InvalidArgumentError("a share names no backend");
    if (!names.insert(share.backend()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("backend ", share.backend(), " has two shares"));
    }
    if (!(share.share() > 0) || !(share.share() <= kSumMax)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the share of backend ", share.backend(), " is not between 0 and 100 %"));
    }
    sum += share.share();
  }
  if (sum > kSumMax) return absl::InvalidArgumentError("the shares are more than 100 % together");
  std::set<std::string> fallback;
  for (const std::string& name : route.fallback()) {
    if (name.empty()) return absl::InvalidArgumentError("the fallback names an empty backend");
    if (!fallback.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("backend ", name, " is twice in the fallback"));
    }
    names.insert(name);
  }
  if (names.size() > kRouteBackendsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kRouteBackendsMax, " backends are named"));
  }
  return absl::OkStatus();
}

Router::Router(const v1::Route& route) {
  double end = 0;
  for (const v1::Route::Share& share : route.shares()) {
    Intern(share.backend());
    end += share.share();
    ends_.push_back(end);
  }
  // All of it shared out: no request falls into a gap that rounding left.
  if (end >= 1 - 1e-9) ends_.back() = 2;
  for (const std::string& name : route.fallback()) fallback_.push_back(Intern(name));
}

size_t Router::Intern(const std::string& name) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<size_t>(found - names_.begin());
  names_.push_back(name);
  return names_.size() - 1;
}

Lane Router::First(absl::string_view custom_id) const {
  const double point =
      std::ldexp(static_cast<double>(XXH64(custom_id.data(), custom_id.size(), 0) >> 11), -53);
  for (size_t i = 0; i < ends_.size(); ++i) {
    if (point < ends_[i]) return Named(i);
  }
  return fallback_.empty() ? Rest() : Named(fallback_[0]);
}

Lane Router::Next(Lane lane) const {
  if (lane > names_.size()) return lane;
  const size_t name = lane - 1;
  if (fallback_.empty()) return AllBut(name);
  const auto at = std::find(fallback_.begin(), fallback_.end(), name);
  if (at == fallback_.end()) return Named(fallback_[0]);
  return at + 1 == fallback_.end() ? lane : Named(*(at + 1));
}

bool Router::Serves(Lane lane, absl::string_view backend) const {
  const size_t place = lane - 1;
  if (place < names_.size()) return backend == names_[place];
  if (lane != Rest()) return backend != names_[place - names_.size()];
  for (size_t i = 0; i < ends_.size(); ++i) {
    if (backend == names_[i]) return false;
  }
  return true;
}

bool Router::MayMoveOn(int moves, absl::string_view backend) const {
  for (int first = 1; first <= lanes(); ++first) {
    Lane lane = static_cast<Lane>(first);
    for (int step = 0; step < moves; ++step) lane = Next(lane);
    for (Lane next = Next(lane); next != lane; lane = next, next = Next(lane)) {
      if (Serves(lane, backend)) return true;
    }
  }
  return false;
}

}  // namespace nightshift
