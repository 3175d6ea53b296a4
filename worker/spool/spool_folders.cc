#include "worker/spool/spool_folders.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/folder_lock.h"
#include "worker/spool/spool.h"

namespace nightshift {

std::vector<std::string> SpoolFoldersToTry(const std::string& first, int count) {
  std::vector<std::string> folders;
  for (int i = 1; i <= count; ++i) {
    folders.push_back(i == 1 ? first : absl::StrCat(first, "-", i));
  }
  std::stable_partition(folders.begin(), folders.end(), Spool::HoldsAnswers);
  return folders;
}

std::vector<std::string> SpoolFoldersLeft(const std::vector<std::string>& folders) {
  std::vector<std::string> left;
  for (const std::string& folder : folders) {
    if (Spool::HoldsAnswers(folder) && FolderLock::Acquire(folder, "--spool-dir").ok()) {
      left.push_back(folder);
    }
  }
  return left;
}

}  // namespace nightshift
