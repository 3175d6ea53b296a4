// What one commit writes, and the conditions under which it may.
#ifndef NIGHTSHIFT_STORAGE_WRITE_SET_H_
#define NIGHTSHIFT_STORAGE_WRITE_SET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace nightshift {

// A family is an ordered key space of its own; coordinator keys are described in storage/keys.h.
enum class Family : uint8_t {
  kMeta = 0,
  kJobs,
  kRequests,
  kOrder,
  kOutcomes,
  kResponses,
  kProgress,
  kAttempts,
  kFiles,
  kEvents,
};
inline constexpr int kFamilyCount = 10;

// "meta", "jobs", …: the names of the column families on disk.
absl::string_view FamilyName(Family family);

// Not thread-safe; moved into Store::Commit. Writes apply in the order they were added.
class WriteSet {
 public:
  struct Write {
    enum class Kind : uint8_t { kPut, kDelete, kDeleteRange };
    Kind kind;
    Family family;
    std::string key;    // begin of the range for kDeleteRange
    std::string value;  // end of the range (exclusive) for kDeleteRange
  };
  struct Condition {
    Family family;
    std::string key;
    bool present;       // false: the key must be absent
    std::string value;  // present: and hold exactly this
  };

  void Put(Family family, std::string key, std::string value);
  void Delete(Family family, std::string key);
  void DeleteRange(Family family, std::string begin, std::string end);

  void ExpectAbsent(Family family, std::string key);
  void ExpectValue(Family family, std::string key, std::string value);

  // Bytes of all keys and values to write: what a caller bounds a batch by.
  size_t byte_size() const { return byte_size_; }
  bool empty() const { return writes_.empty() && conditions_.empty(); }

  const std::vector<Write>& writes() const { return writes_; }
  const std::vector<Condition>& conditions() const { return conditions_; }

 private:
  std::vector<Write> writes_;
  std::vector<Condition> conditions_;
  size_t byte_size_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_WRITE_SET_H_
