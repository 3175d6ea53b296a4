#include "coordinator/core/model_sets.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nightshift {

int ModelSets::Intern(std::vector<std::string> models) {
  std::sort(models.begin(), models.end());
  models.erase(std::unique(models.begin(), models.end()), models.end());
  std::string key;  // lengths in front, so that no name can imitate two
  for (const std::string& model : models) absl::StrAppend(&key, model.size(), ":", model);
  const auto [it, added] = numbers_.try_emplace(std::move(key), size());
  if (added) sets_.push_back(std::move(models));
  return it->second;
}

bool ModelSets::Serves(const std::vector<std::string>& offered, int set) const {
  if (offered.empty()) return true;
  for (const std::string& model : sets_[set]) {
    if (std::find(offered.begin(), offered.end(), model) == offered.end()) return false;
  }
  return true;
}

}  // namespace nightshift
