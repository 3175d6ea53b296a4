#include "worker/spool/spool_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/thread_name.h"

namespace nightshift {
namespace {

constexpr mode_t kFileMode = 0600;
// Making a file has failed (the disk is full): when it is tried again.
constexpr absl::Duration kMakeAgainAfter = absl::Seconds(1);

}  // namespace

SpoolFile::~SpoolFile() {
  if (fd >= 0) close(fd);
}

absl::StatusOr<std::unique_ptr<SpoolDisk>> SpoolDisk::Start(std::string folder, uint64_t next_file,
                                                            absl::Duration sync_after) {
  std::unique_ptr<SpoolDisk> disk(new SpoolDisk(std::move(folder), next_file, sync_after / 2));
  ASSIGN_OR_RETURN(std::shared_ptr<SpoolFile> first, disk->MakeFile());
  {
    MutexLock lock(&disk->mutex_);
    disk->spare_ = std::move(first);
  }
  disk->thread_ = std::thread([raw = disk.get()] { raw->Run(); });
  return disk;
}

SpoolDisk::~SpoolDisk() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::shared_ptr<SpoolFile>> SpoolDisk::MakeFile() {
  std::string path = absl::StrFormat("%s/answers-%08d.spool", folder_, next_file_);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, kFileMode);
  if (fd < 0) {
    return absl::UnavailableError(absl::StrCat("cannot make ", path, ": ", std::strerror(errno)));
  }
  ++next_file_;
  auto file = std::make_shared<SpoolFile>(std::move(path), fd);
  RETURN_IF_ERROR(SyncFolder(folder_, "--spool-dir"));
  return file;
}

std::shared_ptr<SpoolFile> SpoolDisk::TakeFile() {
  MutexLock lock(&mutex_);
  std::shared_ptr<SpoolFile> file = std::move(spare_);
  spare_ = nullptr;
  changed_.Signal();
  return file;
}

void SpoolDisk::Written(const std::shared_ptr<SpoolFile>& file, uint64_t oldest, uint64_t written) {
  MutexLock lock(&mutex_);
  oldest_ = oldest;
  written_ = written;
  if (unsynced_.empty() || unsynced_.back() != file) unsynced_.push_back(file);
  // A signal costs more than all the rest: only for a thread that does not look by itself.
  if (waiting_ && !policy_.Idle(oldest_, written_)) changed_.Signal();
}

void SpoolDisk::Remove(std::string path) {
  MutexLock lock(&mutex_);
  std::erase_if(unsynced_, [&](const auto& file) { return file->path == path; });
  to_remove_.push_back(std::move(path));
  changed_.Signal();
}

std::string SpoolDisk::failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

int64_t SpoolDisk::syncs() const {
  MutexLock lock(&mutex_);
  return syncs_;
}

void SpoolDisk::AwaitRemoved() {
  MutexLock lock(&mutex_);
  while (removing_ || !to_remove_.empty()) removed_.Wait(&mutex_);
}

void SpoolDisk::Run() {
  NameThisThread("ns-spool");
  const Clock& clock = Clock::Real();
  MutexLock lock(&mutex_);
  while (!stopping_) {
    RemoveFiles();
    MakeSpare();
    if (policy_.Look(clock.Now(), oldest_, written_)) Sync();
    // A spare that was taken while the disk was at work here is missed already; one that could not
    // be made is tried again later.
    if (stopping_ || !to_remove_.empty() || (spare_ == nullptr && !told_)) continue;
    const bool idle = policy_.Idle(oldest_, written_) && spare_ != nullptr;
    waiting_ = idle;
    changed_.WaitFor(&mutex_, idle                ? absl::InfiniteDuration()
                              : spare_ == nullptr ? kMakeAgainAfter
                                                  : policy_.next_look() - clock.Now());
    waiting_ = false;
  }
  if (spare_ != nullptr) to_remove_.push_back(spare_->path);
  RemoveFiles();
  if (!policy_.Idle(oldest_, written_)) Sync();
}

void SpoolDisk::MakeSpare() {
  if (spare_ != nullptr) return;
  mutex_.Unlock();
  absl::StatusOr<std::shared_ptr<SpoolFile>> made = MakeFile();
  mutex_.Lock();
  if (made.ok()) {
    spare_ = *std::move(made);
    told_ = false;
  } else if (!std::exchange(told_, true)) {
    LogWarning("the spool goes on with the file it has: ", made.status().message());
  }
}

void SpoolDisk::RemoveFiles() {
  std::vector<std::string> paths = std::exchange(to_remove_, {});
  if (paths.empty()) return;
  removing_ = true;
  mutex_.Unlock();
  for (const std::string& path : paths) {
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
      LogWarning("cannot remove ", path, ", which is needed no more: ", std::strerror(errno));
    }
  }
  mutex_.Lock();
  removing_ = false;
  removed_.SignalAll();
}

void SpoolDisk::Sync() {
  if (failed()) return;
  const std::vector<std::shared_ptr<SpoolFile>> files = std::exchange(unsynced_, {});
  const uint64_t through = written_;
  ++syncs_;
  mutex_.Unlock();
  std::string error;
  for (const std::shared_ptr<SpoolFile>& file : files) {
    if (fdatasync(file->fd) != 0) {
      error = absl::StrCat("cannot sync ", file->path, ": ", std::strerror(errno));
    }
  }
  mutex_.Lock();
  policy_.Synced(through);
  if (error.empty()) return;
  failure_ = error;
  failed_.store(true, std::memory_order_release);
  mutex_.Unlock();
  LogError(error,
           ". Answers that the coordinator has not recorded may not survive a loss of power, so no "
           "new call starts; those in hand are delivered. Look at the disk and start the worker "
           "again");
  mutex_.Lock();
}

}  // namespace nightshift
