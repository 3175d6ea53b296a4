// A file that is there whole or not at all: written without a name (where the file system can do
// that) or under a temporary one in the same folder, synced, then renamed. For results and errors
// files, and whatever else a reader may look at while it is being made. Whether an existing file
// may be replaced is the caller's decision.
#ifndef NIGHTSHIFT_CLIENT_OUTPUT_ATOMIC_FILE_H_
#define NIGHTSHIFT_CLIENT_OUTPUT_ATOMIC_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

// Not thread-safe. Destroying it before Commit leaves the folder as it was.
class AtomicFile {
 public:
  // Opens it, so that a folder that is missing or cannot be written is known before the work
  // starts: NotFound, PermissionDenied, InvalidArgument (the path is a folder or empty),
  // ResourceExhausted (disk full); the message is a sentence that names the path. A symbolic link
  // is followed. A device or pipe, such as /dev/null, is written to as the bytes come.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path);
  virtual ~AtomicFile() = default;

  // Buffered. ResourceExhausted when the disk is full. After an error only destruction is left.
  virtual absl::Status Append(absl::string_view bytes) = 0;

  // Makes it durable and gives it its name; any file of that name is replaced. Call once.
  virtual absl::Status Commit() = 0;

  virtual int64_t bytes() const = 0;  // appended so far
  virtual const std::string& path() const = 0;
  // Empty while it has no name.
  virtual const std::string& temporary_path() const = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_OUTPUT_ATOMIC_FILE_H_
