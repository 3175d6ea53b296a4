// A disk under RocksDB that fails when told to.
#ifndef NIGHTSHIFT_TESTS_STORAGE_FAULTY_DISK_H_
#define NIGHTSHIFT_TESTS_STORAGE_FAULTY_DISK_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/random.h"

namespace nightshift {

// Which operation on which files fails. Thread-safe; switch it at any time.
struct DiskFaults {
  explicit DiskFaults(uint64_t seed = 0) : random(seed) {}

  std::atomic<bool> log_sync{false};      // EIO from the sync of a log
  std::atomic<bool> log_append{false};    // ENOSPC from an append to a log
  std::atomic<bool> table_append{false};  // EIO from an append to a table
  // EIO from a read, append or sync of any file, once in so many; 0: never.
  std::atomic<uint64_t> one_in{0};
  // For speed, where nothing rests on them.
  std::atomic<bool> skip_syncs{false};

  bool Strikes() {
    if (one_in == 0) return false;
    MutexLock lock(&mutex);
    return random.Below(one_in) == 0;
  }

  Mutex mutex;
  Random random ABSL_GUARDED_BY(mutex);
};

inline rocksdb::IOStatus InjectedError() { return rocksdb::IOStatus::IOError("injected"); }

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
    if ((table_ && faults_->table_append) || faults_->Strikes()) return InjectedError();
    return FSWritableFileOwnerWrapper::Append(data, options, context);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    if ((log_ && faults_->log_sync) || faults_->Strikes()) return InjectedError();
    if (faults_->skip_syncs) return rocksdb::IOStatus::OK();
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

class FaultyTable final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  FaultyTable(std::unique_ptr<rocksdb::FSRandomAccessFile> file, DiskFaults* faults)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), faults_(faults) {}

  rocksdb::IOStatus Read(uint64_t offset, size_t size, const rocksdb::IOOptions& options,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* context) const override {
    if (faults_->Strikes()) return InjectedError();
    return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, context);
  }

 private:
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
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                        rocksdb::IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    rocksdb::IOStatus status =
        FileSystemWrapper::NewRandomAccessFile(name, options, &file, context);
    if (status.ok()) *result = std::make_unique<FaultyTable>(std::move(file), faults_);
    return status;
  }

 private:
  DiskFaults* const faults_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_STORAGE_FAULTY_DISK_H_
