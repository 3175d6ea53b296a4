// What a spool finds in its folder.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "worker/spool/frame.h"
#include "worker/spool/spool.h"

namespace nightshift {
namespace {

constexpr absl::string_view kFlag = "--spool-dir";
// More than the numbers of any file.
constexpr uint64_t kUnseenNumbers = uint64_t{1} << 32;

// Files by the number in their name, which is their order.
std::vector<std::pair<uint64_t, std::string>> ListFiles(const std::string& folder) {
  std::vector<std::pair<uint64_t, std::string>> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view number = name;
    uint64_t value = 0;
    if (absl::ConsumePrefix(&number, "answers-") && absl::ConsumeSuffix(&number, ".spool") &&
        absl::SimpleAtoi(number, &value)) {
      files.emplace_back(value, entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// As much as can be read to *bytes; false when that is not all, which it says.
bool ReadAll(const std::string& path, std::string* bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    LogWarning("cannot read ", path, ": ", std::strerror(errno), "; its answers stay there");
    return false;
  }
  constexpr size_t kStep = size_t{1} << 20;
  ssize_t got = 0;
  do {
    const size_t had = bytes->size();
    bytes->resize(had + kStep);
    got = read(fd, bytes->data() + had, kStep);
    const int error = errno;
    bytes->resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error != EINTR) {
      LogWarning("cannot read all of ", path, ": ", std::strerror(error),
                 "; what is not read stays there");
      break;
    }
  } while (got != 0);
  close(fd);
  return got == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Spool>> Spool::Open(SpoolOptions options) {
  ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Acquire(options.folder, kFlag));
  std::unique_ptr<Spool> spool(new Spool(std::move(options), std::move(lock)));
  RETURN_IF_ERROR(spool->Load());
  return spool;
}

bool Spool::HoldsAnswers(const std::string& folder) {
  const auto files = ListFiles(folder);
  return std::any_of(files.begin(), files.end(), [](const auto& file) {
    std::error_code error;
    return std::filesystem::file_size(file.second, error) > 0 && !error;
  });
}

absl::Status Spool::Load() {
  uint64_t next_file = 1;
  for (const auto& [number, path] : ListFiles(options_.folder)) {
    LoadFile(path);
    next_file = number + 1;
  }
  ASSIGN_OR_RETURN(disk_, SpoolDisk::Start(options_.folder, next_file, options_.sync_after));
  RemoveForgotten(&others_, /*but_last=*/false);
  RemoveOldestOfOthers();
  return absl::OkStatus();
}

void Spool::LoadFile(const std::string& path) {
  std::string bytes;
  Segment segment;
  segment.path = path;
  segment.unreadable = !ReadAll(path, &bytes);
  segment.bytes = static_cast<int64_t>(bytes.size());
  int64_t strangers = 0;
  bool first = true;
  ScanReport report = ScanFrames(bytes, [&](const Frame& frame) {
    if (std::exchange(first, false)) segment.store = std::string(frame.store);
    if (absl::string_view(segment.store) != frame.store) {
      ++strangers;  // no file of ours is for two stores
      return;
    }
    last_number_ = std::max(last_number_, frame.number);
    if (frame.kind == Frame::Kind::kResult) {
      segment.kept.insert(frame.number);
      return;
    }
    ForEachForgotten(frame, [&](uint64_t number) {
      last_number_ = std::max(last_number_, number);
      segment.kept.erase(number);
      for (Segment& earlier : others_) {
        if (earlier.store == segment.store) earlier.kept.erase(number);
      }
    });
  });
  const bool foreign = report.frames == 0 && report.damaged_places > 0;
  if (foreign) {
    LogWarning(path, " holds nothing that this version can read; it is left as it is");
  } else if (report.damaged_places + strangers > 0) {
    LogWarning(path, " is damaged in ", report.damaged_places + strangers, " places (",
               HumanSize(report.damaged_bytes),
               "): what is whole in it is delivered, the requests of the rest are called again");
  }
  if (report.torn_bytes > 0 && !segment.unreadable) {
    LogInfo(path, " ends in half an answer: the last worker died while it wrote it");
  }
  if (report.gave_up) LogWarning(path, " is damaged too much to be read whole; it is left there");
  segment.unreadable = segment.unreadable || foreign || report.gave_up;
  // When it can be read one day, its numbers must not be those of answers that were forgotten
  // since.
  if (segment.unreadable) last_number_ += kUnseenNumbers;
  others_.push_back(std::move(segment));
}

void Spool::RemoveOldestOfOthers() {
  int64_t bytes = 0;
  for (const Segment& segment : others_) bytes += segment.bytes;
  std::deque<Segment> left;
  for (size_t i = 0; i < others_.size(); ++i) {
    Segment& oldest = others_[i];
    // The newest file's store is most likely the one that is met next.
    const bool newest = i + 1 == others_.size();
    if (newest || oldest.unreadable || bytes <= options_.other_bytes_max) {
      left.push_back(std::move(oldest));
      continue;
    }
    LogWarning("the spool ", options_.folder, " holds ", HumanSize(bytes),
               ": its oldest file, with ", oldest.kept.size(), " answers for store ", oldest.store,
               ", is removed");
    bytes -= oldest.bytes;
    RemoveFile(oldest);
  }
  others_ = std::move(left);
}

std::string Spool::LastStore() const {
  if (!segments_.empty()) return store_;
  for (auto segment = others_.rbegin(); segment != others_.rend(); ++segment) {
    if (!segment->kept.empty()) return segment->store;
  }
  return "";
}

std::vector<KeptResult> Spool::ReadKept(Segment* segment) {
  std::vector<KeptResult> found;
  if (segment->kept.empty()) return found;
  std::string bytes;
  if (!ReadAll(segment->path, &bytes)) segment->unreadable = true;
  absl::btree_set<uint64_t> read;
  ScanFrames(bytes, [&](const Frame& frame) {
    if (frame.kind != Frame::Kind::kResult || segment->kept.count(frame.number) == 0) return;
    KeptResult kept;
    kept.number = frame.number;
    if (!kept.result.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()))) {
      LogWarning("an answer in ", segment->path, " cannot be read: its request is called again");
      return;
    }
    if (read.insert(frame.number).second) found.push_back(std::move(kept));
  });
  segment->kept = std::move(read);
  return found;
}

}  // namespace nightshift
