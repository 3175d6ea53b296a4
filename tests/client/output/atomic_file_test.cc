#include "client/output/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest()
      : folder_(fs::path(::testing::TempDir()) /
                absl::StrCat("nightshift-atomic-", Random::FromSystem().Next())) {
    fs::create_directories(folder_);
  }
  ~AtomicFileTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  int Entries() const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++count;
    return count;
  }
  static std::unique_ptr<AtomicFile> Create(const std::string& path) {
    absl::StatusOr<std::unique_ptr<AtomicFile>> file = AtomicFile::Create(path);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  const fs::path folder_;
};

TEST_F(AtomicFileTest, NothingIsSeenBeforeCommitAndAllAfter) {
  const std::string path = Path("out.jsonl");
  Write(path, "old");
  const auto file = Create(path);
  std::string wanted;
  for (int i = 0; i < 100'000; ++i) {
    const std::string line = absl::StrCat("line ", i, "\n");
    ASSERT_TRUE(file->Append(line).ok());
    wanted += line;
  }
  const std::string big(700'000, 'x');
  ASSERT_TRUE(file->Append(big).ok());
  wanted += big;
  EXPECT_EQ(Content(path), "old");
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(Content(path), wanted);
  EXPECT_EQ(file->bytes(), static_cast<int64_t>(wanted.size()));
  EXPECT_EQ(Entries(), 1);
}

TEST_F(AtomicFileTest, AbandonedFilesLeaveNothingBehind) {
  const std::string path = Path("out.jsonl");
  Write(path, "old");
  {
    const auto file = Create(path);
    ASSERT_TRUE(file->Append(std::string(1'000'000, 'x')).ok());
  }
  EXPECT_EQ(Content(path), "old");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(AtomicFileTest, BadPathsAreKnownAtOnce) {
  const auto status = [](const std::string& path) { return AtomicFile::Create(path).status(); };
  EXPECT_TRUE(absl::IsNotFound(status(Path("none/out"))));
  EXPECT_THAT(std::string(status(Path("none/out")).message()), HasSubstr("none"));
  EXPECT_TRUE(absl::IsInvalidArgument(status(folder_.string())));
  EXPECT_TRUE(absl::IsInvalidArgument(status("")));
  EXPECT_FALSE(status("/proc/x").ok());
  Write(Path("file"), "x");
  EXPECT_FALSE(status(Path("file/out")).ok());
  if (geteuid() != 0) {
    fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_TRUE(absl::IsPermissionDenied(status(Path("out"))));
    fs::permissions(folder_, fs::perms::owner_all);
  }
}

TEST_F(AtomicFileTest, PermissionsAreThoseOfTheUmaskOrOfTheReplacedFile) {
  const mode_t before = umask(027);
  ASSERT_TRUE(Create(Path("new"))->Commit().ok());
  umask(before);
  struct stat info {};
  ASSERT_EQ(stat(Path("new").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  Write(Path("old"), "x");
  ASSERT_EQ(chmod(Path("old").c_str(), 0604), 0);
  ASSERT_TRUE(Create(Path("old"))->Commit().ok());
  ASSERT_EQ(stat(Path("old").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0604u);
}

TEST_F(AtomicFileTest, SymbolicLinksAreFollowed) {
  fs::create_directory(folder_ / "disk");
  Write(Path("disk/real"), "old");
  fs::create_symlink("disk/real", folder_ / "link");
  const auto file = Create(Path("link"));
  ASSERT_TRUE(file->Append("new").ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Content(Path("disk/real")), "new");
}

// Replacing /dev/null would be a bad surprise for the whole machine.
TEST_F(AtomicFileTest, DevicesAreWrittenToAndStay) {
  const auto file = Create("/dev/null");
  ASSERT_TRUE(file->Append("x").ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(AtomicFileTest, FullDisksAreReported) {
  const auto file = Create("/dev/full");
  absl::Status status = file->Append(std::string(1'000'000, 'x'));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/full"));
}

}  // namespace
}  // namespace nightshift
