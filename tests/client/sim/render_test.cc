#include "client/sim/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/json.h"

namespace nightshift {
namespace {

using testing::HasSubstr;
using testing::Not;

SimRequest Request(Endpoint endpoint) {
  SimRequest request;
  request.endpoint = endpoint;
  request.model = "a \"model\"";
  request.mark = "0123456789ab";
  request.hash = 99;
  request.prompt_tokens = 11;
  return request;
}

// The frames of a stream without "data: ".
std::vector<std::string> Frames(absl::string_view text) {
  std::vector<std::string> frames;
  for (absl::string_view frame : absl::StrSplit(text, "\n\n", absl::SkipEmpty())) {
    EXPECT_TRUE(absl::StartsWith(frame, "data: ")) << frame;
    frames.push_back(std::string(frame.substr(6)));
  }
  return frames;
}

TEST(RenderAnswerTest, EveryEndpointAnswersValidJsonWithUsage) {
  for (int i = 1; i <= 8; ++i) {
    SimRequest request = Request(static_cast<Endpoint>(i));
    request.inputs = i == 4 || i == 6 ? 1 : 3;
    const std::string body = RenderAnswer(request, {5, false}, nullptr);
    EXPECT_TRUE(CheckJson(body).ok()) << body;
    EXPECT_THAT(body, HasSubstr("0123456789ab")) << "the mark must be in every answer";
    EXPECT_THAT(body, HasSubstr(R"("model":"a \"model\"")"));
    EXPECT_EQ(body.find("usage") != std::string::npos, request.endpoint != Endpoint::kModerations);
  }
}

TEST(RenderAnswerTest, ChatHasTextFinishReasonAndUsage) {
  const std::string body = RenderAnswer(Request(Endpoint::kChatCompletions), {2, true}, nullptr);
  EXPECT_THAT(body, HasSubstr(R"("content":"echo:0123456789ab )"));
  EXPECT_THAT(body, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_THAT(body,
              HasSubstr(R"("usage":{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13})"));
  EXPECT_THAT(body, Not(HasSubstr("time_info")));
}

TEST(RenderAnswerTest, ChoicesAreCountedAndDiffer) {
  SimRequest request = Request(Endpoint::kCompletions);
  request.inputs = 2;
  request.choices = 2;
  const std::string body = RenderAnswer(request, {10, false}, nullptr);
  EXPECT_THAT(body, HasSubstr(R"("index":3)"));
  EXPECT_THAT(body, Not(HasSubstr(R"("index":4)")));
  EXPECT_THAT(body, HasSubstr(R"("completion_tokens":40)"));
  EXPECT_THAT(body, HasSubstr(SimText("0123456789ab", 99, 10).whole()));
  EXPECT_THAT(body, HasSubstr(SimText("0123456789ab", 100, 10).whole()));
}

TEST(RenderAnswerTest, CerebrasTellsItsTimesInSeconds) {
  const SimTimeInfo time = {absl::Milliseconds(2), absl::Milliseconds(50)};
  const std::string body = RenderAnswer(Request(Endpoint::kChatCompletions), {100, false}, &time);
  EXPECT_TRUE(CheckJson(body).ok()) << body;
  EXPECT_THAT(body, HasSubstr(R"("prompt_time":0.002000,"completion_time":0.050000)"));
}

TEST(RenderAnswerTest, EqualRequestsGetEqualBytes) {
  for (int i = 1; i <= 8; ++i) {
    const SimRequest request = Request(static_cast<Endpoint>(i));
    EXPECT_EQ(RenderAnswer(request, {9, false}, nullptr),
              RenderAnswer(request, {9, false}, nullptr));
  }
}

TEST(RenderErrorTest, ShapesFollowTheProfile) {
  const SimError error = {429, "too \"many\"", "t", "p", "c", {}};
  EXPECT_EQ(RenderError(SimProfile::kCerebras, error),
            R"({"message":"too \"many\"","type":"t","param":"p","code":"c"})");
  EXPECT_EQ(RenderError(SimProfile::kGpu, error),
            R"({"error":{"message":"too \"many\"","type":"t","param":"p","code":429}})");
  EXPECT_EQ(RenderError(SimProfile::kInstant, {404, "m", "t", "", "c", {}}),
            R"({"error":{"message":"m","type":"t","param":null,"code":"c"}})");
}

TEST(SimStreamTest, FramesOfAChatCarryTheSameTextAsAWholeAnswer) {
  SimRequest request = Request(Endpoint::kChatCompletions);
  request.include_usage = true;
  const SimStream stream(SimProfile::kGpu, request, {6, false});
  EXPECT_THAT(stream.Open(0), HasSubstr(R"("role":"assistant")"));
  std::string text;
  for (int64_t i = 0; i < 6; i += 4) {
    for (const std::string& frame : Frames(stream.Delta(0, i, i + 4))) {
      ASSERT_TRUE(CheckJson(frame).ok()) << frame;
      const size_t begin = frame.find("\"content\":\"") + 11;
      text += frame.substr(begin, frame.find('"', begin) - begin);
    }
  }
  EXPECT_EQ(text, SimText("0123456789ab", 99, 6).whole());
  const std::vector<std::string> last = Frames(stream.Close(nullptr));
  ASSERT_EQ(last.size(), 3u);
  EXPECT_THAT(last[0], HasSubstr(R"("delta":{},"logprobs":null,"finish_reason":"stop")"));
  EXPECT_THAT(last[1], HasSubstr(R"("choices":[],"usage":{"prompt_tokens":11)"));
  EXPECT_TRUE(CheckJson(last[1]).ok());
  EXPECT_EQ(last[2], "[DONE]");
}

TEST(SimStreamTest, UsageComesOnlyWhenAskedFor) {
  const SimRequest request = Request(Endpoint::kChatCompletions);
  EXPECT_THAT(SimStream(SimProfile::kGpu, request, {6, false}).Close(nullptr),
              Not(HasSubstr("usage")));
}

TEST(SimStreamTest, CerebrasPutsUsageAndTimesIntoItsLastFrame) {
  const SimRequest request = Request(Endpoint::kChatCompletions);
  const SimTimeInfo time = {absl::Milliseconds(2), absl::Milliseconds(50)};
  const auto frames = Frames(SimStream(SimProfile::kCerebras, request, {6, false}).Close(&time));
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_TRUE(CheckJson(frames[0]).ok()) << frames[0];
  EXPECT_THAT(frames[0], HasSubstr("\"usage\""));
  EXPECT_THAT(frames[0], HasSubstr("time_info"));
}

TEST(SimStreamTest, TextCompletionsHaveNoRole) {
  const SimRequest request = Request(Endpoint::kCompletions);
  const SimStream stream(SimProfile::kInstant, request, {3, false});
  EXPECT_EQ(stream.Open(0), "");
  EXPECT_THAT(stream.Delta(0, 0, 3), HasSubstr(R"("text":"echo:0123456789ab )"));
}

TEST(RenderModelsTest, ListsAll) {
  const std::string body = RenderModels({"a", "b\"c"}, 4096);
  EXPECT_TRUE(CheckJson(body).ok()) << body;
  EXPECT_THAT(body, HasSubstr(R"("id":"b\"c")"));
  EXPECT_THAT(body, HasSubstr(R"("max_model_len":4096)"));
}

}  // namespace
}  // namespace nightshift
