// A spool in a folder of its own, and short words for what goes in and comes out.
#ifndef NIGHTSHIFT_TESTS_WORKER_SPOOL_SPOOL_FIXTURE_H_
#define NIGHTSHIFT_TESTS_WORKER_SPOOL_SPOOL_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/storage/temp_folder.h"
#include "worker/spool/spool.h"

namespace nightshift {

inline v1::AttemptResult ResultOf(uint64_t index, const std::string& body = "an answer") {
  v1::AttemptResult result;
  result.mutable_key()->set_job(1);
  result.mutable_key()->set_index(index);
  result.set_backend("b");
  result.set_kind(v1::AttemptResult::ANSWERED);
  result.set_http_status(200);
  result.set_body(body);
  return result;
}

inline std::string ReadFileBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void WriteFileBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class SpoolTest : public ::testing::Test {
 protected:
  static constexpr char kStore[] = "store-a";
  using Indexes = std::vector<uint64_t>;

  SpoolOptions Options() {
    SpoolOptions options;
    options.folder = folder_.path();
    options.file_bytes = file_bytes_;
    options.bytes_max = bytes_max_;
    options.other_bytes_max = other_bytes_max_;
    return options;
  }
  void Open() {
    auto opened = Spool::Open(Options());
    ASSERT_TRUE(opened.ok()) << opened.status();
    spool_ = *std::move(opened);
  }
  // The indexes that `store` has, in order.
  Indexes Use(const std::string& store = kStore) {
    Indexes indexes;
    kept_ = spool_->Use(store);
    for (const KeptResult& kept : kept_) indexes.push_back(kept.result.key().index());
    return indexes;
  }
  // What a process that is killed leaves: what was flushed, and nothing that its end would do.
  void Die() {
    spool_->disk().AwaitRemoved();
    const TempFolder copy;
    std::filesystem::copy(folder_.path(), copy.path(), std::filesystem::copy_options::recursive);
    spool_.reset();
    for (const std::string& path : Files()) std::filesystem::remove(path);
    for (const auto& entry : std::filesystem::directory_iterator(copy.path())) {
      std::filesystem::copy(entry.path(), folder_ / entry.path().filename().string(),
                            std::filesystem::copy_options::overwrite_existing);
    }
  }
  uint64_t Keep(uint64_t index, const std::string& body = "an answer") {
    return spool_->Keep(ResultOf(index, body));
  }
  // The next file may still be in the making, where stores or files change quickly.
  void FlushAll() {
    do {
      while (Flush() != MonotonicTime::Infinite()) std::this_thread::yield();
    } while (spool_->Blocked());
  }
  MonotonicTime Flush() { return spool_->Flush(clock_.Now()); }

  // The spool's files, oldest first.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (absl::EndsWith(entry.path().string(), ".spool")) files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  std::vector<std::string> FilesWithBytes() const {
    std::vector<std::string> files = Files();
    std::erase_if(files, [](const std::string& f) { return std::filesystem::file_size(f) == 0; });
    return files;
  }

  const TempFolder folder_;
  FakeClock clock_;
  int64_t file_bytes_ = int64_t{8} << 20;
  int64_t bytes_max_ = int64_t{256} << 20;
  int64_t other_bytes_max_ = int64_t{1} << 30;
  std::unique_ptr<Spool> spool_;
  std::vector<KeptResult> kept_;  // of the last Use()
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_WORKER_SPOOL_SPOOL_FIXTURE_H_
