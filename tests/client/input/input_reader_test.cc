#include "client/input/input_reader.h"

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/input/file_hash.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/input/input_support.h"

namespace nightshift {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InputReaderTest : public ::testing::Test {
 protected:
  // "3 good id body" or "3 bad id|field|reason" for each item; "error: …" when the input as a whole
  // cannot be used. The reader stays for questions.
  std::vector<std::string> Read(InputOptions options) {
    std::vector<std::string> items;
    absl::StatusOr<std::unique_ptr<InputReader>> opened = InputReader::Open(std::move(options));
    if (!opened.ok()) return {absl::StrCat("error: ", opened.status().message())};
    reader_ = *std::move(opened);
    InputItem item;
    while (true) {
      const absl::StatusOr<bool> more = reader_->Next(&item);
      if (!more.ok()) items.push_back(absl::StrCat("error: ", more.status().message()));
      if (!more.ok() || !*more) return items;
      items.push_back(item.good ? absl::StrCat(item.line, " good ", item.request.custom_id, " ",
                                               item.request.body)
                                : absl::StrCat(item.line, " bad ", item.error.custom_id, "|",
                                               item.error.field, "|", item.error.reason));
    }
  }

  std::vector<std::string> ReadFile(const std::string& name, absl::string_view bytes) {
    InputOptions options;
    options.path = folder_.Write(name, bytes);
    if (absl::StrContains(name, ".csv")) options.prompt_template = "{{topic}}";
    return Read(std::move(options));
  }

  const TemporaryFolder folder_;
  std::unique_ptr<InputReader> reader_;
};

std::string Chat(absl::string_view content) {
  return absl::StrCat(R"({"messages":[{"role":"user","content":")", content, "\"}]}");
}

// What editors and tools leave in files is no reason to refuse them, and the line
// numbers are those that an editor shows.
TEST_F(InputReaderTest, MarkBlankLinesCarriageReturnsAndAMissingLastLineFeed) {
  EXPECT_THAT(ReadFile("a.jsonl", "\xEF\xBB\xBF{\"prompt\":\"a\"}\r\n\n  \t\r\n{\"prompt\":\"b\"}"),
              ElementsAre("1 good request-1 " + Chat("a"), "4 good request-4 " + Chat("b")));
  EXPECT_EQ(reader_->stats().requests, 2);
  EXPECT_EQ(reader_->stats().lines, 4);
  EXPECT_EQ(reader_->format(), InputFormat::kJsonLines);
}

TEST_F(InputReaderTest, SeparatorsOfUnicodeInsideALineAreText) {
  EXPECT_THAT(ReadFile("a.jsonl", "{\"prompt\":\"a\xE2\x80\xA8\xE2\x80\xA9\xC2\x85z\"}\n"),
              ElementsAre("1 good request-1 " + Chat("a\xE2\x80\xA8\xE2\x80\xA9\xC2\x85z")));
}

TEST_F(InputReaderTest, EveryBadLineIsAnItem) {
  EXPECT_THAT(
      ReadFile("a.jsonl", "{\"prompt\":1,\"id\":\"x\"}\n{\"prompt\":\"b\"}\nnonsense\n[]\n"),
      ElementsAre("1 bad x|prompt|expected a string, found a number",
                  "2 good request-2 " + Chat("b"), HasSubstr("3 bad ||not JSON: "),
                  "4 bad ||expected an object, found a list"));
  EXPECT_EQ(reader_->stats().bad, 3);
}

TEST_F(InputReaderTest, Utf16IsRecognised) {
  for (const absl::string_view start :
       {absl::string_view("\xFF\xFE{\0", 4), absl::string_view("\xFE\xFF\0{", 4),
        absl::string_view("{\0\"\0", 4)}) {
    EXPECT_THAT(ReadFile("a.jsonl", start),
                ElementsAre(AllOf(HasSubstr("UTF-16"), HasSubstr("save it as UTF-8"))));
  }
}

TEST_F(InputReaderTest, Latin1IsReportedWithLineAndByte) {
  EXPECT_THAT(
      ReadFile("a.txt", "ok\ncaf\xE9 au lait\n"),
      ElementsAre("1 good request-1 " + Chat("ok"),
                  AllOf(HasSubstr("2 bad ||invalid UTF-8 at byte 4"), HasSubstr("Latin-1"))));
}

TEST_F(InputReaderTest, LinesOverTheLimitAreBadAndTheRestIsRead) {
  InputOptions options;
  options.max_line_bytes = 100;
  options.path = folder_.Write("a.txt", absl::StrCat("x\n", std::string(2'000'000, 'y'), "\nz\n"));
  EXPECT_THAT(Read(options), ElementsAre("1 good request-1 " + Chat("x"),
                                         "2 bad ||the line is over 100 B long (--max-line-bytes)",
                                         "3 good request-3 " + Chat("z")));
}

// Escapes make a body of this line that is six times as long and would not fit into a message.
TEST_F(InputReaderTest, ARequestThatFitsIntoNoMessageIsABadLine) {
  EXPECT_THAT(
      ReadFile("a.txt", absl::StrCat(std::string(11 << 20, '\x01'), "\nz\n")),
      ElementsAre("1 bad request-1||the request is 66.0 MiB long; at most 60.0 MiB are sent",
                  "2 good request-2 " + Chat("z")));
}

TEST_F(InputReaderTest, AnEmptyInputIsRefused) {
  EXPECT_THAT(ReadFile("a.jsonl", ""), ElementsAre(HasSubstr("a.jsonl is empty")));
  EXPECT_THAT(ReadFile("a.txt", "\n \n"), ElementsAre(HasSubstr("blank lines only")));
  EXPECT_THAT(ReadFile("a.csv", ""), ElementsAre(HasSubstr("is empty")));
  EXPECT_THAT(ReadFile("a.csv", "topic\n"), ElementsAre(HasSubstr("a header and no rows")));
  EXPECT_THAT(ReadFile("a.jsonl.gz", Gzip("")), ElementsAre(HasSubstr("is empty")));
}

TEST_F(InputReaderTest, LimitStopsAfterSoManyGoodRequests) {
  InputOptions options;
  options.limit = 2;
  options.path = folder_.Write("a.txt", "a\n\xFF\nb\nc\n");
  EXPECT_THAT(Read(options),
              ElementsAre(HasSubstr("1 good"), HasSubstr("2 bad"), HasSubstr("3 good")));
}

TEST_F(InputReaderTest, PackedFilesAreReadByTheirNamesInside) {
  EXPECT_THAT(ReadFile("a.txt.gz", Gzip("one\n") + Gzip("two\n")),
              ElementsAre("1 good request-1 " + Chat("one"), "2 good request-2 " + Chat("two")));
  EXPECT_THAT(ReadFile("a.CSV.zst", Zstd("topic\nowls\n")), ElementsAre(HasSubstr("--template")));
  EXPECT_THAT(ReadFile("a.csv.gz", Gzip("\xEF\xBB\xBFtopic\nowls\n")),
              ElementsAre("2 good request-2 " + Chat("owls")));
  // Told by its bytes, not by its name.
  EXPECT_THAT(ReadFile("a.jsonl", Zstd("{\"prompt\":\"a\"}\n")), ElementsAre(HasSubstr("1 good")));
  EXPECT_THAT(ReadFile("a.jsonl.gz", "{\"prompt\":\"a\"}\n"), ElementsAre(HasSubstr("1 good")));
}

TEST_F(InputReaderTest, ACutOffArchiveIsAnErrorNotAShortJob) {
  std::string text;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&text, "{\"prompt\":\"", i * 7919, "\"}\n");
  const std::string packed = Gzip(text);
  const std::vector<std::string> items =
      ReadFile("a.jsonl.gz", packed.substr(0, packed.size() / 2));
  EXPECT_THAT(items.back(), HasSubstr("error: "));
  EXPECT_THAT(items.back(), HasSubstr("ends in the middle"));
}

TEST_F(InputReaderTest, GarbageBehindAnArchiveIsAWarning) {
  EXPECT_THAT(ReadFile("a.txt.gz", Gzip("one\n") + "garbage"), ElementsAre(HasSubstr("1 good")));
  EXPECT_THAT(reader_->Warnings(), ElementsAre(HasSubstr("left out")));
  EXPECT_EQ(reader_->ContentHash(), *HashFile(folder_.Path("a.txt.gz")));
  // More than a buffer of it, which nobody has to unpack.
  ReadFile("b.txt.gz", Gzip("one\n") + std::string(3 << 20, 'g'));
  EXPECT_EQ(reader_->ContentHash(), *HashFile(folder_.Path("b.txt.gz")));
}

TEST_F(InputReaderTest, ContentHashIsThatOfTheFile) {
  for (const std::string name : {"a.txt", "a.txt.gz"}) {
    ReadFile(name, name == "a.txt" ? "one\ntwo\n" : Gzip("one\ntwo\n"));
    EXPECT_EQ(reader_->ContentHash(), *HashFile(folder_.Path(name)));
  }
}

TEST_F(InputReaderTest, ContentHashUnderALimitFollowsTheLinesTaken) {
  const auto hash = [&](const std::string& name, absl::string_view text) {
    InputOptions options;
    options.path = folder_.Write(name, text);
    options.limit = 2;
    Read(options);
    return reader_->ContentHash();
  };
  EXPECT_EQ(hash("a.txt", "1\n2\n3\n"), hash("b.txt", "1\n2\n4\n"));
  EXPECT_NE(hash("a.txt", "1\n2\n3\n"), hash("b.txt", "1\n9\n3\n"));
}

TEST_F(InputReaderTest, CsvRowsBecomePrompts) {
  InputOptions options;
  options.prompt_template = "Write about {{topic}} for {{who}}";
  options.path = folder_.Write(
      "a.csv", "custom_id, topic ,who\nx1,\"owls, and\nmice\",Jo\n,dogs,\"say \"\"hi\"\"\"\r\n");
  EXPECT_THAT(Read(options),
              ElementsAre("2 good x1 " + Chat("Write about owls, and\\nmice for Jo"),
                          "4 good request-4 " + Chat("Write about dogs for say \\\"hi\\\"")));
  EXPECT_EQ(reader_->delimiter(), ',');
  EXPECT_THAT(reader_->columns(), ElementsAre("custom_id", "topic", "who"));
  EXPECT_THAT(reader_->Warnings(), IsEmpty());
}

TEST_F(InputReaderTest, CsvOfSpreadsheetsElsewhere) {
  EXPECT_THAT(ReadFile("a.csv", "topic;n\nowls, mice;1\n"),
              ElementsAre("2 good request-2 " + Chat("owls, mice")));
  EXPECT_EQ(reader_->delimiter(), ';');
  InputOptions options;
  options.prompt_template = "{{topic}}";
  options.path = folder_.Write("a.tsv", "topic\tn,m,k,l\nowls\t1\n");
  EXPECT_THAT(Read(options), ElementsAre("2 good request-2 " + Chat("owls")));
}

TEST_F(InputReaderTest, CsvRowsThatCannotBeUsedAreBadLines) {
  EXPECT_THAT(
      ReadFile("a.csv", "custom_id,topic\na,owls\nb\nc,d,e\nf,caf\xE9\n\"g\"h,i\nj,k\n"),
      ElementsAre(HasSubstr("2 good a"), "3 bad b||the row has 1 cells, the header has 2",
                  "4 bad c||the row has 3 cells, the header has 2",
                  HasSubstr("5 bad f|topic|invalid UTF-8 at byte 4"),
                  HasSubstr("6 bad ||has text behind the closing quote"), HasSubstr("7 good j")));
  EXPECT_THAT(ReadFile("a.csv", absl::StrCat("custom_id,topic\n", std::string(513, 'i'), ",x\n")),
              ElementsAre(HasSubstr("2 bad |custom_id|is 513 bytes long")));
}

TEST_F(InputReaderTest, CsvWithAnUnclosedQuoteSaysWhereItOpened) {
  EXPECT_THAT(ReadFile("a.csv", "topic\nowls\n\"mice\ncats\ndogs\n"),
              ElementsAre(HasSubstr("2 good"), AllOf(HasSubstr("a.csv: "), HasSubstr("line 3"))));
}

TEST_F(InputReaderTest, CsvHeadersAreChecked) {
  EXPECT_THAT(ReadFile("a.csv", "topic, topic\nx,y\n"),
              ElementsAre(HasSubstr("two columns are called \"topic\"")));
  EXPECT_THAT(ReadFile("a.csv", "title,n\nx,y\n"),
              ElementsAre(AllOf(HasSubstr("no column \"topic\""), HasSubstr("title, n"))));
  EXPECT_THAT(ReadFile("a.csv", "topic,,\nx,y,z\n"), ElementsAre(HasSubstr("2 good")));
}

TEST_F(InputReaderTest, CsvEmptyValuesAreAWarningWithTheirCount) {
  ReadFile("a.csv", "topic,n\n,1\nx,2\n ,3\n");
  EXPECT_EQ(reader_->stats().empty_values, 2);
  EXPECT_THAT(reader_->Warnings(), ElementsAre(AllOf(HasSubstr("2 rows"), HasSubstr("line 2"))));
}

TEST_F(InputReaderTest, OptionsThatDoNotFitAreRefusedBeforeAnythingIsRead) {
  InputOptions options;
  options.path = folder_.Write("a.csv", "custom_id,topic\nx,y\n");
  EXPECT_THAT(Read(options),
              ElementsAre(AllOf(HasSubstr("needs --template"), HasSubstr("{{topic}}"))));
  options.path = folder_.Write("a.jsonl", "{}\n");
  options.prompt_template = "{{x}}";
  EXPECT_THAT(Read(options), ElementsAre(HasSubstr("--template is for CSV")));
  options = {};
  options.path = folder_.Write("a.txt", "x\n");
  options.request.endpoint = Endpoint::kRerank;
  EXPECT_THAT(Read(options), ElementsAre(HasSubstr("takes no plain prompt")));
  options.request.endpoint = Endpoint::kCompletions;
  options.request.system = "s";
  EXPECT_THAT(Read(options), ElementsAre(HasSubstr("--system has no meaning")));
  options.request.system = "";
  EXPECT_THAT(Read(options), ElementsAre("1 good request-1 {\"prompt\":\"x\"}"));
}

TEST_F(InputReaderTest, MissingFilesFoldersAndLockedFilesAreSaidInWords) {
  InputOptions options;
  options.path = folder_.Path("none.jsonl");
  EXPECT_TRUE(absl::IsNotFound(InputReader::Open(options).status()));
  options.path = folder_.Path("");
  EXPECT_THAT(Read(options), ElementsAre(HasSubstr("is a folder")));
  options.path = "";
  EXPECT_THAT(Read(options), ElementsAre(HasSubstr("no name")));
  if (geteuid() != 0) {
    options.path = folder_.Write("locked.jsonl", "{}");
    std::filesystem::permissions(options.path, std::filesystem::perms::none);
    EXPECT_TRUE(absl::IsPermissionDenied(InputReader::Open(options).status()));
  }
}

TEST_F(InputReaderTest, ReadingCanBeCancelled) {
  InputOptions options;
  options.path = folder_.Write("a.txt", "x\n");
  options.cancelled = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(InputReader::Open(options).status()));
}

TEST(InputNameTest, FormatAndStem) {
  EXPECT_EQ(InputFormatOf("a.txt"), InputFormat::kText);
  EXPECT_EQ(InputFormatOf("in/A.TXT.GZ"), InputFormat::kText);
  EXPECT_EQ(InputFormatOf("a.csv.zst"), InputFormat::kCsv);
  EXPECT_EQ(InputFormatOf("a.jsonl"), InputFormat::kJsonLines);
  EXPECT_EQ(InputFormatOf("a.csv.jsonl"), InputFormat::kJsonLines);
  EXPECT_EQ(InputFormatOf("-"), InputFormat::kJsonLines);
  EXPECT_EQ(InputStem("in/a.b.csv.gz"), "a.b");
  EXPECT_EQ(InputStem("prompts.jsonl"), "prompts");
  EXPECT_EQ(InputStem("../x/.hidden"), ".hidden");
  EXPECT_EQ(InputStem("noext"), "noext");
  EXPECT_EQ(InputStem("-"), "stdin");
}

// Whatever the bytes, reading ends, and with a reason for what is bad.
TEST_F(InputReaderTest, RandomBytesNeverHangOrCrash) {
  const uint64_t seed = Random::FromSystem().Next();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  for (int round = 0; round < 600; ++round) {
    std::string bytes = round % 3 == 0 ? "topic,b\n" : "";
    for (uint64_t i = random.Below(200); i > 0; --i) {
      bytes.push_back(random.Chance(0.5) ? "{}\",:\n\r[x;"[random.Below(10)]
                                         : static_cast<char>(random.Below(256)));
    }
    const std::string name = round % 3 == 0 ? "f.csv" : round % 3 == 1 ? "f.txt" : "f.jsonl";
    const std::vector<std::string> items = ReadFile(name, bytes);
    EXPECT_LE(items.size(), bytes.size() + 1);
  }
}

}  // namespace
}  // namespace nightshift
