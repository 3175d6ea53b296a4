// Keeping and forgetting. What is there at the start: spool_open.cc.
#include "worker/spool/spool.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "worker/spool/frame.h"

namespace nightshift {
namespace {

// After a failed write (the disk is full), until it is tried again.
constexpr absl::Duration kWriteAgainAfter = absl::Seconds(1);
// The next file is still in the making: when it is asked for again.
constexpr absl::Duration kFileAgainAfter = absl::Milliseconds(20);
// A buffer that a burst has made larger than this is given back.
constexpr size_t kBufferBytesKept = size_t{1} << 20;

}  // namespace

Spool::~Spool() {
  WriteOut();
  if (kept() > 0) {
    LogWarning(WithCommas(kept()), " answers that the coordinator has not recorded are kept in ",
               options_.folder, ": the next worker with this --spool-dir delivers them");
  } else {
    for (const Segment& segment : segments_) RemoveFile(segment);
  }
}

std::vector<KeptResult> Spool::Use(const std::string& store) {
  WriteOut();
  // A file without a byte belongs to nobody yet.
  std::shared_ptr<SpoolFile> unused;
  if (!segments_.empty() && segments_.back().bytes == 0 && segments_.back().kept.empty()) {
    unused = std::move(segments_.back().file);
    segments_.pop_back();
  }
  for (Segment& segment : segments_) others_.push_back(std::move(segment));
  segments_.clear();
  store_ = store;
  std::deque<Segment> rest;
  for (Segment& segment : others_) {
    (segment.store == store ? segments_ : rest).push_back(std::move(segment));
  }
  others_ = std::move(rest);

  std::vector<KeptResult> found;
  bytes_ = 0;
  for (Segment& segment : segments_) {
    bytes_ += segment.bytes;
    for (KeptResult& result : ReadKept(&segment)) found.push_back(std::move(result));
  }
  Begin(unused != nullptr ? std::move(unused) : disk_->TakeFile());
  RemoveForgotten(&segments_, /*but_last=*/true);
  return found;
}

void Spool::Begin(std::shared_ptr<SpoolFile> file) {
  Segment& segment = segments_.emplace_back();
  segment.store = store_;
  if (file != nullptr) segment.path = file->path;
  segment.file = std::move(file);
}

uint64_t Spool::Keep(const v1::AttemptResult& result) {
  NIGHTSHIFT_CHECK(!segments_.empty(), "an answer without a store");
  AppendResult(++last_number_, store_, result, &buffer_);
  segments_.back().kept.insert(last_number_);
  return last_number_;
}

void Spool::Forget(uint64_t number) {
  for (Segment& segment : segments_) {
    if (segment.kept.erase(number) == 0) continue;
    forgotten_.push_back(number);
    return;
  }
}

void Spool::WriteOut() {
  if (!forgotten_.empty()) AppendForgot(store_, forgotten_, &buffer_);
  forgotten_.clear();
  std::string error;
  if (!buffer_.empty() && !Write(&error)) {
    LogError("the spool ", error, "; its last answers are lost, their requests are called again");
  }
  buffer_.clear();
}

MonotonicTime Spool::Flush(MonotonicTime now) {
  if (!forgotten_.empty()) {
    AppendForgot(store_, forgotten_, &buffer_);
    forgotten_.clear();
  }
  if (!failing_.empty()) {
    if (now < retry_at_) return retry_at_;
    if (Oldest() == UINT64_MAX) {
      // Nothing to save any more: a frame that says nothing finds out whether the disk is well.
      buffer_.clear();
      AppendForgot(store_, {}, &buffer_);
    }
  }
  if (!buffer_.empty()) {
    if (!HasFile()) return now + kFileAgainAfter;
    std::string error;
    if (!Write(&error)) {
      OnFailed(error, now);
      return retry_at_;
    }
    OnWritten();
  }
  return Tidy() ? MonotonicTime::Infinite() : now + kFileAgainAfter;
}

bool Spool::HasFile() {
  Segment& segment = segments_.back();
  if (segment.file == nullptr) {
    segment.file = disk_->TakeFile();
    if (segment.file != nullptr) segment.path = segment.file->path;
  }
  return segment.file != nullptr;
}

bool Spool::Write(std::string* error) {
  Segment& segment = segments_.back();
  if (!HasFile()) {
    *error = absl::StrCat("has no file in ", options_.folder);
    return false;
  }
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t wrote = write(segment.file->fd, buffer_.data() + done, buffer_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      *error = absl::StrCat("cannot write to ", segment.path, ": ", std::strerror(errno));
      // Else the next try would begin behind half a frame, which costs nobody but looks bad.
      if (done > 0 && ftruncate(segment.file->fd, segment.bytes) != 0) {
        segment.bytes += static_cast<int64_t>(done);
        bytes_ += static_cast<int64_t>(done);
      }
      return false;
    }
    done += static_cast<size_t>(wrote);
  }
  segment.bytes += static_cast<int64_t>(done);
  bytes_ += static_cast<int64_t>(done);
  disk_->Written(segment.file, Oldest(), last_number_);
  return true;
}

void Spool::OnWritten() {
  buffer_.clear();
  if (buffer_.capacity() > kBufferBytesKept) buffer_.shrink_to_fit();
  if (!failing_.empty()) {
    failing_.clear();
    LogWarning("the spool ", options_.folder, " can be written to again; calls go on");
  }
}

bool Spool::Tidy() {
  if (segments_.empty()) return true;
  bool has_file = true;
  if (segments_.back().bytes >= options_.file_bytes) {
    std::shared_ptr<SpoolFile> next = disk_->TakeFile();
    has_file = next != nullptr;
    if (has_file) Begin(std::move(next));
  }
  if (segments_.front().kept.empty()) RemoveForgotten(&segments_, /*but_last=*/true);
  const bool full = bytes_ >= options_.bytes_max;
  if (full && !told_full_) {
    LogWarning("the spool ", options_.folder, " has reached ", HumanSize(options_.bytes_max),
               ": no new call starts until the coordinator has recorded some of its ",
               WithCommas(kept()), " answers");
  }
  told_full_ = full;
  return has_file;
}

void Spool::OnFailed(const std::string& error, MonotonicTime now) {
  retry_at_ = now + kWriteAgainAfter;
  if (failing_.empty()) {
    LogError("the spool ", error,
             ". No new call starts until it can be written; answers in hand stay in memory and are "
             "delivered. Make room, or start the worker with another --spool-dir");
  }
  failing_ = error;
}

void Spool::RemoveForgotten(std::deque<Segment>* segments, bool but_last) {
  // Later files of a store say what of the earlier ones is forgotten, so they go in order.
  std::vector<std::string> kept_stores;
  std::deque<Segment> left;
  for (size_t i = 0; i < segments->size(); ++i) {
    Segment& segment = (*segments)[i];
    const bool last = but_last && i + 1 == segments->size();
    const bool needed = !segment.kept.empty() || std::find(kept_stores.begin(), kept_stores.end(),
                                                           segment.store) != kept_stores.end();
    if (needed) kept_stores.push_back(segment.store);
    if (needed || last) {
      left.push_back(std::move(segment));
      continue;
    }
    if (segments == &segments_) bytes_ -= segment.bytes;
    RemoveFile(segment);
  }
  *segments = std::move(left);
}

void Spool::RemoveFile(const Segment& segment) {
  if (!segment.unreadable && !segment.path.empty()) disk_->Remove(segment.path);
}

uint64_t Spool::Oldest() const {
  for (const Segment& segment : segments_) {
    if (!segment.kept.empty()) return *segment.kept.begin();
  }
  return UINT64_MAX;
}

bool Spool::Blocked() const {
  return !failing_.empty() || bytes_ >= options_.bytes_max || disk_->failed() || NeedsFile();
}

std::string Spool::WaitingFor() const {
  if (disk_->failed()) return absl::StrCat("a person: the spool ", disk_->failure());
  if (!failing_.empty()) return absl::StrCat("room on its disk: the spool ", failing_);
  if (NeedsFile()) return absl::StrCat("room on its disk: no new file in ", options_.folder);
  if (bytes_ < options_.bytes_max) return "";
  return absl::StrCat("the coordinator to record ", WithCommas(kept()), " answers: the spool ",
                      options_.folder, " is full (", HumanSize(bytes_), ")");
}

int64_t Spool::kept() const {
  int64_t count = 0;
  for (const Segment& segment : segments_) count += static_cast<int64_t>(segment.kept.size());
  return count;
}

int64_t Spool::kept_for_others() const {
  int64_t count = 0;
  for (const Segment& segment : others_) count += static_cast<int64_t>(segment.kept.size());
  return count;
}

}  // namespace nightshift
