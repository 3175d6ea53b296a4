#include "base/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

using testing::HasSubstr;

TEST(MakeFolderTest, MakesAllThatIsMissingForTheOwnerAlone) {
  const TempFolder temp;
  ASSERT_TRUE(MakeFolder(temp / "a/b//c/").ok());
  struct stat info;
  ASSERT_EQ(stat((temp / "a/b/c").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(MakeFolder(temp / "a/b/c").ok()) << "an existing folder is fine";
}

TEST(MakeFolderTest, FileInTheWayIsNamed) {
  const TempFolder temp;
  std::ofstream(temp / "file") << "x";
  for (const std::string& path : {temp / "file", temp / "file/below"}) {
    const absl::Status status = MakeFolder(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(temp / "file"));
  }
}

TEST(MakeFolderTest, PlaceWithoutRightsIsRefused) {
  const TempFolder temp;
  ASSERT_TRUE(MakeFolder(temp / "closed").ok());
  ASSERT_EQ(chmod(temp.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod((temp / "closed").c_str(), 0555), 0);
  const uid_t uid = geteuid();
  ASSERT_TRUE(uid != 0 || seteuid(65534) == 0);  // root may write everywhere
  const absl::Status made = MakeFolder(temp / "closed/below");
  const absl::Status locked = FolderLock::Acquire(temp / "closed").status();
  ASSERT_EQ(seteuid(uid), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(made)) << made;
  EXPECT_TRUE(absl::IsPermissionDenied(locked)) << locked;
  EXPECT_THAT(std::string(locked.message()), HasSubstr(temp / "closed"));
}

TEST(FolderLockTest, SecondLockOfThisProcessIsRefused) {
  const TempFolder temp;
  absl::StatusOr<FolderLock> first = FolderLock::Acquire(temp.path());
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = FolderLock::Acquire(temp.path()).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr("this nightshift process"));
}

TEST(FolderLockTest, LockIsFreeAgainAfterItsOwnerIsGone) {
  const TempFolder temp;
  { ASSERT_TRUE(FolderLock::Acquire(temp.path()).ok()); }
  EXPECT_TRUE(FolderLock::Acquire(temp.path()).ok());
}

TEST(FolderLockTest, AnotherProcessIsNamedByItsId) {
  const TempFolder temp;
  int locked[2];
  int done[2];
  ASSERT_EQ(pipe(locked), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<FolderLock> lock = FolderLock::Acquire(temp.path());
    char byte = lock.ok() ? 'y' : 'n';
    if (write(locked[1], &byte, 1) != 1) _exit(1);
    close(done[1]);
    (void)!read(done[0], &byte, 1);  // until the parent is done
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(locked[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  const absl::Status status = FolderLock::Acquire(temp.path()).status();
  close(done[1]);
  int result = 0;
  waitpid(child, &result, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("another nightshift process (pid ", child, ") has ",
                                     temp.path(), " open")));
  EXPECT_TRUE(FolderLock::Acquire(temp.path()).ok()) << "the kernel gives up a dead owner's lock";
  for (const int fd : {locked[0], locked[1], done[0]}) close(fd);
}

TEST(FolderLockTest, TheOptionThatNamesTheFolderIsNamed) {
  const TempFolder temp;
  std::ofstream(temp / "file") << "x";
  EXPECT_THAT(std::string(MakeFolder(temp / "file", "--spool-dir").message()),
              HasSubstr("another --spool-dir"));
  EXPECT_THAT(std::string(MakeFolder(temp / "file").message()), HasSubstr("another --data-dir"));
}

TEST(FolderLockTest, MovedLockIsHeldOnce) {
  const TempFolder temp;
  std::optional<FolderLock> kept;
  {
    absl::StatusOr<FolderLock> lock = FolderLock::Acquire(temp.path());
    ASSERT_TRUE(lock.ok());
    kept = *std::move(lock);
  }
  EXPECT_FALSE(FolderLock::Acquire(temp.path()).ok());
  kept.reset();
  EXPECT_TRUE(FolderLock::Acquire(temp.path()).ok());
}

}  // namespace
}  // namespace nightshift
