// Files and odd byte sources for the tests of client/input.
#ifndef NIGHTSHIFT_TESTS_CLIENT_INPUT_INPUT_SUPPORT_H_
#define NIGHTSHIFT_TESTS_CLIENT_INPUT_INPUT_SUPPORT_H_

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "client/input/byte_source.h"
#include "gtest/gtest.h"

namespace nightshift {

// A folder of its own for one test, gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            absl::StrCat("nightshift-", info->test_suite_name(), "-", info->name(), "-",
                         Random::FromSystem().Next());
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string Path(const std::string& name) const { return (path_ / name).string(); }
  std::string Write(const std::string& name, absl::string_view bytes) const {
    std::ofstream file(Path(name), std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return Path(name);
  }

 private:
  std::filesystem::path path_;
};

// Hands out a text in pieces of a few bytes, so that every boundary falls somewhere.
class CrumbSource final : public ByteSource {
 public:
  CrumbSource(std::string bytes, uint64_t seed) : bytes_(std::move(bytes)), random_(seed) {}
  absl::StatusOr<size_t> Read(char* to, size_t max) override {
    const size_t count =
        std::min({max, bytes_.size() - at_, static_cast<size_t>(1 + random_.Below(7))});
    std::memcpy(to, bytes_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  const std::string bytes_;
  Random random_;
  size_t at_ = 0;
};

inline std::string Gzip(absl::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string Zstd(absl::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_CLIENT_INPUT_INPUT_SUPPORT_H_
