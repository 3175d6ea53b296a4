// A folder of its own for one test, removed with it.
#ifndef NIGHTSHIFT_TESTS_STORAGE_TEMP_FOLDER_H_
#define NIGHTSHIFT_TESTS_STORAGE_TEMP_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"

namespace nightshift {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "nightshift-XXXXXX").string();
    NIGHTSHIFT_CHECK(mkdtemp(pattern.data()) != nullptr, "cannot make a temporary folder");
    path_ = pattern;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_STORAGE_TEMP_FOLDER_H_
