// The files that people have uploaded: bytes in the data folder, a row each in the store. A file is
// there when its bytes are synced under their name and its row is committed, in that order, so that
// an id never names half a file; what a crash leaves of an upload is removed at the next start.
//
//   DIR/<id>        whole files          DIR/<id>.part   uploads under way
//
// Memory: a small record per file. Thread-safe; no disk is touched under the lock.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_FILE_TABLE_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_FILE_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "nightshift/v1/files.pb.h"
#include "storage/store.h"

namespace nightshift {

// Further uploads are refused with ResourceExhausted until files are deleted or expire.
inline constexpr size_t kFilesMax = 100'000;
// Longer names are cut: they are shown, never opened.
inline constexpr size_t kFileNameBytesMax = 255;

// An open file; closed when it goes. Deleting the file meanwhile does not disturb it.
class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // Up to `size` bytes at `offset`; fewer only at the end. Unavailable when the disk fails.
  absl::StatusOr<size_t> ReadAt(int64_t offset, char* out, size_t size) const;

 private:
  const int fd_;
};

class FileTable;

// Whose a file is.
struct FileOwner {
  std::string tenant;
  // Of all its files, those that are arriving among them; 0: any number.
  int64_t bytes_max = 0;
};

// A file on its way in. What has been written is removed with the object unless it was finished.
// Not thread-safe.
class FileUpload {
 public:
  ~FileUpload();
  FileUpload(const FileUpload&) = delete;
  FileUpload& operator=(const FileUpload&) = delete;

  // ResourceExhausted when the disk is full or the owner has too much (TenantLimitError),
  // Unavailable when the disk fails.
  absl::Status Write(absl::string_view bytes);
  int64_t bytes() const { return bytes_ + static_cast<int64_t>(buffer_.size()); }

  // Makes it a file. `lifetime_s` 0: it never expires. Once.
  absl::StatusOr<v1::FileRecord> Finish(absl::string_view filename, absl::string_view purpose,
                                        int64_t lifetime_s);

 private:
  friend class FileTable;
  FileUpload(FileTable& table, FileOwner owner, std::string id, int64_t created_at_ms, int fd);
  absl::Status Flush();
  std::string PartPath() const;

  FileTable& table_;
  const FileOwner owner_;
  const std::string id_;
  const int64_t created_at_ms_;
  int fd_;
  bool kept_ = false;
  int64_t bytes_ = 0;    // on the disk's side
  int64_t counted_ = 0;  // against the owner
  std::string buffer_;
};

class FileTable {
 public:
  // Makes `folder`, reads the rows and removes what belongs to none. The references must outlive
  // it.
  static absl::StatusOr<std::unique_ptr<FileTable>> Open(Store& store, Clock& clock,
                                                         std::string folder);

  absl::StatusOr<std::unique_ptr<FileUpload>> Begin(FileOwner owner);
  // An id that no file has. Rises from call to call, also within a millisecond.
  std::string NewId(int64_t now_ms);

  // NotFound as well for one that has expired.
  absl::StatusOr<v1::FileRecord> Find(absl::string_view id) const;
  // In no order.
  std::vector<v1::FileRecord> List() const;
  absl::StatusOr<std::unique_ptr<OpenFile>> OpenForReading(absl::string_view id) const;
  absl::Status Delete(absl::string_view id);
  // All of them in one commit; those that are not there are left out.
  absl::Status DeleteAll(const std::vector<std::string>& ids);
  // Deletes what has expired. Call now and then.
  void Sweep();

 private:
  friend class FileUpload;
  FileTable(Store& store, Clock& clock, std::string folder);
  absl::Status Load();
  absl::Status RemoveStrays() const;
  bool Known(const std::string& id) const;
  std::string PathOf(absl::string_view id) const;
  absl::Status Keep(const v1::FileRecord& record);
  absl::Status Remove(const std::vector<std::string>& ids);
  bool Expired(const v1::FileRecord& record) const;
  // Counts bytes that arrive; an error when the owner may have no more.
  absl::Status Count(const FileOwner& owner, int64_t bytes);
  void Uncount(const std::string& tenant, int64_t bytes);
  // In how long so many bytes of the tenant's will have expired.
  absl::Duration ExpiryOf(const std::string& tenant, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Store& store_;
  Clock& clock_;
  const std::string folder_;
  mutable Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  int64_t last_id_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, v1::FileRecord, std::less<>> files_ ABSL_GUARDED_BY(mutex_);
  // Of each tenant, those of uploads under way among them.
  std::map<std::string, int64_t> bytes_ ABSL_GUARDED_BY(mutex_);
};

// Whether `id` has the form of an uploaded file's: nothing else is ever made a path of.
bool IsFileId(absl::string_view id);

// What is kept of a name that a client sent: no folders, no control characters, not too long.
std::string CleanFileName(absl::string_view name);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_FILE_TABLE_H_
