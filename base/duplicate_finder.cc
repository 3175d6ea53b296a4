#include "base/duplicate_finder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <queue>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "xxhash.h"

namespace nightshift {
namespace {

// Records that are read at once from each run while merging: 64 KiB.
constexpr size_t kMergeRecords = 4096;
constexpr uint64_t kOffsetMax = UINT32_MAX;

// Twelve bytes: the hash in halves, so that nothing aligns it to sixteen.
struct Entry {
  uint32_t hash_high;
  uint32_t hash_low;
  uint32_t offset;  // position minus the run's base

  uint64_t hash() const { return uint64_t{hash_high} << 32 | hash_low; }
};
static_assert(sizeof(Entry) == 12);

bool Before(const Entry& a, const Entry& b) {
  return a.hash() != b.hash() ? a.hash() < b.hash() : a.offset < b.offset;
}

// As it stands in a run. Runs never outlive the process, so the byte order is the machine's.
struct Record {
  uint64_t hash;
  uint64_t position;
};

absl::Status Errno(int code, absl::string_view what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(code));
  return code == ENOSPC || code == EDQUOT ? absl::ResourceExhaustedError(message)
                                          : absl::InternalError(message);
}

// Follows the records in order of hash, then position.
class Matcher {
 public:
  explicit Matcher(absl::FunctionRef<void(uint64_t, uint64_t)> found) : found_(found) {}

  void Take(uint64_t hash, uint64_t position) {
    if (any_ && hash == hash_) {
      found_(first_, position);
      return;
    }
    any_ = true;
    hash_ = hash;
    first_ = position;
  }

 private:
  absl::FunctionRef<void(uint64_t, uint64_t)> found_;
  bool any_ = false;
  uint64_t hash_ = 0;
  uint64_t first_ = 0;
};

// One sorted stretch of the temporary file.
class Run {
 public:
  Run(int fd, uint64_t begin, uint64_t end) : fd_(fd), at_(begin), end_(end) {}

  // Makes `head` the next record; false at the end.
  absl::StatusOr<bool> Next() {
    if (next_ == buffer_.size()) {
      const size_t want = std::min<uint64_t>(kMergeRecords, end_ - at_);
      if (want == 0) return false;
      buffer_.resize(want);
      next_ = 0;
      char* to = reinterpret_cast<char*>(buffer_.data());
      for (size_t done = 0; done < want * sizeof(Record);) {
        const ssize_t got = pread(fd_, to + done, want * sizeof(Record) - done,
                                  static_cast<off_t>(at_ * sizeof(Record) + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Errno(errno, "cannot read the temporary file of the duplicate check");
        if (got == 0) {
          return absl::InternalError("the temporary file of the duplicate check is too short");
        }
        done += static_cast<size_t>(got);
      }
      at_ += want;
    }
    head = buffer_[next_++];
    return true;
  }

  Record head{};

 private:
  const int fd_;
  uint64_t at_;  // in records
  const uint64_t end_;
  std::vector<Record> buffer_;
  size_t next_ = 0;
};

}  // namespace

struct DuplicateFinder::Impl {
  explicit Impl(Options given) : options(std::move(given)) {}
  ~Impl() {
    if (fd >= 0) close(fd);
  }

  absl::Status Spill();
  absl::Status Merge(absl::FunctionRef<void(uint64_t, uint64_t)> found);

  const Options options;
  std::vector<Entry> entries;
  uint64_t base = 0;  // of `entries`
  uint64_t last_position = 0;
  bool any = false;
  bool finished = false;
  int fd = -1;
  uint64_t file_records = 0;
  std::vector<uint64_t> run_ends;  // in records
};

absl::Status DuplicateFinder::Impl::Spill() {
  if (entries.empty()) return absl::OkStatus();
  if (fd < 0) {
    std::string path = absl::StrCat(options.temporary_dir, "/.duplicates-XXXXXX");
    fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd < 0) {
      return Errno(errno, absl::StrCat("cannot make a temporary file in ", options.temporary_dir,
                                       " for the duplicate check"));
    }
    // Without a name it goes away with the process, whatever ends that.
    unlink(path.c_str());
  }
  std::sort(entries.begin(), entries.end(), Before);
  std::vector<Record> out;
  for (size_t start = 0; start < entries.size(); start += kMergeRecords) {
    const size_t end = std::min(entries.size(), start + kMergeRecords);
    out.clear();
    for (size_t i = start; i < end; ++i) {
      out.push_back({entries[i].hash(), base + entries[i].offset});
    }
    const char* from = reinterpret_cast<const char*>(out.data());
    for (size_t left = out.size() * sizeof(Record); left > 0;) {
      const ssize_t wrote = write(fd, from, left);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) {
        return Errno(errno, absl::StrCat("cannot write a temporary file in ", options.temporary_dir,
                                         " for the duplicate check"));
      }
      from += wrote;
      left -= static_cast<size_t>(wrote);
    }
  }
  file_records += entries.size();
  run_ends.push_back(file_records);
  entries.clear();
  return absl::OkStatus();
}

absl::Status DuplicateFinder::Impl::Merge(absl::FunctionRef<void(uint64_t, uint64_t)> found) {
  std::vector<Run> runs;
  uint64_t begin = 0;
  for (const uint64_t end : run_ends) {
    runs.emplace_back(fd, begin, end);
    begin = end;
  }
  const auto later = [](const Run* a, const Run* b) {
    return a->head.hash != b->head.hash ? a->head.hash > b->head.hash
                                        : a->head.position > b->head.position;
  };
  std::priority_queue<Run*, std::vector<Run*>, decltype(later)> queue(later);
  for (Run& run : runs) {
    ASSIGN_OR_RETURN(const bool more, run.Next());
    if (more) queue.push(&run);
  }
  Matcher matcher(found);
  while (!queue.empty()) {
    Run* const run = queue.top();
    queue.pop();
    matcher.Take(run->head.hash, run->head.position);
    ASSIGN_OR_RETURN(const bool more, run->Next());
    if (more) queue.push(run);
  }
  return absl::OkStatus();
}

DuplicateFinder::DuplicateFinder(Options options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

DuplicateFinder::~DuplicateFinder() = default;

absl::Status DuplicateFinder::Add(absl::string_view text, uint64_t position) {
  Impl& impl = *impl_;
  NIGHTSHIFT_CHECK(!impl.finished, "Add after Finish");
  NIGHTSHIFT_CHECK(!impl.any || position > impl.last_position, "positions must rise");
  impl.any = true;
  impl.last_position = position;
  if (impl.entries.size() >= impl.options.entries_in_memory_max ||
      (!impl.entries.empty() && position - impl.base > kOffsetMax)) {
    RETURN_IF_ERROR(impl.Spill());
  }
  if (impl.entries.empty()) impl.base = position;
  const uint64_t hash = XXH3_64bits(text.data(), text.size());
  impl.entries.push_back({static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(hash),
                          static_cast<uint32_t>(position - impl.base)});
  return absl::OkStatus();
}

absl::Status DuplicateFinder::Finish(absl::FunctionRef<void(uint64_t, uint64_t)> found) {
  Impl& impl = *impl_;
  NIGHTSHIFT_CHECK(!impl.finished, "Finish twice");
  impl.finished = true;
  if (!impl.run_ends.empty()) {
    RETURN_IF_ERROR(impl.Spill());
    impl.entries.shrink_to_fit();
    return impl.Merge(found);
  }
  std::sort(impl.entries.begin(), impl.entries.end(), Before);
  Matcher matcher(found);
  for (const Entry& entry : impl.entries) matcher.Take(entry.hash(), impl.base + entry.offset);
  return absl::OkStatus();
}

}  // namespace nightshift
