// A stream of bytes: the layers between an input file and its lines. None of them is thread-safe.
#ifndef NIGHTSHIFT_CLIENT_INPUT_BYTE_SOURCE_H_
#define NIGHTSHIFT_CLIENT_INPUT_BYTE_SOURCE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/input/file_hash.h"

namespace nightshift {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills up to `max` (> 0) bytes at `to`; 0 only at the end.
  virtual absl::StatusOr<size_t> Read(char* to, size_t max) = 0;
};

// The bytes of a file, or of standard input for "-". Reads on after an interruption unless
// `cancelled` (may be null) says otherwise: then Cancelled.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path,
                                                           std::function<bool()> cancelled);

// The name of an input in messages: the path, or "standard input".
std::string SourceName(const std::string& path);

// Bytes that are in memory already. `bytes` must outlive it.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(absl::string_view bytes) : rest_(bytes) {}
  absl::StatusOr<size_t> Read(char* to, size_t max) override;

 private:
  absl::string_view rest_;
};

// Adds all that passes to `hash`, which must outlive it.
class HashingSource final : public ByteSource {
 public:
  HashingSource(std::unique_ptr<ByteSource> inner, StreamHash* hash)
      : inner_(std::move(inner)), hash_(hash) {}
  absl::StatusOr<size_t> Read(char* to, size_t max) override;

 private:
  const std::unique_ptr<ByteSource> inner_;
  StreamHash* const hash_;
};

// Lets one look at what comes next.
class PeekSource final : public ByteSource {
 public:
  explicit PeekSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {}

  // The next bytes, `count` of them or all that are left; valid until the next call.
  absl::StatusOr<absl::string_view> Peek(size_t count);
  // Leaves out bytes that were looked at.
  void Drop(size_t count) { start_ += count; }
  absl::StatusOr<size_t> Read(char* to, size_t max) override;

 private:
  const std::unique_ptr<ByteSource> inner_;
  std::vector<char> ahead_;
  size_t start_ = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_INPUT_BYTE_SOURCE_H_
