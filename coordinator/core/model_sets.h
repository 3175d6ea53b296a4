// Which backends can serve which jobs. Jobs that name the same models share one set, so that the
// grant loop compares small numbers instead of lists of names.
//
// Used by the dispatcher under its lock; not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_MODEL_SETS_H_
#define NIGHTSHIFT_COORDINATOR_CORE_MODEL_SETS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace nightshift {

class ModelSets {
 public:
  // The number of the set of these names, from 0; order and repetition do not matter. Sets are kept
  // for the life of the process: there are as many as there are different combinations of models.
  int Intern(std::vector<std::string> models);

  // Sorted.
  const std::vector<std::string>& models(int set) const { return sets_[set]; }
  int size() const { return static_cast<int>(sets_.size()); }

  // Whether a backend that lists `offered` can serve every request of a job with this set: an empty
  // list means that it is not known or that anything goes.
  bool Serves(const std::vector<std::string>& offered, int set) const;

 private:
  std::vector<std::vector<std::string>> sets_;
  absl::flat_hash_map<std::string, int> numbers_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_MODEL_SETS_H_
