#include "client/sim/sim_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nightshift {
namespace {

using testing::HasSubstr;

SimRequest Parse(Endpoint endpoint, absl::string_view body, uint64_t seed = 1) {
  absl::StatusOr<SimRequest> request = ParseSimRequest(endpoint, body, seed, true);
  EXPECT_TRUE(request.ok()) << request.status() << " " << body;
  return request.ok() ? *std::move(request) : SimRequest();
}

SimRequest Chat(absl::string_view text, absl::string_view more = "") {
  return Parse(Endpoint::kChatCompletions,
               absl::StrCat(R"({"model":"m","messages":[{"role":"user","content":")", text,
                            R"("}])", more, "}"));
}

std::string Reason(Endpoint endpoint, absl::string_view body) {
  return std::string(ParseSimRequest(endpoint, body, 1, true).status().message());
}

TEST(SimRequestTest, ReadsWhatAServerNeedsOfAChat) {
  const SimRequest request = Chat("eight by", R"(,"max_tokens":17,"stream":true,"n":2,
      "stream_options":{"include_usage":true})");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.max_tokens, 17);
  EXPECT_EQ(request.prompt_tokens, 2);
  EXPECT_EQ(request.choices, 2);
  EXPECT_EQ(request.inputs, 1);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
}

TEST(SimRequestTest, NewerNameOfTheMaximumWinsAndNumbersMayHaveExponents) {
  EXPECT_EQ(Chat("x", R"(,"max_completion_tokens":1e3,"max_tokens":5)").max_tokens, 1000);
  EXPECT_EQ(
      Parse(Endpoint::kResponses, R"({"model":"m","input":"x","max_output_tokens":9})").max_tokens,
      9);
}

TEST(SimRequestTest, PromptTextIsFoundInAllShapes) {
  EXPECT_EQ(Parse(Endpoint::kChatCompletions,
                  R"({"model":"m","messages":[{"role":"system","content":"abcd"},
                      {"role":"user","content":[{"type":"text","text":"efgh"}]}]})")
                .prompt_tokens,
            3);  // nine bytes with the line break between
  EXPECT_EQ(Parse(Endpoint::kMessages,
                  R"({"model":"m","system":"abcd","messages":[{"role":"user","content":"efg"}]})")
                .prompt_tokens,
            2);
  const SimRequest numbers = Parse(Endpoint::kCompletions, R"({"model":"m","prompt":[1,2,3,4,5]})");
  EXPECT_EQ(numbers.prompt_tokens, 5 + 0);
  EXPECT_EQ(numbers.inputs, 1);
  const SimRequest two = Parse(Endpoint::kEmbeddings, R"({"model":"m","input":["a,\"[","b"]})");
  EXPECT_EQ(two.inputs, 2);
}

TEST(SimRequestTest, MarkIsTheSha1OfTheBodysBytes) {
  EXPECT_EQ(Parse(Endpoint::kCompletions, R"({"model":"m","prompt":"hi"})").mark, "35264829d4a4");
  EXPECT_NE(Parse(Endpoint::kCompletions, R"({"model":"m","prompt":"hi"})").mark,
            Parse(Endpoint::kCompletions, R"({"model":"m", "prompt":"hi"})").mark);
}

TEST(SimRequestTest, HashTakesTheSeedIn) {
  const absl::string_view body = R"({"model":"m","prompt":"hi"})";
  EXPECT_EQ(Parse(Endpoint::kCompletions, body, 1).hash,
            Parse(Endpoint::kCompletions, body, 1).hash);
  EXPECT_NE(Parse(Endpoint::kCompletions, body, 1).hash,
            Parse(Endpoint::kCompletions, body, 2).hash);
}

TEST(SimRequestTest, KeyComesFromDirectivePlainTextOrMark) {
  EXPECT_EQ(Chat(R"(<<{\"key\":\"r7\"}>> hello)").key, "r7");
  EXPECT_EQ(Chat("please answer key=row-12, thanks").key, "row-12");
  const SimRequest none = Chat("hello");
  EXPECT_EQ(none.key, none.mark);
  EXPECT_FALSE(none.key_given);
}

TEST(SimRequestTest, DirectiveIsReadWhole) {
  const SimDirective d =
      Chat(R"(<<{\"status\":429,\"times\":2,\"delay\":0.5,\"headers\":{\"retry-after\":\"1\"},)"
           R"(\"tokens\":40,\"drop\":\"mid\",\"sse_cut\":3,\"body\":{\"a\":1}}>>)")
          .directive;
  EXPECT_EQ(d.status, 429);
  EXPECT_EQ(d.times, 2);
  EXPECT_EQ(d.delay, absl::Milliseconds(500));
  EXPECT_THAT(d.headers, testing::ElementsAre(testing::Pair("retry-after", "1")));
  EXPECT_EQ(d.tokens, 40);
  EXPECT_TRUE(d.drop_mid);
  EXPECT_FALSE(d.drop_before);
  EXPECT_EQ(d.sse_cut, 3);
  EXPECT_EQ(d.body, R"({"a":1})");
}

TEST(SimRequestTest, BrokenDirectiveIsPlainText) {
  EXPECT_EQ(Chat("<<{oops}>>").directive.status, 0);
  EXPECT_EQ(Chat(R"(<<{\"status\":500)").directive.status, 0);
  const absl::StatusOr<SimRequest> off = ParseSimRequest(
      Endpoint::kCompletions, R"({"model":"m","prompt":"<<{\"status\":500}>>"})", 1, false);
  ASSERT_TRUE(off.ok());
  EXPECT_EQ(off->directive.status, 0);
}

TEST(SimRequestTest, UnusableBodiesAreRefusedWithTheField) {
  EXPECT_THAT(Reason(Endpoint::kChatCompletions, "not json"), testing::Not(HasSubstr("OK")));
  EXPECT_THAT(Reason(Endpoint::kChatCompletions, R"({"messages":[{}]})"), HasSubstr("model"));
  EXPECT_THAT(Reason(Endpoint::kChatCompletions, R"({"model":"m"})"), HasSubstr("messages"));
  EXPECT_THAT(Reason(Endpoint::kChatCompletions, R"({"model":"m","messages":[]})"),
              HasSubstr("messages"));
  EXPECT_THAT(Reason(Endpoint::kCompletions, R"({"model":"m"})"), HasSubstr("prompt"));
}

}  // namespace
}  // namespace nightshift
