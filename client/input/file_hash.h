// Recognises an input again: XXH3-128 over its bytes as they are on disk (compressed ones stay
// compressed). Not a protection against someone who wants two inputs to look the same.
#ifndef NIGHTSHIFT_CLIENT_INPUT_FILE_HASH_H_
#define NIGHTSHIFT_CLIENT_INPUT_FILE_HASH_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

// 32 hexadecimal digits. Several GB/s: the disk decides. Errors as InputReader::Open has them.
absl::StatusOr<std::string> HashFile(const std::string& path);

// The same over bytes that come in pieces. Not thread-safe.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(const StreamHash&) = delete;
  StreamHash& operator=(const StreamHash&) = delete;

  void Update(absl::string_view bytes);
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_INPUT_FILE_HASH_H_
