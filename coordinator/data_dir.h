// What is where in a data folder.
#ifndef NIGHTSHIFT_COORDINATOR_DATA_DIR_H_
#define NIGHTSHIFT_COORDINATOR_DATA_DIR_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace nightshift {

// The store. It may be a volume of its own.
inline std::string StoreDirOf(absl::string_view data_dir) {
  return absl::StrCat(data_dir, "/store");
}
// Of submissions under way. What is in it has no names, so nothing of it is left behind.
inline std::string TemporaryDirOf(absl::string_view data_dir) {
  return absl::StrCat(data_dir, "/tmp");
}

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_DATA_DIR_H_
