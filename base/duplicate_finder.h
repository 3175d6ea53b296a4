// Finds equal strings among many without keeping the strings: twelve bytes each in memory up to
// `entries_in_memory_max`, beyond that sorted runs in a temporary file that is merged at the end.
#ifndef NIGHTSHIFT_BASE_DUPLICATE_FINDER_H_
#define NIGHTSHIFT_BASE_DUPLICATE_FINDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace nightshift {

// Not thread-safe.
class DuplicateFinder {
 public:
  struct Options {
    std::string temporary_dir;  // for runs; must be writable only when they are needed
    size_t entries_in_memory_max = size_t{4} << 20;
  };
  explicit DuplicateFinder(Options options);
  ~DuplicateFinder();

  // `position` identifies the string to the caller; positions must rise from call to call.
  absl::Status Add(absl::string_view text, uint64_t position);

  // Calls `found(first, other)` for every string whose 64-bit hash was seen before, `first` being
  // the lowest position with it. Equal hashes of different strings are possible (one in 10^7 for a
  // million strings): the caller compares the strings before it believes them. Call once, last.
  absl::Status Finish(absl::FunctionRef<void(uint64_t first, uint64_t other)> found);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_DUPLICATE_FINDER_H_
