#include "coordinator/http/file_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/folder_lock.h"
#include "base/json_problem.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/access/access.h"
#include "coordinator/http/output_files.h"
#include "coordinator/http/rows.h"
#include "storage/record.h"

namespace nightshift {
namespace {

constexpr absl::string_view kIdPrefix = "file-";
constexpr absl::string_view kPartSuffix = ".part";
constexpr char kAlphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
// 45 bits of milliseconds, so that ids sort by age, then twice 40 of chance.
constexpr int kTimeChars = 9;
constexpr int kChanceChars = 8;
// Writes of this size keep the disk busy without much memory per upload.
constexpr size_t kWriteBytes = size_t{256} << 10;
// The system is told to begin writing after each so many bytes, so that the final sync is short.
constexpr int64_t kWritebackBytes = int64_t{8} << 20;

absl::Status FileError(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string text = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(text)
                                            : absl::UnavailableError(text);
}

void AppendBase32(uint64_t value, int chars, std::string* out) {
  for (int shift = 5 * (chars - 1); shift >= 0; shift -= 5) {
    out->push_back(kAlphabet[(value >> shift) & 31]);
  }
}

}  // namespace

bool IsFileId(absl::string_view id) {
  if (!absl::ConsumePrefix(&id, kIdPrefix) || id.size() != kTimeChars + 2 * kChanceChars)
    return false;
  return id.find_first_not_of(kAlphabet) == absl::string_view::npos;
}

std::string CleanFileName(absl::string_view name) {
  const size_t slash = name.find_last_of("/\\");
  if (slash != absl::string_view::npos) name.remove_prefix(slash + 1);
  std::string clean(name.substr(0, ValidUtf8Length(name.substr(0, kFileNameBytesMax))));
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '_';
  }
  return clean;
}

OpenFile::~OpenFile() { close(fd_); }

absl::StatusOr<size_t> OpenFile::ReadAt(int64_t offset, char* out, size_t size) const {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(fd_, out + done, size - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(absl::StrCat("cannot read a file: ", std::strerror(errno)));
    }
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

FileUpload::FileUpload(FileTable& table, FileOwner owner, std::string id, int64_t created_at_ms,
                       int fd)
    : table_(table),
      owner_(std::move(owner)),
      id_(std::move(id)),
      created_at_ms_(created_at_ms),
      fd_(fd) {}

FileUpload::~FileUpload() {
  if (fd_ >= 0) close(fd_);
  if (kept_) return;
  unlink(PartPath().c_str());
  table_.Uncount(owner_.tenant, counted_);
}

std::string FileUpload::PartPath() const { return absl::StrCat(table_.PathOf(id_), kPartSuffix); }

absl::Status FileUpload::Write(absl::string_view bytes) {
  buffer_.append(bytes.data(), bytes.size());
  return buffer_.size() < kWriteBytes ? absl::OkStatus() : Flush();
}

absl::Status FileUpload::Flush() {
  absl::string_view left = buffer_;
  RETURN_IF_ERROR(table_.Count(owner_, static_cast<int64_t>(left.size())));
  counted_ += static_cast<int64_t>(left.size());
  while (!left.empty()) {
    const ssize_t written = write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("cannot write", PartPath());
    const int64_t before = bytes_ / kWritebackBytes;
    bytes_ += written;
    if (bytes_ / kWritebackBytes != before) {
      sync_file_range(fd_, before * kWritebackBytes, kWritebackBytes, SYNC_FILE_RANGE_WRITE);
    }
    left.remove_prefix(static_cast<size_t>(written));
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::StatusOr<v1::FileRecord> FileUpload::Finish(absl::string_view filename,
                                                  absl::string_view purpose, int64_t lifetime_s) {
  RETURN_IF_ERROR(Flush());
  if (fsync(fd_) != 0) return FileError("cannot sync", PartPath());
  v1::FileRecord record;
  record.set_id(id_);
  record.set_filename(CleanFileName(filename));
  record.set_purpose(purpose.data(), purpose.size());
  record.set_bytes(bytes_);
  record.set_tenant(owner_.tenant);
  record.set_created_at_ms(created_at_ms_);
  if (lifetime_s > 0) record.set_expires_at_ms(created_at_ms_ + lifetime_s * 1000);
  const std::string path = table_.PathOf(id_);
  if (rename(PartPath().c_str(), path.c_str()) != 0) return FileError("cannot name", path);
  kept_ = true;
  absl::Status status = SyncFolder(table_.folder_);
  if (status.ok()) status = table_.Keep(record);
  if (!status.ok()) {
    unlink(path.c_str());
    table_.Uncount(owner_.tenant, counted_);
    return status;
  }
  return record;
}

FileTable::FileTable(Store& store, Clock& clock, std::string folder)
    : store_(store), clock_(clock), folder_(std::move(folder)), random_(Random::FromSystem()) {}

absl::StatusOr<std::unique_ptr<FileTable>> FileTable::Open(Store& store, Clock& clock,
                                                           std::string folder) {
  RETURN_IF_ERROR(MakeFolder(folder));
  std::unique_ptr<FileTable> table(new FileTable(store, clock, std::move(folder)));
  RETURN_IF_ERROR(table->Load());
  RETURN_IF_ERROR(table->RemoveStrays());
  return table;
}

absl::Status FileTable::Load() {
  return ReadRows(store_, kFileRows, [this](absl::string_view key, absl::string_view value) {
    v1::FileRecord record;
    RETURN_IF_ERROR(DecodeRecord(key, value, &record));
    MutexLock lock(&mutex_);
    bytes_[record.tenant()] += record.bytes();
    files_[record.id()] = std::move(record);
    return absl::OkStatus();
  });
}

bool FileTable::Known(const std::string& id) const {
  MutexLock lock(&mutex_);
  return files_.contains(id);
}

absl::Status FileTable::RemoveStrays() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    const absl::string_view stem = absl::StripSuffix(name, kPartSuffix);
    // What is not ours by its name stays.
    if (!IsFileId(stem)) continue;
    if (stem.size() == name.size() && Known(name)) continue;
    if (unlink(entry.path().c_str()) == 0) {
      LogInfo("removed ", entry.path().string(), ", left by an upload that was not finished");
    }
  }
  if (error) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot read the folder ", folder_, ": ", error.message()));
  }
  return absl::OkStatus();
}

std::string FileTable::NewId(int64_t now_ms) {
  MutexLock lock(&mutex_);
  last_id_ms_ = std::max(now_ms, last_id_ms_ + 1);
  std::string id(kIdPrefix);
  AppendBase32(static_cast<uint64_t>(last_id_ms_), kTimeChars, &id);
  AppendBase32(random_.Next(), kChanceChars, &id);
  AppendBase32(random_.Next(), kChanceChars, &id);
  return id;
}

std::string FileTable::PathOf(absl::string_view id) const { return absl::StrCat(folder_, "/", id); }

absl::StatusOr<std::unique_ptr<FileUpload>> FileTable::Begin(FileOwner owner) {
  {
    MutexLock lock(&mutex_);
    if (files_.size() >= kFilesMax) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "There are ", kFilesMax, " files already; delete some, or let them expire."));
    }
  }
  const int64_t now_ms = absl::ToUnixMillis(clock_.WallNow());
  std::string id = NewId(now_ms);
  const std::string path = absl::StrCat(PathOf(id), kPartSuffix);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return FileError("cannot make", path);
  return std::unique_ptr<FileUpload>(
      new FileUpload(*this, std::move(owner), std::move(id), now_ms, fd));
}

absl::Status FileTable::Count(const FileOwner& owner, int64_t bytes) {
  MutexLock lock(&mutex_);
  int64_t& used = bytes_[owner.tenant];
  if (owner.bytes_max > 0 && used + bytes > owner.bytes_max) {
    return TenantLimitError(absl::StrCat("it has ", used, " bytes in files, and ", owner.bytes_max,
                                         " are allowed. Files that are deleted make room."),
                            ExpiryOf(owner.tenant, used + bytes - owner.bytes_max));
  }
  used += bytes;
  return absl::OkStatus();
}

void FileTable::Uncount(const std::string& tenant, int64_t bytes) {
  MutexLock lock(&mutex_);
  bytes_[tenant] -= bytes;
}

absl::Duration FileTable::ExpiryOf(const std::string& tenant, int64_t bytes) const {
  std::vector<std::pair<int64_t, int64_t>> ends;
  for (const auto& [id, record] : files_) {
    if (record.tenant() == tenant && record.expires_at_ms() > 0) {
      ends.emplace_back(record.expires_at_ms(), record.bytes());
    }
  }
  std::sort(ends.begin(), ends.end());
  for (const auto& [at_ms, freed] : ends) {
    bytes -= freed;
    if (bytes <= 0) return absl::FromUnixMillis(at_ms) - clock_.WallNow();
  }
  return absl::InfiniteDuration();
}

absl::Status FileTable::Keep(const v1::FileRecord& record) {
  WriteSet writes;
  PutNewRow(kFileRows, record.id(), record, writes);
  RETURN_IF_ERROR(store_.Commit(std::move(writes)));
  MutexLock lock(&mutex_);
  files_[record.id()] = record;
  return absl::OkStatus();
}

bool FileTable::Expired(const v1::FileRecord& record) const {
  return record.expires_at_ms() > 0 &&
         record.expires_at_ms() <= absl::ToUnixMillis(clock_.WallNow());
}

absl::StatusOr<v1::FileRecord> FileTable::Find(absl::string_view id) const {
  MutexLock lock(&mutex_);
  const auto found = files_.find(std::string(id));
  if (found == files_.end() || Expired(found->second)) {
    return NoSuchFile(id);
  }
  return found->second;
}

std::vector<v1::FileRecord> FileTable::List() const {
  std::vector<v1::FileRecord> list;
  MutexLock lock(&mutex_);
  list.reserve(files_.size());
  for (const auto& [id, record] : files_) {
    if (!Expired(record)) list.push_back(record);
  }
  return list;
}

absl::StatusOr<std::unique_ptr<OpenFile>> FileTable::OpenForReading(absl::string_view id) const {
  ASSIGN_OR_RETURN(const v1::FileRecord record, Find(id));
  const std::string path = PathOf(record.id());
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    // Deleted in between, unless its row is still there.
    RETURN_IF_ERROR(Find(id).status());
    return absl::DataLossError(absl::StrCat(
        path, " is missing although nobody deleted it; delete the file and upload it again"));
  }
  if (fd < 0) return FileError("cannot open", path);
  return std::make_unique<OpenFile>(fd);
}

absl::Status FileTable::Delete(absl::string_view id) {
  ASSIGN_OR_RETURN(const v1::FileRecord record, Find(id));
  return Remove({record.id()});
}

absl::Status FileTable::DeleteAll(const std::vector<std::string>& ids) {
  std::vector<std::string> known;
  for (const std::string& id : ids) {
    if (Known(id)) known.push_back(id);
  }
  return known.empty() ? absl::OkStatus() : Remove(known);
}

absl::Status FileTable::Remove(const std::vector<std::string>& ids) {
  WriteSet writes;
  for (const std::string& id : ids) writes.Delete(Family::kFiles, RowKey(kFileRows, id));
  RETURN_IF_ERROR(store_.Commit(std::move(writes)));
  {
    MutexLock lock(&mutex_);
    for (const std::string& id : ids) {
      const auto found = files_.find(id);
      // Somebody else may have been quicker.
      if (found == files_.end()) continue;
      bytes_[found->second.tenant()] -= found->second.bytes();
      files_.erase(found);
    }
  }
  // Should this fail, the next start finds it.
  for (const std::string& id : ids) unlink(PathOf(id).c_str());
  return absl::OkStatus();
}

void FileTable::Sweep() {
  std::vector<std::string> expired;
  {
    MutexLock lock(&mutex_);
    for (const auto& [id, record] : files_) {
      if (Expired(record)) expired.push_back(id);
    }
  }
  if (expired.empty()) return;
  if (const absl::Status status = Remove(expired); !status.ok()) {
    LogWarning("files that have expired stay for now: ", status.ToString());
  }
}

}  // namespace nightshift
