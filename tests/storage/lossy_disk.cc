#include "tests/storage/lossy_disk.h"

#include <rocksdb/file_system.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "base/check.h"
#include "tests/storage/sleepless_env.h"

namespace nightshift {
namespace {

namespace fs = std::filesystem;
using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// The lock of the process and RocksDB's info log and lock: nothing that a store is read from.
bool IsLookedAfter(const std::string& name) {
  return !absl::StartsWith(name, "LOG") && name != "LOCK" && name != "nightshift.lock";
}

class LossyFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LossyFile(std::unique_ptr<rocksdb::FSWritableFile> file, LossyDisk::File content, LossyDisk& disk)
      : FSWritableFileOwnerWrapper(std::move(file)), content_(std::move(content)), disk_(disk) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* context) override {
    IOStatus status = FSWritableFileOwnerWrapper::Append(data, options, context);
    if (status.ok()) disk_.OnAppend(*content_, data.data(), data.size());
    return status;
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& /*check*/,
                  IODebugContext* context) override {
    return Append(data, options, context);
  }
  IOStatus PositionedAppend(const Slice& /*data*/, uint64_t /*offset*/,
                            const IOOptions& /*options*/, IODebugContext* /*context*/) override {
    return IOStatus::NotSupported("only direct writes do this");
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const rocksdb::DataVerificationInfo& /*check*/,
                            IODebugContext* context) override {
    return PositionedAppend(data, offset, options, context);
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* context) override {
    IOStatus status = FSWritableFileOwnerWrapper::Truncate(size, options, context);
    if (status.ok()) disk_.OnTruncate(*content_, size);
    return status;
  }
  // The machine's own disk is not synced: only the model decides what survives.
  IOStatus Sync(const IOOptions& /*options*/, IODebugContext* /*context*/) override {
    disk_.OnSync(*content_);
    return IOStatus::OK();
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override {
    return Sync(options, context);
  }
  // A hint to write soon, which promises nothing.
  IOStatus RangeSync(uint64_t /*offset*/, uint64_t /*bytes*/, const IOOptions& /*options*/,
                     IODebugContext* /*context*/) override {
    return IOStatus::OK();
  }

 private:
  const LossyDisk::File content_;
  LossyDisk& disk_;
};

class LossyFolder final : public rocksdb::FSDirectoryWrapper {
 public:
  LossyFolder(std::unique_ptr<rocksdb::FSDirectory> folder, std::string path, LossyDisk& disk)
      : FSDirectoryWrapper(std::move(folder)), path_(std::move(path)), disk_(disk) {}

  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*context*/) override {
    disk_.OnFolderSync(path_);
    return IOStatus::OK();
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* context,
                               const rocksdb::DirFsyncOptions& /*why*/) override {
    return Fsync(options, context);
  }

 private:
  const std::string path_;
  LossyDisk& disk_;
};

class LossyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit LossyFileSystem(LossyDisk& disk)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), disk_(disk) {}

  const char* Name() const override { return "LossyFileSystem"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    IOStatus status = FileSystemWrapper::NewWritableFile(path, options, &file, context);
    if (!status.ok()) return status;
    LossyDisk::File content;
    disk_.OnCreate(path, &content);
    return Wrap(std::move(file), std::move(content), result);
  }
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    IOStatus status = FileSystemWrapper::ReopenWritableFile(path, options, &file, context);
    if (!status.ok()) return status;
    LossyDisk::File content;
    disk_.OnReopen(path, &content);
    return Wrap(std::move(file), std::move(content), result);
  }
  IOStatus ReuseWritableFile(const std::string& /*path*/, const std::string& /*old_path*/,
                             const FileOptions& /*options*/,
                             std::unique_ptr<rocksdb::FSWritableFile>* /*result*/,
                             IODebugContext* /*context*/) override {
    return IOStatus::NotSupported("no logs are recycled");
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result,
                        IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSDirectory> folder;
    IOStatus status = FileSystemWrapper::NewDirectory(path, options, &folder, context);
    if (status.ok()) *result = std::make_unique<LossyFolder>(std::move(folder), path, disk_);
    return status;
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* context) override {
    IOStatus status = FileSystemWrapper::DeleteFile(path, options, context);
    if (status.ok()) disk_.OnDelete(path);
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* context) override {
    IOStatus status = FileSystemWrapper::RenameFile(from, to, options, context);
    if (status.ok()) disk_.OnRename(from, to);
    return status;
  }
  IOStatus LinkFile(const std::string& /*from*/, const std::string& /*to*/,
                    const IOOptions& /*options*/, IODebugContext* /*context*/) override {
    return IOStatus::NotSupported("not modelled");
  }
  IOStatus Truncate(const std::string& /*path*/, size_t /*size*/, const IOOptions& /*options*/,
                    IODebugContext* /*context*/) override {
    return IOStatus::NotSupported("not modelled");
  }

 private:
  IOStatus Wrap(std::unique_ptr<rocksdb::FSWritableFile> file, LossyDisk::File content,
                std::unique_ptr<rocksdb::FSWritableFile>* result) {
    if (content == nullptr) {
      *result = std::move(file);
    } else {
      *result = std::make_unique<LossyFile>(std::move(file), std::move(content), disk_);
    }
    return IOStatus::OK();
  }

  LossyDisk& disk_;
};

// Of a path within the folder; empty for the folder itself.
std::string FolderOf(const std::string& name) { return fs::path(name).parent_path().string(); }

std::string ReadWhole(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

LossyDisk::LossyDisk(std::string folder, const LossyDiskOptions& options)
    : folder_(fs::path(folder).lexically_normal().string()),
      options_(options),
      random_(options.seed),
      cut_at_(options.cut_at) {
  {
    MutexLock lock(&mutex_);
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = NameOf(entry.path().string());
      if (name.empty()) continue;
      auto file = std::make_shared<Content>();
      file->bytes = ReadWhole(entry.path());
      file->synced = file->bytes.size();
      entries_[name] = file;
      on_disk_[name] = std::move(file);
    }
  }
  env_ = std::make_unique<SleeplessEnv>(std::make_shared<LossyFileSystem>(*this));
}

LossyDisk::~LossyDisk() = default;

int64_t LossyDisk::operations() const {
  MutexLock lock(&mutex_);
  return operations_;
}

std::string LossyDisk::NameOf(const std::string& path) const {
  const fs::path whole = fs::path(path).lexically_normal();
  const std::string name = whole.lexically_relative(folder_).string();
  NIGHTSHIFT_CHECK(!name.empty() && !absl::StartsWith(name, ".."), "a file outside the folder");
  return IsLookedAfter(whole.filename().string()) ? name : "";
}

bool LossyDisk::Counts() {
  if (!off_ && ++operations_ >= cut_at_) CutLocked();
  return !off_;
}

void LossyDisk::Apply(const Change& change, Entries& entries) {
  for (const std::string& name : change.removed) entries.erase(name);
  for (const auto& [name, file] : change.added) entries[name] = file;
}

void LossyDisk::Make(Change change) {
  Apply(change, entries_);
  changes_.push_back(std::move(change));
}

void LossyDisk::OnCreate(const std::string& path, File* file) {
  const std::string name = NameOf(path);
  if (name.empty()) return;
  *file = std::make_shared<Content>();
  MutexLock lock(&mutex_);
  if (Counts()) Make({{}, {{name, *file}}, {FolderOf(name)}});
}

void LossyDisk::OnReopen(const std::string& path, File* file) {
  const std::string name = NameOf(path);
  if (name.empty()) return;
  {
    MutexLock lock(&mutex_);
    const auto entry = entries_.find(name);
    if (entry != entries_.end()) {
      *file = entry->second;
      return;
    }
  }
  OnCreate(path, file);
}

void LossyDisk::OnAppend(Content& file, const char* data, size_t size) {
  MutexLock lock(&mutex_);
  if (Counts()) file.bytes.append(data, size);
}

void LossyDisk::OnTruncate(Content& file, size_t size) {
  MutexLock lock(&mutex_);
  if (!Counts()) return;
  file.bytes.resize(size);
  file.synced = std::min(file.synced, size);
}

void LossyDisk::OnSync(Content& file) {
  MutexLock lock(&mutex_);
  if (Counts() && !options_.syncs_lie) file.synced = file.bytes.size();
}

void LossyDisk::OnRename(const std::string& from, const std::string& to) {
  const std::string old_name = NameOf(from);
  const std::string name = NameOf(to);
  if (old_name.empty() || name.empty()) return;
  MutexLock lock(&mutex_);
  if (!Counts()) return;
  Change change;
  change.folders = {FolderOf(old_name), FolderOf(name)};
  for (const auto& [known, file] : entries_) {
    if (known != old_name && !absl::StartsWith(known, old_name + "/")) continue;
    change.removed.push_back(known);
    change.added.emplace_back(name + known.substr(old_name.size()), file);
  }
  NIGHTSHIFT_CHECK(!change.added.empty(), "a file that was never made is renamed");
  Make(std::move(change));
}

void LossyDisk::OnDelete(const std::string& path) {
  const std::string name = NameOf(path);
  if (name.empty()) return;
  MutexLock lock(&mutex_);
  if (Counts()) Make({{name}, {}, {FolderOf(name)}});
}

void LossyDisk::OnFolderSync(const std::string& path) {
  // Backups name their folders with a slash at the end.
  std::string folder = fs::path(path).lexically_normal().lexically_relative(folder_).string();
  while (folder.ends_with('/')) folder.pop_back();
  if (folder == ".") folder.clear();
  MutexLock lock(&mutex_);
  if (!Counts() || options_.folder_syncs_lie) return;
  std::vector<Change> still_waiting;
  for (Change& change : changes_) {
    if (std::find(change.folders.begin(), change.folders.end(), folder) == change.folders.end()) {
      still_waiting.push_back(std::move(change));
    } else {
      Apply(change, on_disk_);
    }
  }
  changes_ = std::move(still_waiting);
}

void LossyDisk::CutIn(int64_t n) {
  MutexLock lock(&mutex_);
  cut_at_ = operations_ + n;
}

void LossyDisk::Cut() {
  MutexLock lock(&mutex_);
  if (!off_) CutLocked();
}

void LossyDisk::CutLocked() {
  // The worst case half of the time: nothing survives but what was synced.
  const bool worst = random_.Chance(0.5);
  Entries entries = on_disk_;
  const size_t kept = worst ? 0 : random_.Below(changes_.size() + 1);
  for (size_t i = 0; i < kept; ++i) Apply(changes_[i], entries);
  for (const auto& [name, file] : entries) {
    const size_t unsynced = file->bytes.size() - file->synced;
    const size_t torn = worst ? 0 : random_.Below(unsynced + 1);
    survivors_[name] = file->bytes.substr(0, file->synced + torn);
  }
  off_ = true;
}

void LossyDisk::Restore() {
  Cut();
  MutexLock lock(&mutex_);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (IsLookedAfter(entry.path().filename().string())) fs::remove_all(entry.path());
  }
  for (const auto& [name, bytes] : survivors_) {
    fs::create_directories((fs::path(folder_) / name).parent_path());
    std::ofstream(fs::path(folder_) / name, std::ios::binary) << bytes;
  }
}

}  // namespace nightshift
