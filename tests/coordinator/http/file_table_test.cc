#include "coordinator/http/file_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
    auto upload = table_->Begin();
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
    auto upload = table_->Begin();
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Write(std::string(1'000'000, 'x')).ok());
    EXPECT_EQ(OnDisk().size(), 1u);
    EXPECT_THAT(table_->List(), IsEmpty());
  }
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
