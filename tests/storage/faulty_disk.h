// A disk under RocksDB that fails when told to.
#ifndef NIGHTSHIFT_TESTS_STORAGE_FAULTY_DISK_H_
#define NIGHTSHIFT_TESTS_STORAGE_FAULTY_DISK_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

namespace nightshift {

// Which operation on which files fails. Thread-safe; switch it at any time.
struct DiskFaults {
  std::atomic<bool> log_sync{false};      // EIO from the sync of a log
  std::atomic<bool> log_append{false};    // ENOSPC from an append to a log
  std::atomic<bool> table_append{false};  // EIO from an append to a table
};

class FaultyFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile> file, const std::string& name,
             DiskFaults* faults)
      : FSWritableFileOwnerWrapper(std::move(file)),
        log_(name.ends_with(".log")),
        table_(name.ends_with(".sst")),
        faults_(faults) {}

  using FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    if (log_ && faults_->log_append) return rocksdb::IOStatus::NoSpace("injected");
    if (table_ && faults_->table_append) return rocksdb::IOStatus::IOError("injected");
    return FSWritableFileOwnerWrapper::Append(data, options, context);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    if (log_ && faults_->log_sync) return rocksdb::IOStatus::IOError("injected");
    return FSWritableFileOwnerWrapper::Sync(options, context);
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
    return Sync(options, context);
  }

 private:
  const bool log_;
  const bool table_;
  DiskFaults* const faults_;
};

class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(DiskFaults* faults)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), faults_(faults) {}

  const char* Name() const override { return "FaultyFileSystem"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &file, context);
    if (status.ok()) *result = std::make_unique<FaultyFile>(std::move(file), name, faults_);
    return status;
  }

 private:
  DiskFaults* const faults_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_STORAGE_FAULTY_DISK_H_
