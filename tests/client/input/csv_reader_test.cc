#include "client/input/csv_reader.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/input/input_support.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "1:a|b" for each row, "2:! problem" for a bad one, "error: …" at the end of a bad file.
std::vector<std::string> Rows(absl::string_view text, char delimiter = ',', size_t max = 1000,
                              uint64_t seed = 1, size_t read_bytes = 4096) {
  CrumbSource source(std::string(text), seed);
  CsvReader reader(&source, delimiter, max, read_bytes);
  std::vector<std::string> rows;
  CsvRow row;
  while (true) {
    const absl::StatusOr<bool> more = reader.Next(&row);
    if (!more.ok()) rows.push_back(absl::StrCat("error: ", more.status().message()));
    if (!more.ok() || !*more) return rows;
    rows.push_back(absl::StrCat(
        row.line, ":", row.problem.empty() ? absl::StrJoin(row.cells, "|") : "! " + row.problem));
  }
}

char DelimiterOf(absl::string_view text) {
  CrumbSource source(std::string(text), 3);
  CsvReader reader(&source, 0, 1000);
  CsvRow row;
  EXPECT_TRUE(reader.Next(&row).ok());
  return reader.delimiter();
}

TEST(CsvReaderTest, PlainAndQuotedCells) {
  EXPECT_THAT(Rows("a,b\n1,\"x,y\"\n,\n\"\",\"\"\n"),
              ElementsAre("1:a|b", "2:1|x,y", "3:|", "4:|"));
  EXPECT_THAT(Rows("\"say \"\"hi\"\"\",b\"c\n\"\"\"\",x"),
              ElementsAre("1:say \"hi\"|b\"c", "2:\"|x"));
}

TEST(CsvReaderTest, LineEndsInsideQuotesAreTextAndCounted) {
  EXPECT_THAT(Rows("\"a\nb\r\nc\",1\nx,2\n"), ElementsAre("1:a\nb\r\nc|1", "4:x|2"));
}

TEST(CsvReaderTest, WindowsLineEndsAndAMissingLastOne) {
  EXPECT_THAT(Rows("a,b\r\n\"c\",\"d\"\r\ne,f"), ElementsAre("1:a|b", "2:c|d", "3:e|f"));
  EXPECT_THAT(Rows("a,\r\n\"x\r\",\r\nb,\"c\""), ElementsAre("1:a|", "2:x\r|", "3:b|c"));
  EXPECT_THAT(Rows("x\r,\ny\r,z"), ElementsAre("1:x\r|", "2:y\r|z"));
}

TEST(CsvReaderTest, BlankLinesAreSkippedAndCounted) {
  EXPECT_THAT(Rows("\n  \na\n\r\n\"\"\nb\n\n"), ElementsAre("3:a", "5:", "6:b"));
  EXPECT_THAT(Rows(""), IsEmpty());
  EXPECT_THAT(Rows("\n\n"), IsEmpty());
}

TEST(CsvReaderTest, UnclosedQuoteIsReportedWhereItOpened) {
  EXPECT_THAT(
      Rows("a,b\n1,\"x\ny,z\n4,5\n"),
      ElementsAre("1:a|b", HasSubstr("error: the quote that opens a cell on line 2 is never")));
}

TEST(CsvReaderTest, TextBehindAClosingQuoteIsABadRowAndTheNextIsRead) {
  EXPECT_THAT(Rows("a,\"b\"c\n\"x\"y,\"1\n2\"\nz,\"ok\"\n"),
              ElementsAre(HasSubstr("1:! has text behind the closing quote of cell 2"),
                          HasSubstr("2:! has text behind the closing quote of cell 1"), "4:z|ok"));
}

TEST(CsvReaderTest, LongRowsAreSkippedAndTheRestGoesOn) {
  const std::string big(5000, 'x');
  EXPECT_THAT(Rows(absl::StrCat("a,b\n", big, ",1\nc,d\n\"", big, "\n\",2\ne,f\n")),
              ElementsAre("1:a|b", HasSubstr("2:! the row is over"), "3:c|d",
                          HasSubstr("the quote that opens on line 4 closed?"), "6:e|f"));
  EXPECT_THAT(Rows(std::string(20'000, ',') + "\na\n", ',', 100'000),
              ElementsAre("1:! has over 16384 cells", "2:a"));
}

TEST(CsvReaderTest, DelimiterIsFoundInTheHeader) {
  EXPECT_EQ(DelimiterOf("a,b;c,d\n1;2;3;4;5\n"), ',');
  EXPECT_EQ(DelimiterOf("a;b;c\n1,2,3,4;x;y\n"), ';');
  EXPECT_EQ(DelimiterOf("a\tb\n"), '\t');
  EXPECT_EQ(DelimiterOf("\"a;b;c\",d\n"), ',');
  EXPECT_EQ(DelimiterOf("topic\n"), ',');
  EXPECT_EQ(DelimiterOf("\n\na;b\nx,y,z\n"), ';');
  EXPECT_EQ(DelimiterOf(""), ',');
  EXPECT_THAT(Rows("a;b\n1;\"2;3\"\n", 0), ElementsAre("1:a|b", "2:1|2;3"));
}

// The grammar of the header, read byte by byte from the whole text.
struct Reference {
  std::vector<std::string> rows;
  explicit Reference(const std::string& text) {
    size_t at = 0;
    int line = 1;
    while (at < text.size()) {
      const int start = line;
      std::vector<std::string> cells;
      bool quoted_any = false;
      bool bad = false;
      bool ended = false;
      while (!ended) {
        std::string cell;
        if (at < text.size() && text[at] == '"') {
          quoted_any = true;
          ++at;
          while (true) {
            if (at >= text.size()) {
              rows.push_back("error");
              return;
            }
            if (text[at] == '"') {
              if (at + 1 >= text.size() || text[at + 1] != '"') break;
              ++at;
            }
            if (text[at] == '\n') ++line;
            cell += text[at++];
          }
          ++at;
          while (at < text.size() && text[at] != ',' && text[at] != '\n') {
            if (text[at] != '\r') bad = true;
            ++at;
          }
        } else {
          while (at < text.size() && text[at] != ',' && text[at] != '\n') cell += text[at++];
          const bool last = at >= text.size() || text[at] == '\n';
          if (last && !cell.empty() && cell.back() == '\r') cell.pop_back();
        }
        cells.push_back(cell);
        ended = at >= text.size() || text[at] == '\n';
        if (!ended) ++at;
        if (!ended && at >= text.size()) {
          cells.emplace_back();
          ended = true;
        }
      }
      if (at < text.size()) ++at;
      ++line;
      const bool blank = cells.size() == 1 && !quoted_any &&
                         cells[0].find_first_not_of(" \t\r") == std::string::npos;
      if (blank) continue;
      rows.push_back(absl::StrCat(start, ":", bad ? "!" : absl::StrJoin(cells, "|")));
    }
  }
};

TEST(CsvReaderTest, AgreesWithASlowReferenceOnRandomText) {
  const uint64_t seed = Random::FromSystem().Next();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (uint64_t i = random.Below(40); i > 0; --i)
      text.push_back("a,,\"\"\n\r b"[random.Below(9)]);
    std::vector<std::string> rows = Rows(text, ',', 1000, random.Next(), 1 + random.Below(8));
    for (std::string& row : rows) {
      if (row.rfind("error", 0) == 0) row = "error";
      const size_t bad = row.find(":! has text");
      if (bad != std::string::npos) row.resize(bad + 2);
    }
    ASSERT_EQ(rows, Reference(text).rows) << ::testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace nightshift
