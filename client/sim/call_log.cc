#include "client/sim/call_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"
#include "base/log.h"

namespace nightshift {
namespace {

// Beyond this much unwritten text, calls wait for the disk.
constexpr size_t kPendingBytesMax = size_t{16} << 20;

std::string Line(const CallLogEntry& entry) {
  std::string line = absl::StrFormat(
      "{\"time\":%.6f,\"ms\":%.3f,\"path\":\"%s\",\"status\":%d,\"how\":\"%s\",\"call\":%d,"
      "\"mark\":\"%s\",\"key\":",
      absl::ToDoubleSeconds(entry.started - absl::UnixEpoch()),
      absl::ToDoubleMilliseconds(entry.took), entry.path, entry.status, entry.how, entry.call,
      entry.mark);
  AppendJsonString(line, entry.key);
  line += "}\n";
  return line;
}

void WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      LogError("cannot write the log of the simulated server: ", std::strerror(errno));
      return;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<CallLog>> CallLog::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot write the log ", path, ": ", std::strerror(errno)));
  }
  return std::unique_ptr<CallLog>(new CallLog(fd));
}

CallLog::CallLog(int fd) : fd_(fd), thread_([this] { Run(); }) {}

CallLog::~CallLog() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
  close(fd_);
}

void CallLog::Append(const CallLogEntry& entry) {
  const std::string line = Line(entry);
  MutexLock lock(&mutex_);
  while (pending_.size() > kPendingBytesMax) changed_.Wait(&mutex_);
  if (pending_.empty() && !writing_) changed_.SignalAll();
  pending_ += line;
}

void CallLog::Flush() {
  MutexLock lock(&mutex_);
  while (!pending_.empty() || writing_) changed_.Wait(&mutex_);
}

void CallLog::Run() {
  std::string lines;
  while (true) {
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      changed_.SignalAll();
      while (pending_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (pending_.empty()) return;
      lines.clear();
      lines.swap(pending_);
      writing_ = true;
    }
    WriteAll(fd_, lines);
  }
}

}  // namespace nightshift
