#include "storage/manifest_mark.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/mutex.h"

namespace nightshift {
namespace {

std::string MarkPath(const std::string& folder) {
  return absl::StrCat(folder, "/nightshift.manifest");
}

rocksdb::Status Write(rocksdb::DB& db, const std::string& text) {
  rocksdb::FileSystem* const files = db.GetFileSystem();
  const std::string path = MarkPath(db.GetName());
  const std::string temporary = absl::StrCat(path, ".tmp");
  rocksdb::Status status = rocksdb::WriteStringToFile(files, text, temporary, /*should_sync=*/true);
  if (status.ok()) status = files->RenameFile(temporary, path, rocksdb::IOOptions(), nullptr);
  return status;
}

}  // namespace

absl::Status CheckManifestMark(rocksdb::FileSystem& files, const std::string& folder) {
  std::string current;
  std::string mark;
  // What cannot be read here is RocksDB's to complain about, or a mark that says nothing.
  if (!rocksdb::ReadFileToString(&files, absl::StrCat(folder, "/CURRENT"), &current).ok() ||
      !rocksdb::ReadFileToString(&files, MarkPath(folder), &mark).ok()) {
    return absl::OkStatus();
  }
  const absl::string_view name = absl::StripSuffix(current, "\n");
  const std::vector<absl::string_view> words = absl::StrSplit(mark, ' ');
  uint64_t length = 0;
  if (words.size() != 2 || words[0] != name || !absl::SimpleAtoi(words[1], &length)) {
    return absl::OkStatus();
  }
  uint64_t found = 0;
  const rocksdb::IOStatus status =
      files.GetFileSize(absl::StrCat(folder, "/", name), rocksdb::IOOptions(), &found, nullptr);
  if (!status.ok() || found >= length) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the end of ", name, " is missing: it has ", found, " bytes and had ", length));
}

struct ManifestMarker::State {
  // Held while the mark is written, so that a shorter one never replaces a longer one. Two threads
  // of RocksDB's own wait for it, nobody else.
  Mutex mutex;
  std::string last ABSL_GUARDED_BY(mutex);
};

ManifestMarker::ManifestMarker() : state_(std::make_unique<State>()) {}
ManifestMarker::~ManifestMarker() = default;

void ManifestMarker::Mark(rocksdb::DB& db) {
  MutexLock lock(&state_->mutex);
  std::vector<std::string> files;
  uint64_t length = 0;  // as of the last record that was synced
  rocksdb::Status status = db.GetLiveFiles(files, &length, /*flush_memtable=*/false);
  if (status.ok()) {
    for (const std::string& file : files) {
      const absl::string_view name = absl::StripPrefix(file, "/");
      if (!absl::StartsWith(name, "MANIFEST-")) continue;
      std::string text = absl::StrCat(name, " ", length);
      if (text == state_->last) return;
      status = Write(db, text);
      if (status.ok()) state_->last = std::move(text);
      break;
    }
  }
  if (!status.ok()) {
    LogDebug("how long the store's manifest is could not be written down: ", status.ToString());
  }
}

}  // namespace nightshift
