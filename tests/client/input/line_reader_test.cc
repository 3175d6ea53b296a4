#include "client/input/line_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/input/input_support.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "1:text", or "2:too long".
std::vector<std::string> Lines(absl::string_view text, size_t max = 1000, uint64_t seed = 1) {
  CrumbSource source(std::string(text), seed);
  LineReader reader(&source, max);
  std::vector<std::string> lines;
  TextLine line;
  while (true) {
    const absl::StatusOr<bool> more = reader.Next(&line);
    EXPECT_TRUE(more.ok());
    if (!more.ok() || !*more) return lines;
    lines.push_back(absl::StrCat(line.number, ":", line.too_long ? "too long" : line.text));
  }
}

TEST(LineReaderTest, SplitsOnLineFeedOnly) {
  EXPECT_THAT(Lines("a\xE2\x80\xA8"
                    "b\xC2\x85"
                    "c\rd\x0B\x0C\ne\n"),
              ElementsAre("1:a\xE2\x80\xA8"
                          "b\xC2\x85"
                          "c\rd\x0B\x0C",
                          "2:e"));
}

TEST(LineReaderTest, CarriageReturnBeforeTheLineFeedIsNotText) {
  EXPECT_THAT(Lines("a\r\nb\r\r\n\r\nc\r"), ElementsAre("1:a", "2:b\r", "3:", "4:c"));
}

TEST(LineReaderTest, LastLineFeedMayBeMissing) {
  EXPECT_THAT(Lines("a\nb"), ElementsAre("1:a", "2:b"));
  EXPECT_THAT(Lines("a\n\n"), ElementsAre("1:a", "2:"));
  EXPECT_THAT(Lines(""), IsEmpty());
  EXPECT_THAT(Lines("\n"), ElementsAre("1:"));
}

TEST(LineReaderTest, LongLinesAreReportedAndTheRestGoesOn) {
  EXPECT_THAT(Lines("12345\r\n123456\n\n123\n1234567", 5),
              ElementsAre("1:12345", "2:too long", "3:", "4:123", "5:too long"));
  const std::string huge(3'000'000, 'x');
  EXPECT_THAT(Lines(absl::StrCat("a\n", huge, "\nb\n", huge), 700'000),
              ElementsAre("1:a", "2:too long", "3:b", "4:too long"));
}

TEST(LineReaderTest, LinesOfExactlyTheLimitPassWhereverTheyStand) {
  for (size_t max : {size_t{1}, size_t{65536}, size_t{600'000}}) {
    const std::string line(max, 'y');
    EXPECT_THAT(Lines(absl::StrCat(line, "\n", line, "\r\n", line), max),
                ElementsAre("1:" + line, "2:" + line, "3:" + line));
    EXPECT_THAT(Lines(absl::StrCat(line, "z\n", line, "z\r\n", line, "z"), max),
                ElementsAre("1:too long", "2:too long", "3:too long"));
  }
}

TEST(LineReaderTest, AgreesWithASimpleSplitOnRandomText) {
  const uint64_t seed = Random::FromSystem().Next();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (uint64_t i = random.Below(60); i > 0; --i) text.push_back("ab\n\r\xE9"[random.Below(5)]);
    std::vector<std::string> wanted;
    int number = 0;
    for (size_t at = 0; at < text.size();) {
      size_t end = text.find('\n', at);
      const size_t next = end == std::string::npos ? text.size() : end + 1;
      if (end == std::string::npos) end = text.size();
      std::string line = text.substr(at, end - at);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      wanted.push_back(absl::StrCat(++number, ":", line.size() > 6 ? "too long" : line));
      at = next;
    }
    EXPECT_EQ(Lines(text, 6, random.Next()), wanted) << ::testing::PrintToString(text);
  }
}

TEST(IsBlankLineTest, BlanksTabsAndCarriageReturns) {
  EXPECT_TRUE(IsBlankLine(""));
  EXPECT_TRUE(IsBlankLine(" \t\r "));
  EXPECT_FALSE(IsBlankLine(" x"));
}

}  // namespace
}  // namespace nightshift
