#include "worker/backends/json_lines_parser.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;

TEST(JsonLinesParserTest, LinesAreTheSameForEveryChunking) {
  const std::string stream = "{\"a\":\"\xC3\xA4\"}\n\r\n  {\"b\":2}\r\n\n{\"done\":true}";
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    JsonLinesParser parser;
    std::vector<std::string> lines;
    const auto take = [&](auto event, auto data) {
      EXPECT_EQ(event, "");
      lines.emplace_back(data);
    };
    for (size_t at = 0; at < stream.size(); at += piece)
      ASSERT_TRUE(parser.Push(stream.substr(at, piece), take));
    EXPECT_THAT(lines, ElementsAre("{\"a\":\"\xC3\xA4\"}", "{\"b\":2}")) << piece;
    parser.Finish(take);
    EXPECT_THAT(lines, ElementsAre("{\"a\":\"\xC3\xA4\"}", "{\"b\":2}", "{\"done\":true}"));
    parser.Finish(take);
    EXPECT_EQ(lines.size(), 3u);
  }
}

TEST(JsonLinesParserTest, LongLinesAreTakenUpToTheBound) {
  JsonLinesParser parser;
  const std::string half(SseParser::kFrameBytesMax / 2, 'x');
  const auto ignore = [](auto, auto) {};
  EXPECT_TRUE(parser.Push(half, ignore));
  EXPECT_TRUE(parser.Push(half, ignore));
  EXPECT_FALSE(parser.Push("x", ignore));
}

}  // namespace
}  // namespace nightshift
