#include "worker/backends/sse_parser.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Frames as "event|data".
std::vector<std::string> Frames(const std::string& bytes, size_t piece) {
  std::vector<std::string> frames;
  SseParser parser;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    EXPECT_TRUE(parser.Push(bytes.substr(at, piece), [&](auto event, auto data) {
      frames.push_back(std::string(event) + "|" + std::string(data));
    }));
  }
  return frames;
}

TEST(SseParserTest, FramesAreTheSameForEveryChunking) {
  const std::string stream =
      "\xEF\xBB\xBF"
      ": ping\n\n"
      "data: one\n\n"
      "event: error\r\ndata:two\r\n\r\n"
      "data: a\rdata: b\r\r"
      "id: 7\nretry: 3\ndata\n\n"
      "data:  kept blank\n\n"
      "data: {\"x\":\"\xC3\xA4: y\"}\n\n"
      "data: [DONE]\n\n";
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    EXPECT_THAT(Frames(stream, piece),
                ElementsAre("|one", "error|two", "|a\nb", "|", "| kept blank",
                            "|{\"x\":\"\xC3\xA4: y\"}", "|[DONE]"))
        << "in pieces of " << piece;
  }
}

TEST(SseParserTest, FrameCutOffByTheEndIsDropped) {
  EXPECT_THAT(Frames("data: whole\n\ndata: half\n", 100), ElementsAre("|whole"));
}

TEST(SseParserTest, EventWithoutDataIsNoFrame) {
  EXPECT_THAT(Frames("event: ping\n\n: comment\n\n\n\n", 100), IsEmpty());
}

// An event's name belongs to its own frame alone.
TEST(SseParserTest, EventNameDoesNotOutliveItsFrame) {
  EXPECT_THAT(Frames("event: error\n\ndata: x\n\n", 100), ElementsAre("|x"));
}

TEST(SseParserTest, LongLinesAreTakenUpToTheBound) {
  const std::string long_delta(70 * 1024, 'x');
  EXPECT_THAT(Frames("data: " + long_delta + "\n\n", 1000), ElementsAre("|" + long_delta));

  SseParser parser;
  const std::string megabyte(1 << 20, 'x');
  size_t taken = 0;
  while (parser.Push(megabyte, [](auto, auto) { FAIL(); })) taken += megabyte.size();
  EXPECT_EQ(taken, SseParser::kFrameBytesMax);
}

TEST(SseParserTest, ManyDataLinesOfOneFrameAreBoundedToo) {
  SseParser parser;
  const std::string line = "data: " + std::string(1 << 20, 'x') + "\n";
  size_t lines = 0;
  while (parser.Push(line, [](auto, auto) { FAIL(); })) ++lines;
  EXPECT_EQ(lines, (SseParser::kFrameBytesMax >> 20) - 1);
}

}  // namespace
}  // namespace nightshift
