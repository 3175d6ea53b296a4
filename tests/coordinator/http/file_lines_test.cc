#include "coordinator/http/file_lines.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Lines = std::vector<std::pair<int64_t, std::string>>;

Lines Read(const std::string& content, size_t line_bytes_max = 1 << 20) {
  TempFolder folder;
  std::ofstream(folder / "f", std::ios::binary) << content;
  const OpenFile file(open((folder / "f").c_str(), O_RDONLY | O_CLOEXEC));
  FileLines lines(file, line_bytes_max);
  Lines found;
  FileLines::Line line;
  while (true) {
    const absl::StatusOr<bool> more = lines.Next(&line);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) return found;
    found.emplace_back(line.number, absl::StrCat(line.text, line.too_long ? "…" : ""));
  }
}

TEST(FileLinesTest, NumbersArePhysical) {
  EXPECT_THAT(Read("a\nb\n"), ElementsAre(Pair(1, "a"), Pair(2, "b")));
  EXPECT_THAT(Read("a\n\n \t\r\nb"), ElementsAre(Pair(1, "a"), Pair(4, "b")));
  EXPECT_THAT(Read("\xEF\xBB\xBF"
                   "a\r\nb\rc\r\n"),
              ElementsAre(Pair(1, "a"), Pair(2, "b\rc")));
  EXPECT_THAT(Read("\xEF\xBB\xBF"), IsEmpty());
  EXPECT_THAT(Read(""), IsEmpty());
  EXPECT_THAT(Read("\n\n"), IsEmpty());
}

// Lines that lie across the pieces in which the file is read.
TEST(FileLinesTest, LongLinesAreWhole) {
  const std::string longer(3'000'000, 'x');
  EXPECT_THAT(Read(absl::StrCat("a\n", longer, "\nb\n"), 4'000'000),
              ElementsAre(Pair(1, "a"), Pair(2, longer), Pair(3, "b")));
}

TEST(FileLinesTest, LinesBeyondTheLimitAreCutAndTheNextIsWhole) {
  const std::string beginning(1000, 'x');
  EXPECT_THAT(Read(absl::StrCat(std::string(5'000'000, 'x'), "\nb\n"), 1000),
              ElementsAre(Pair(1, beginning + "…"), Pair(2, "b")));
  EXPECT_THAT(Read(std::string(5'000'000, 'x'), 1000), ElementsAre(Pair(1, beginning + "…")));
  EXPECT_THAT(Read(absl::StrCat(beginning, "\nb"), 1000),
              ElementsAre(Pair(1, beginning), Pair(2, "b")));
  EXPECT_THAT(Read(absl::StrCat(beginning, "x\nb"), 1000),
              ElementsAre(Pair(1, beginning + "…"), Pair(2, "b")));
}

}  // namespace
}  // namespace nightshift
