#include "coordinator/http/file_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/access/access.h"
#include "storage/memory_store.h"
#include "tests/coordinator/jobs/job_world.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FileTableTest : public testing::Test {
 protected:
  FileTableTest() : store_(NewMemoryStore()) { Open(*store_); }

  void Open(Store& store) {
    auto table = FileTable::Open(store, clock_, folder_ / "files");
    ASSERT_TRUE(table.ok()) << table.status();
    table_ = *std::move(table);
  }

  absl::StatusOr<v1::FileRecord> Upload(const std::string& content, int64_t lifetime_s = 0) {
    auto upload = table_->Begin(owner_);
    if (!upload.ok()) return upload.status();
    if (absl::Status status = (*upload)->Write(content); !status.ok()) return status;
    return (*upload)->Finish("name.jsonl", "batch", lifetime_s);
  }

  std::vector<std::string> OnDisk() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "files")) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  std::string Content(const std::string& id) const {
    auto file = table_->OpenForReading(id);
    if (!file.ok()) return file.status().ToString();
    std::string content(1 << 20, '\0');
    content.resize(*(*file)->ReadAt(0, content.data(), content.size()));
    return content;
  }

  TempFolder folder_;
  FileOwner owner_;
  FakeClock clock_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<FileTable> table_;
};

TEST_F(FileTableTest, AFileIsThereAfterARestart) {
  const auto record = Upload(absl::StrCat(std::string(700'000, 'x'), "end"));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(IsFileId(record->id()));
  EXPECT_EQ(record->bytes(), 700'003);
  Open(*store_);
  EXPECT_EQ(Content(record->id()), absl::StrCat(std::string(700'000, 'x'), "end"));
  EXPECT_THAT(OnDisk(), ElementsAre(record->id()));
}

TEST_F(FileTableTest, AnUploadThatIsNotFinishedLeavesNothing) {
  {
    auto upload = table_->Begin(owner_);
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Write(std::string(1'000'000, 'x')).ok());
    EXPECT_EQ(OnDisk().size(), 1u);
    EXPECT_THAT(table_->List(), IsEmpty());
  }
  EXPECT_THAT(OnDisk(), IsEmpty());
}

// Of all its files, also those on their way; another tenant's do not count, and what goes makes
// room.
TEST_F(FileTableTest, ATenantMayHaveSoManyBytes) {
  owner_ = {"a", 1'000'000};
  const auto first = Upload(std::string(600'000, 'x'), /*lifetime_s=*/7200);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->tenant(), "a");
  const auto second = Upload(std::string(600'000, 'x'));
  EXPECT_TRUE(absl::IsResourceExhausted(second.status())) << second.status();
  // The first goes in two hours, and then there is room.
  ASSERT_TRUE(TenantRetryAfter(second.status()).has_value());
  EXPECT_EQ(*TenantRetryAfter(second.status()), absl::Hours(2));
  const auto never = Upload(std::string(1'100'000, 'x'));
  EXPECT_EQ(TenantRetryAfter(never.status()), absl::InfiniteDuration());
  EXPECT_EQ(OnDisk().size(), 1u);
  Open(*store_);
  EXPECT_FALSE(Upload(std::string(600'000, 'x')).ok()) << "counted anew at the start";
  owner_.tenant = "b";
  EXPECT_TRUE(Upload(std::string(600'000, 'x')).ok());
  owner_.tenant = "a";
  ASSERT_TRUE(table_->Delete(first->id()).ok());
  EXPECT_TRUE(Upload(std::string(600'000, 'x')).ok());
}

TEST_F(FileTableTest, ManyGoInOneCommit) {
  StoppingStore counted(*store_, 1000);
  Open(counted);
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(Upload("x")->id());
  ids.push_back("file-that-is-not-there");
  const int64_t before = counted.commits();
  ASSERT_TRUE(table_->DeleteAll(ids).ok());
  EXPECT_EQ(counted.commits(), before + 1);
  EXPECT_THAT(OnDisk(), IsEmpty());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Upload("x", 3600).ok());
  clock_.Advance(absl::Hours(2));
  table_->Sweep();
  EXPECT_EQ(counted.commits(), before + 1 + 5 + 1);
  EXPECT_THAT(OnDisk(), IsEmpty());
}

// The row is what makes a file: without it the bytes go, at once or at the next start.
TEST_F(FileTableTest, AFileWhoseRowCannotBeWrittenIsNone) {
  StoppingStore stopping(*store_, 0);
  Open(stopping);
  EXPECT_FALSE(Upload("x").ok());
  EXPECT_THAT(OnDisk(), IsEmpty());
  EXPECT_THAT(table_->List(), IsEmpty());
}

TEST_F(FileTableTest, AFileExpiresAtItsTime) {
  const auto record = Upload("x", 3600);
  ASSERT_TRUE(record.ok());
  clock_.Advance(absl::Seconds(3599));
  table_->Sweep();
  EXPECT_EQ(Content(record->id()), "x");
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(absl::IsNotFound(table_->Find(record->id()).status()));
  EXPECT_THAT(table_->List(), IsEmpty());
  table_->Sweep();
  EXPECT_THAT(OnDisk(), IsEmpty());
}

// A batch reads its input to the end, whoever deletes it.
TEST_F(FileTableTest, DeletingDoesNotDisturbAReader) {
  const auto record = Upload("content");
  ASSERT_TRUE(record.ok());
  const auto open = table_->OpenForReading(record->id());
  ASSERT_TRUE(open.ok());
  ASSERT_TRUE(table_->Delete(record->id()).ok());
  EXPECT_THAT(OnDisk(), IsEmpty());
  char bytes[7];
  ASSERT_EQ(*(*open)->ReadAt(0, bytes, 7), 7u);
  EXPECT_EQ(std::string(bytes, 7), "content");
  EXPECT_TRUE(absl::IsNotFound(table_->Delete(record->id())));
}

TEST_F(FileTableTest, IdsRiseWithinAMillisecond) {
  std::string last;
  for (int i = 0; i < 50; ++i) {
    const auto record = Upload("x");
    ASSERT_TRUE(record.ok());
    EXPECT_LT(last, record->id());
    last = record->id();
  }
}

TEST(FileNameTest, NamesAreCleaned) {
  EXPECT_EQ(CleanFileName("a.jsonl"), "a.jsonl");
  EXPECT_EQ(CleanFileName("../../x/y"), "y");
  EXPECT_EQ(CleanFileName("C:\\x\\y"), "y");
  EXPECT_EQ(CleanFileName("a\r\nb\x7f"), "a__b_");
  EXPECT_EQ(CleanFileName("ok\xff\xfe"), "ok");
  EXPECT_EQ(CleanFileName(std::string(1000, 'x')).size(), kFileNameBytesMax);
  EXPECT_FALSE(IsFileId("file-../../../../etc/passwd"));
  EXPECT_FALSE(IsFileId("file-"));
}

}  // namespace
}  // namespace nightshift
