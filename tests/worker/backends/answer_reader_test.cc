#include "worker/backends/answer_reader.h"

#include <string>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/backends/lenient_json.h"
#include "worker/backends/repetition.h"

namespace nightshift {
namespace {

using ::testing::HasSubstr;

AnswerFacts Read(Endpoint endpoint, int status, std::string body) {
  AnswerReader reader;
  const std::string before = body;
  AnswerFacts facts = reader.Read(endpoint, status, body);
  EXPECT_EQ(body, before);
  return facts;
}

AnswerFacts ReadChat(const std::string& body) {
  return Read(Endpoint::kChatCompletions, 200, body);
}

TEST(AnswerReaderTest, ReadsAChatAnswer) {
  const AnswerFacts facts = ReadChat(
      R"({"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",
      "content":"4"},"finish_reason":"stop"}],"usage":{"prompt_tokens":70,"completion_tokens":21,
      "total_tokens":91},"time_info":{"queue_time":0.5,"prompt_time":0.25,"total_time":1}})");
  EXPECT_TRUE(facts.is_json);
  EXPECT_TRUE(facts.has_answer);
  EXPECT_FALSE(facts.empty_answer);
  EXPECT_EQ(facts.finish_reason, "stop");
  EXPECT_TRUE(facts.usage_known);
  EXPECT_EQ(facts.prompt_tokens, 70);
  EXPECT_EQ(facts.completion_tokens, 21);
  EXPECT_EQ(facts.ttft_ms, 750);
  EXPECT_EQ(facts.incomplete, "");
  EXPECT_EQ(facts.error_message, "");
}

// Sums over a job are made of these; what cannot be is as good as not told.
TEST(AnswerReaderTest, ATokenCountThatCannotBeIsNotKnown) {
  const AnswerFacts huge = ReadChat(
      R"({"choices":[],"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":-4}})");
  EXPECT_FALSE(huge.usage_known);
  EXPECT_EQ(huge.prompt_tokens, 0);
  EXPECT_EQ(huge.completion_tokens, 0);
  const AnswerFacts half =
      ReadChat(R"({"choices":[],"usage":{"prompt_tokens":5.0,"completion_tokens":-4}})");
  EXPECT_TRUE(half.usage_known);
  EXPECT_EQ(half.prompt_tokens, 5);
  EXPECT_EQ(half.completion_tokens, 0);
}

// Which bodies are answers, and which of these are empty, for each endpoint.
struct ShapeCase {
  Endpoint endpoint;
  const char* body;
  bool has_answer;
  bool empty_answer;
};

class AnswerShapeTest : public ::testing::TestWithParam<ShapeCase> {};

TEST_P(AnswerShapeTest, IsRecognized) {
  const ShapeCase& c = GetParam();
  const AnswerFacts facts = Read(c.endpoint, 200, c.body);
  EXPECT_TRUE(facts.is_json) << c.body;
  EXPECT_EQ(facts.has_answer, c.has_answer) << c.body;
  EXPECT_EQ(facts.empty_answer, c.empty_answer) << c.body;
}

INSTANTIATE_TEST_SUITE_P(
    Endpoints, AnswerShapeTest,
    ::testing::Values(
        ShapeCase{Endpoint::kChatCompletions, R"({"choices":[{"message":{"content":"x"}}]})", true,
                  false},
        ShapeCase{Endpoint::kChatCompletions, R"({"choices":[{"message":{"content":""}}]})", true,
                  true},
        ShapeCase{Endpoint::kChatCompletions, R"({"choices":[{"message":{"content":" \n"}}]})",
                  true, true},
        ShapeCase{Endpoint::kChatCompletions, R"({"choices":[{"message":{"content":null}}]})", true,
                  true},
        ShapeCase{Endpoint::kChatCompletions,
                  R"({"choices":[{"message":{"content":null,"tool_calls":[{"id":"t"}]}}]})", true,
                  false},
        ShapeCase{Endpoint::kChatCompletions,
                  R"({"choices":[{"message":{"content":null,"tool_calls":[]}}]})", true, true},
        ShapeCase{Endpoint::kChatCompletions,
                  R"({"choices":[{"message":{"content":null,"function_call":{"name":"f"}}}]})",
                  true, false},
        ShapeCase{Endpoint::kChatCompletions,
                  R"({"choices":[{"message":{"content":null,"refusal":"no"}}]})", true, false},
        ShapeCase{Endpoint::kChatCompletions,
                  R"({"choices":[{"message":{"content":[{"type":"text","text":"x"}]}}]})", true,
                  false},
        ShapeCase{Endpoint::kChatCompletions,
                  R"({"choices":[{"message":{"content":[{"type":"text","text":""}]}}]})", true,
                  true},
        ShapeCase{Endpoint::kChatCompletions,
                  R"({"choices":[{"message":{"content":"","reasoning":"thought"}}]})", true, true},
        ShapeCase{Endpoint::kChatCompletions,
                  R"({"choices":[{"message":{"content":""}},{"message":{"content":"x"}}]})", true,
                  false},
        ShapeCase{Endpoint::kChatCompletions,
                  R"({"choices":[{"message":{"content":"x"}},{"text":"y"}]})", false, false},
        ShapeCase{Endpoint::kChatCompletions, R"({"choices":[]})", false, false},
        ShapeCase{Endpoint::kChatCompletions, R"({"choices":{}})", false, false},
        ShapeCase{Endpoint::kChatCompletions, R"({"choices":[{"text":"x"}]})", false, false},
        ShapeCase{Endpoint::kChatCompletions, R"({"choices":[null]})", false, false},
        ShapeCase{Endpoint::kChatCompletions, R"({})", false, false},
        ShapeCase{Endpoint::kChatCompletions, R"(null)", false, false},
        ShapeCase{Endpoint::kChatCompletions, R"([])", false, false},
        ShapeCase{Endpoint::kCompletions, R"({"choices":[{"text":"x"}]})", true, false},
        ShapeCase{Endpoint::kCompletions, R"({"choices":[{"text":""}]})", true, true},
        ShapeCase{Endpoint::kCompletions, R"({"choices":[{"message":{}}]})", false, false},
        ShapeCase{Endpoint::kEmbeddings, R"({"data":[{"embedding":[0.5]}]})", true, false},
        ShapeCase{Endpoint::kEmbeddings, R"({"data":[{"embedding":"AAA="}]})", true, false},
        ShapeCase{Endpoint::kEmbeddings, R"({"data":[{"embedding":[]}]})", true, true},
        ShapeCase{Endpoint::kEmbeddings, R"({"data":[]})", true, true},
        ShapeCase{Endpoint::kEmbeddings, R"({"data":[{"object":"x"}]})", false, false},
        ShapeCase{
            Endpoint::kResponses,
            R"({"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}]})",
            true, false},
        ShapeCase{
            Endpoint::kResponses,
            R"({"status":"completed","output":[{"type":"reasoning"},{"type":"message","content":[{"type":"output_text","text":""}]}]})",
            true, true},
        ShapeCase{Endpoint::kResponses,
                  R"({"status":"completed","output":[{"type":"function_call"}]})", true, false},
        ShapeCase{Endpoint::kResponses, R"({"status":"queued","output":[]})", false, false},
        ShapeCase{Endpoint::kResponses,
                  R"({"status":"failed","output":[],"error":{"message":"m"}})", false, false},
        ShapeCase{Endpoint::kMessages,
                  R"({"type":"message","content":[{"type":"text","text":"x"}]})", true, false},
        ShapeCase{Endpoint::kMessages,
                  R"({"type":"message","content":[{"type":"thinking","thinking":"x"}]})", true,
                  true},
        ShapeCase{Endpoint::kMessages, R"({"type":"message","content":[{"type":"tool_use"}]})",
                  true, false},
        ShapeCase{Endpoint::kMessages, R"({"type":"message","content":[]})", true, true},
        ShapeCase{Endpoint::kModerations, R"({"results":[{"flagged":false}]})", true, false},
        ShapeCase{Endpoint::kModerations, R"({"results":[]})", true, true},
        ShapeCase{Endpoint::kRerank, R"({"results":[{"index":0,"relevance_score":0.5}]})", true,
                  false},
        ShapeCase{Endpoint::kRerank, R"([{"index":0,"score":0.5}])", true, false},
        ShapeCase{Endpoint::kScore, R"({"data":[{"score":0.5}]})", true, false},
        ShapeCase{Endpoint::kScore, R"({"results":[]})", false, false}));

// Every shape of error body, at the status that it comes with.
struct ErrorCase {
  int status;
  const char* body;
  const char* message;
  const char* type;
  const char* code;
};

class ErrorShapeTest : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(ErrorShapeTest, IsRead) {
  const ErrorCase& c = GetParam();
  const AnswerFacts facts = Read(Endpoint::kChatCompletions, c.status, c.body);
  EXPECT_EQ(facts.error_message, c.message) << c.body;
  EXPECT_EQ(facts.error_type, c.type) << c.body;
  EXPECT_EQ(facts.error_code, c.code) << c.body;
  EXPECT_FALSE(facts.has_answer);
}

INSTANTIATE_TEST_SUITE_P(
    Servers, ErrorShapeTest,
    ::testing::Values(
        ErrorCase{
            400,
            R"({"error":{"message":"m","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}})",
            "m", "invalid_request_error", "context_length_exceeded"},
        ErrorCase{400,
                  R"({"error":{"message":"m","type":"BadRequestError","param":null,"code":400}})",
                  "m", "BadRequestError", "400"},
        ErrorCase{429, R"({"error":{"message":"m","type":null,"code":null}})", "m", "", ""},
        ErrorCase{
            400,
            R"({"object":"error","message":"m","type":"BadRequestError","param":null,"code":400})",
            "m", "BadRequestError", "400"},
        ErrorCase{
            429,
            R"({"message":"m","type":"too_many_requests_error","param":"queue","code":"queue_exceeded"})",
            "m", "too_many_requests_error", "queue_exceeded"},
        ErrorCase{403, R"({"detail":"Not authenticated"})", "Not authenticated", "", ""},
        ErrorCase{
            422,
            R"({"detail":[{"loc":["body","messages",0,"role"],"msg":"field required","type":"missing"},{"loc":["body","n"],"msg":"not a number","type":"int"}]})",
            "body.messages.0.role: field required; body.n: not a number", "missing", ""},
        ErrorCase{400, R"({"detail":{"error":{"message":"m","code":7}}})", "m", "", "7"},
        ErrorCase{429, R"({"error":"Model is overloaded","error_type":"overloaded"})",
                  "Model is overloaded", "overloaded", ""},
        ErrorCase{503,
                  R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})",
                  "Loading model", "unavailable_error", "503"},
        ErrorCase{529,
                  R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})",
                  "Overloaded", "overloaded_error", ""},
        ErrorCase{422, R"({"error":{"message":"m","http_status_code":422}})", "m", "", "422"},
        ErrorCase{
            503,
            R"({"error":{"id":"","message":"m","param":"","type":"server_error"},"status_code":503})",
            "m", "server_error", "503"},
        ErrorCase{500, R"({"error":{"message":"Streaming response failed: [503] queue full"}})",
                  "Streaming response failed: [503] queue full", "", "503"},
        ErrorCase{400, R"({"errors":[{"code":7003,"message":"No route"}],"success":false})",
                  "No route", "", "7003"},
        ErrorCase{500, R"(["m"])", "m", "", ""}, ErrorCase{500, R"("m")", "m", "", ""},
        ErrorCase{500, R"({})", "", "", ""}, ErrorCase{500, R"(null)", "", "", ""},
        ErrorCase{503, "server busy, please try again.\n", "server busy, please try again.", "",
                  ""},
        ErrorCase{502, "<html>\r\n<head><title>502 Bad\n Gateway</title></head></html>",
                  "502 Bad Gateway", "", ""},
        ErrorCase{502, "<html><body>x</body></html>", "", "", ""}, ErrorCase{404, "", "", "", ""}));

// Status 200 and yet no success.
TEST(AnswerReaderTest, ErrorInsideASuccessMakesItIncomplete) {
  for (const char* body : {R"({"error":{"message":"boom","code":503}})",
                           R"({"object":"error","message":"boom","code":503})",
                           R"({"choices":[],"error":{"message":"boom","code":"503"}})"}) {
    const AnswerFacts facts = ReadChat(body);
    EXPECT_EQ(facts.incomplete, "an error inside the answer: boom") << body;
    EXPECT_EQ(facts.error_code, "503") << body;
  }
  const AnswerFacts silent = ReadChat(R"({"error":{"x":1}})");
  EXPECT_THAT(silent.incomplete, HasSubstr("an error without a message"));
}

TEST(AnswerReaderTest, NoErrorIsReadIntoASuccess) {
  for (const char* body :
       {R"({"error":null,"choices":[{"message":{"content":"x"}}]})",
        R"({"error":{},"choices":[{"message":{"content":"x"}}]})",
        R"({"error":"","choices":[{"message":{"content":"x"}}]})",
        R"({"message":"hello","code":5,"choices":[{"message":{"content":"x"}}]})"}) {
    const AnswerFacts facts = ReadChat(body);
    EXPECT_EQ(facts.incomplete, "") << body;
    EXPECT_EQ(facts.error_message, "") << body;
    EXPECT_TRUE(facts.has_answer) << body;
  }
}

TEST(AnswerReaderTest, AbortedGenerationIsIncomplete) {
  EXPECT_THAT(
      ReadChat(R"({"choices":[{"message":{"content":"x"},"finish_reason":"abort"}]})").incomplete,
      HasSubstr("abort"));
}

TEST(AnswerReaderTest, ResponseThatIsNotDoneIsIncomplete) {
  EXPECT_THAT(Read(Endpoint::kResponses, 200, R"({"status":"in_progress","output":[]})").incomplete,
              HasSubstr("in_progress"));
}

TEST(AnswerReaderTest, FinishReasonsOfOtherEndpoints) {
  EXPECT_EQ(
      Read(Endpoint::kMessages, 200, R"({"content":[],"stop_reason":"max_tokens"})").finish_reason,
      "max_tokens");
  EXPECT_EQ(
      Read(
          Endpoint::kResponses, 200,
          R"({"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]})")
          .finish_reason,
      "max_output_tokens");
  EXPECT_EQ(Read(Endpoint::kResponses, 200,
                 R"({"status":"completed","incomplete_details":null,"output":[]})")
                .finish_reason,
            "completed");
  EXPECT_EQ(ReadChat(R"({"choices":[{"message":{},"finish_reason":null}]})").finish_reason, "");
}

TEST(AnswerReaderTest, UsageInAllSpellings) {
  struct Case {
    const char* usage;
    bool known;
    int64_t prompt;
    int64_t completion;
  };
  for (const Case& c :
       std::vector<Case>{{R"({"prompt_tokens":3,"completion_tokens":4})", true, 3, 4},
                         {R"({"input_tokens":3,"output_tokens":4})", true, 3, 4},
                         {R"({"prompt_tokens":3,"total_tokens":3})", true, 3, 0},
                         {R"({"prompt_tokens":3.0,"completion_tokens":4.0})", true, 3, 4},
                         {R"({"total_tokens":9})", true, 9, 0},
                         {R"({"prompt_tokens":-3})", false, 0, 0},
                         {R"({"prompt_tokens":"3"})", false, 0, 0},
                         {R"({})", false, 0, 0},
                         {R"(null)", false, 0, 0}}) {
    const AnswerFacts facts = ReadChat(std::string(R"({"choices":[],"usage":)") + c.usage + "}");
    EXPECT_EQ(facts.usage_known, c.known) << c.usage;
    EXPECT_EQ(facts.prompt_tokens, c.prompt) << c.usage;
    EXPECT_EQ(facts.completion_tokens, c.completion) << c.usage;
  }
}

TEST(AnswerReaderTest, PartsOfTheUsageInAllSpellings) {
  struct Row {
    Endpoint endpoint;
    const char* usage;
    int64_t cached;
    int64_t reasoning;
  };
  for (
      const Row& row : {
          Row{Endpoint::kChatCompletions,
              R"({"prompt_tokens":9,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":4},
               "completion_tokens_details":{"reasoning_tokens":5}})",
              4, 5},
          Row{Endpoint::kResponses,
              R"({"input_tokens":9,"output_tokens":8,"input_tokens_details":{"cached_tokens":3},
               "output_tokens_details":{"reasoning_tokens":2}})",
              3, 2},
          Row{Endpoint::kMessages,
              R"({"input_tokens":9,"output_tokens":8,"cache_read_input_tokens":7})", 7, 0},
          Row{Endpoint::kChatCompletions,
              R"({"prompt_tokens":9,"completion_tokens":8,"prompt_tokens_details":null})", 0, 0},
      }) {
    const AnswerFacts facts =
        Read(row.endpoint, 200, std::string(R"({"usage":)") + row.usage + "}");
    EXPECT_TRUE(facts.usage_known);
    EXPECT_EQ(facts.cached_tokens, row.cached) << row.usage;
    EXPECT_EQ(facts.reasoning_tokens, row.reasoning) << row.usage;
  }
}

TEST(AnswerReaderTest, TimesAsServersTellThem) {
  const AnswerFacts cerebras = ReadChat(
      R"({"choices":[],"time_info":{"queue_time":0.5,"prompt_time":0.25,"completion_time":1.5}})");
  EXPECT_EQ(cerebras.server.queue_ms, 500);
  EXPECT_EQ(cerebras.server.prompt_ms, 250);
  EXPECT_EQ(cerebras.server.completion_ms, 1500);
  EXPECT_EQ(cerebras.ttft_ms, 750);
  const AnswerFacts llama = ReadChat(
      R"({"choices":[],"timings":{"cache_n":12,"prompt_ms":7.5,"predicted_ms":40,"prompt_n":3}})");
  EXPECT_FALSE(llama.server.queue_ms >= 0);
  EXPECT_EQ(llama.server.prompt_ms, 7.5);
  EXPECT_EQ(llama.server.completion_ms, 40);
  EXPECT_EQ(llama.cached_tokens, 12);
  EXPECT_LT(llama.ttft_ms, 0);
  const AnswerFacts none =
      ReadChat(R"({"choices":[],"time_info":null,"timings":{"prompt_ms":-1}})");
  EXPECT_FALSE(none.server.known());
}

TEST(AnswerReaderTest, RefusalsAreTold) {
  EXPECT_TRUE(
      ReadChat(R"({"choices":[{"message":{"content":null,"refusal":"I cannot"}}]})").refused);
  EXPECT_FALSE(ReadChat(R"({"choices":[{"message":{"content":"x","refusal":null}}]})").refused);
  EXPECT_TRUE(Read(Endpoint::kMessages, 200, R"({"content":[],"stop_reason":"refusal"})").refused);
  EXPECT_TRUE(
      Read(
          Endpoint::kResponses, 200,
          R"({"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]})")
          .refused);
}

TEST(AnswerReaderTest, RepetitionIsTold) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "and so on, ";
  EXPECT_TRUE(ReadChat(R"({"choices":[{"message":{"content":")" + text + R"("}}]})").repetitive);
  EXPECT_TRUE(
      Read(Endpoint::kCompletions, 200, R"({"choices":[{"text":")" + text + R"("}]})").repetitive);
  EXPECT_FALSE(ReadChat(R"({"choices":[{"message":{"content":"and so on"}}]})").repetitive);
}

TEST(RepetitionTest, OnePhraseOverAndOver) {
  const auto repeated = [](const std::string& phrase, int times) {
    std::string text = "The answer begins as it should. ";
    for (int i = 0; i < times; ++i) text += phrase;
    return text;
  };
  EXPECT_TRUE(EndsInRepetition(repeated("ha", 400)));
  EXPECT_TRUE(EndsInRepetition(repeated("I am sorry, but I cannot say more about this. ", 20)));
  EXPECT_TRUE(EndsInRepetition(std::string(5000, '!')));
  EXPECT_TRUE(EndsInRepetition(repeated(std::string(290, 'a') + "b", 9) + "aaa"));
  EXPECT_FALSE(EndsInRepetition(""));
  EXPECT_FALSE(EndsInRepetition(repeated("ha", 100)));  // too short to be sure
  EXPECT_FALSE(EndsInRepetition(repeated("ha", 400) + "But then it went on: no."));
  std::string list;
  for (int i = 0; i < 300; ++i) list += "item " + std::to_string(i * 7919) + ": done\n";
  EXPECT_FALSE(EndsInRepetition(list));
}

TEST(AnswerReaderTest, WhatIsNotJson) {
  for (const std::string& body : std::vector<std::string>{
           std::string(""), std::string("{"), std::string("{} {}"), std::string("<html>"),
           std::string("{\"a\":\"\xFF\"}"), std::string("{\"a\":01}"), std::string("{\"a\":NaN}"),
           std::string("{\"a\":\"\\x\"}"), std::string("[1,]")}) {
    EXPECT_FALSE(ReadChat(body).is_json) << body;
  }
}

// Valid by the grammar, and too much for the parser: the answer was paid for and is one.
TEST(AnswerReaderTest, NumbersAndEscapesThatNoParserLikesAreJson) {
  const AnswerFacts facts = ReadChat(
      R"({"seed":123456789012345678901234567890,"x":1e999,"y":-0.0,"choices":[{"message":{"content":"\ud83d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}})");
  EXPECT_TRUE(facts.is_json);
  EXPECT_TRUE(facts.has_answer);
  EXPECT_EQ(facts.finish_reason, "stop");
  EXPECT_EQ(facts.completion_tokens, 4);
}

TEST(AnswerReaderTest, ErrorTextIsBoundedOneLineAndValid) {
  std::string body = R"({"error":{"message":")";
  for (int i = 0; i < 3000; ++i) body += "ä\\n";
  body += "\"}}";
  const AnswerFacts facts = Read(Endpoint::kChatCompletions, 500, body);
  EXPECT_LE(facts.error_message.size(), AnswerReader::kMessageBytesMax + 4);
  EXPECT_TRUE(IsValidUtf8(facts.error_message));
  EXPECT_EQ(facts.error_message.find('\n'), std::string::npos);
  const AnswerFacts latin1 = Read(Endpoint::kChatCompletions, 500, "caf\xE9 closed");
  EXPECT_EQ(latin1.error_message, "caf? closed");
}

TEST(AnswerReaderTest, OneReaderReadsSmallAfterLarge) {
  AnswerReader reader;
  std::string large =
      R"({"choices":[{"message":{"content":")" + std::string(3 << 20, 'x') + R"("}}]})";
  std::string small = R"({"choices":[{"message":{"content":"x"}}]})";
  EXPECT_TRUE(reader.Read(Endpoint::kChatCompletions, 200, large).has_answer);
  EXPECT_TRUE(reader.Read(Endpoint::kChatCompletions, 200, small).has_answer);
}

TEST(AnswerReaderTest, MangledBodiesDoNoHarm) {
  const std::string good =
      R"({"error":{"message":"m [503]","code":5},"detail":[{"loc":["a",1],"msg":"x"}],"choices":[{"message":{"content":["\ud83d",{"text":"y"}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1e3},"output":[{"type":"message"}],"data":[{"embedding":[1]}],"results":[],"content":[]})";
  const std::string pool = "{}[]\",:0\\ntf-e.dux\xC3";
  AnswerReader reader;
  Random random(20261130);
  for (int round = 0; round < 5000; ++round) {
    std::string body = good.substr(0, random.Chance(0.1) ? random.Below(good.size()) : good.size());
    for (uint64_t cut = random.Below(4); cut > 0 && !body.empty(); --cut) {
      body[random.Below(body.size())] = pool[random.Below(pool.size())];
    }
    const auto endpoint = static_cast<Endpoint>(random.Below(9));
    const std::string before = body;
    const AnswerFacts facts = reader.Read(endpoint, random.Chance(0.5) ? 200 : 500, body);
    EXPECT_EQ(body, before);
    EXPECT_TRUE(IsValidUtf8(facts.error_message)) << body;
    EXPECT_TRUE(IsValidUtf8(facts.finish_reason)) << body;
    EXPECT_TRUE(IsValidUtf8(facts.incomplete)) << body;
    EXPECT_TRUE(facts.has_answer || !facts.empty_answer) << body;
  }
}

TEST(LenientJsonTest, ReplacesOnlyWhatParsersRefuse) {
  struct Case {
    const char* from;
    const char* to;
  };
  for (const Case& c :
       std::vector<Case>{{R"({"a":12,"b":-1.5,"c":[1]})", R"({"a":12,"b":-1.5,"c":[1]})"},
                         {R"([12345678901234567890])", R"([0])"},
                         {R"([1e400,-2E+5])", R"([0,0])"},
                         {R"(["1e400 \" 1e400"])", R"(["1e400 \" 1e400"])"},
                         {R"(["\ud83d\ude00"])", R"(["\ud83d\ude00"])"},
                         {R"(["\ud83dx"])", R"(["\ufffdx"])"},
                         {R"(["\uDE00"])", R"(["\ufffd"])"},
                         {R"(["\\ud83d"])", R"(["\\ud83d"])"},
                         {R"([01e5])", R"([01e5])"},
                         {R"([1e])", R"([1e])"},
                         {R"(["\)", R"(["\)"}}) {
    EXPECT_EQ(LenientCopy(c.from), c.to);
  }
}

}  // namespace
}  // namespace nightshift
