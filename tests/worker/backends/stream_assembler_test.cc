#include "worker/backends/stream_assembler.h"

#include <string>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace nightshift {
namespace {

using Json = nlohmann::json;

class StreamAssemblerTest : public ::testing::Test {
 protected:
  void Feed(const std::vector<std::string>& frames) {
    for (const std::string& frame : frames) assembler_.TakeFrame("", frame);
  }
  Json Answer() const { return Json::parse(assembler_.Assemble()); }

  StreamAssembler assembler_{{}};
};

TEST_F(StreamAssemblerTest, PutsAChatAnswerTogether) {
  Feed({
      R"({"id":"","object":"chat.completion.chunk","created":0,"model":"","choices":[]})",
      R"({"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null})",
      R"({"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]})",
      R"({"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"content":"lo ä"},"finish_reason":"stop","stop_reason":12}]})",
      R"({"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5},"system_fingerprint":"fp"})",
      "[DONE]",
  });
  EXPECT_EQ(assembler_.Incomplete(), "");
  EXPECT_EQ(Answer(), Json::parse(R"({
    "id":"c1","object":"chat.completion","created":7,"model":"m","system_fingerprint":"fp",
    "choices":[{"index":0,"message":{"role":"assistant","content":"Hello ä"},"logprobs":null,
                "finish_reason":"stop","stop_reason":12}],
    "usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})"));
  EXPECT_EQ(assembler_.Assemble().find('\n'), std::string::npos);
}

// Servers that stream token by token, where a token may be part of a character.
TEST_F(StreamAssemblerTest, JoinsACharacterThatWasCutInTwo) {
  Feed({
      R"({"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]})",
      R"({"choices":[{"index":0,"delta":{"content":"\ude00b"},"finish_reason":"stop"}]})",
      "[DONE]",
  });
  EXPECT_EQ(assembler_.Incomplete(), "");
  EXPECT_EQ(Answer()["choices"][0]["message"]["content"],
            "a\xF0\x9F\x98\x80"
            "b");
}

TEST_F(StreamAssemblerTest, JoinsTheBytesOfACharacterThatWasCutInTwo) {
  Feed({
      "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xC3\xA4\xF0\x9F\"}}]}",
      "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\x98\x80!\"},\"finish_reason\":\"stop\"}"
      "]}",
      "[DONE]",
  });
  EXPECT_EQ(Answer()["choices"][0]["message"]["content"], "\xC3\xA4\xF0\x9F\x98\x80!");
}

TEST_F(StreamAssemblerTest, HalfACharacterStaysWhatItWas) {
  Feed({
      R"({"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]})",
      "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\x9F\"},\"finish_reason\":\"stop\"}]}",
      "[DONE]",
  });
  EXPECT_NE(assembler_.Assemble().find("\"a\\ud83db\xEF\xBF\xBD\""), std::string::npos)
      << assembler_.Assemble();
}

// The marks for parts of characters are characters themselves.
TEST_F(StreamAssemblerTest, ACharacterForPrivateUseIsLeftAlone) {
  Feed({
      "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xF4\x8F\x80\x81\"},"
      "\"finish_reason\":\"stop\"}]}",
      "[DONE]",
  });
  EXPECT_EQ(Answer()["choices"][0]["message"]["content"], "\xF4\x8F\x80\x81");
}

TEST_F(StreamAssemblerTest, KeepsChoicesApartAndInOrder) {
  Feed({
      R"({"choices":[{"index":1,"delta":{"content":"B"}},{"index":0,"delta":{"content":"A"}}]})",
      R"({"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length"}]})",
      R"({"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]})",
      "[DONE]",
  });
  const Json answer = Answer();
  ASSERT_EQ(answer["choices"].size(), 2u);
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "Aa");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][1]["message"]["content"], "Bb");
}

// Frames that are like the one before are not parsed; the answer must be the one that parsing all
// of them gives. With another number of blanks in front no frame is like the one before.
TEST_F(StreamAssemblerTest, FramesThatAreAlikeGiveTheSameAnswerAsOthers) {
  Random random(20261201);
  const std::vector<std::string> pieces = {
      "a",       "",         " ",    "\\n",  "\\\"",          "\\\\", "\\u00e4", "\\ud83d\\ude00",
      "\\ud83d", "\xC3\xA4", "\xC3", "\x98", R"(\","x":\"y)", "null", "}]}",     "\\t\\/"};
  const std::vector<std::string> shapes = {
      R"({"id":"c","created":1,"choices":[{"index":0,"delta":{"content":"@"},"finish_reason":null}]})",
      R"({"id":"c","created":2,"choices":[{"index":0,"delta":{"content": "@"}}],"usage":null})",
      R"({"id":"c","created":1,"choices":[{"index":1,"delta":{"role":"assistant","content":"@"}}]})",
      R"({"id":"c","choices":[{"index":0,"delta":{"content":"","reasoning_content":"@"}}]})",
      R"({"id":"c","choices":[{"index":0,"delta":{"content":"@","refusal":"@"}}]})",
      R"({"id":"c","choices":[{"index":0,"delta":{"content":"@","content_type":"\"content\":"}}]})",
      R"({"id":"c","choices":[{"index":0,"delta":{"content":"@"},"logprobs":{"content":[{"t":1}]}}]})",
      R"({"id":"c","choices":[{"index":0,"delta":{"content":"@","tool_calls":[{"index":0,"function":{"arguments":"@"}}]}}]})",
      R"({"id":"c","choices":[{"index":0,"delta":{"content":["@"]}}]})",
      R"({"id":"@","choices":[{"index":0,"text":"@","delta":{}}]})"};
  for (int round = 0; round < 3000; ++round) {
    StreamAssembler::Options options;
    if (round % 4 == 3) options.endpoint = Endpoint::kCompletions;
    StreamAssembler alike(options);
    StreamAssembler parsed(options);
    std::string shape = shapes[random.Below(shapes.size())];
    std::string shown;
    for (int i = 0; i < 12; ++i) {
      if (random.Below(4) == 0) shape = shapes[random.Below(shapes.size())];
      std::string frame;
      for (const char c : shape) {
        frame += c == '@' ? pieces[random.Below(pieces.size())] : std::string(1, c);
      }
      alike.TakeFrame("", frame);
      parsed.TakeFrame("", std::string(static_cast<size_t>(i % 2 + 1), ' ') + frame);
      shown += frame + "\n";
    }
    ASSERT_EQ(alike.Assemble(), parsed.Assemble()) << shown;
    ASSERT_EQ(alike.pieces(), parsed.pieces()) << shown;
    ASSERT_EQ(alike.failed(), parsed.failed()) << shown;
  }
}

TEST_F(StreamAssemblerTest, MergesToolCallsByIndex) {
  Feed({
      R"({"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":""}}]}}]})",
      R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"t2","type":"function","function":{"name":"g","arguments":"{}"}}]}}]})",
      R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}}]})",
      R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":null,"function":{"name":"f","arguments":"1}"}}]}}]})",
      R"({"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]})",
      "[DONE]",
  });
  EXPECT_EQ(Answer()["choices"][0]["message"], Json::parse(R"({
    "role":"assistant","content":null,"tool_calls":[
      {"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
      {"id":"t2","type":"function","function":{"name":"g","arguments":"{}"}}]})"));
  EXPECT_GT(assembler_.pieces(), 0);
  EXPECT_EQ(assembler_.Incomplete(), "");
}

TEST_F(StreamAssemblerTest, JoinsReasoningRefusalsAndLogprobs) {
  Feed({
      R"({"choices":[{"index":0,"delta":{"reasoning_content":"th"},"logprobs":{"content":[{"token":"a"}]}}]})",
      R"({"choices":[{"index":0,"delta":{"reasoning_content":"ink","refusal":"n"},"logprobs":{"content":[{"token":"b"}]}}]})",
      R"({"choices":[{"index":0,"delta":{"refusal":"o"},"finish_reason":"stop"}]})",
      "[DONE]",
  });
  const Json choice = Answer()["choices"][0];
  EXPECT_EQ(choice["message"]["reasoning_content"], "think");
  EXPECT_EQ(choice["message"]["refusal"], "no");
  EXPECT_EQ(choice["message"]["content"], "");
  EXPECT_EQ(choice["logprobs"], Json::parse(R"({"content":[{"token":"a"},{"token":"b"}]})"));
}

// Servers that write `null` without streaming write it in each chunk, too.
TEST_F(StreamAssemblerTest, LogprobsThatAreNullAreKept) {
  Feed({R"({"choices":[{"index":0,"delta":{"content":"a"},"logprobs":null}]})",
        R"({"choices":[{"index":1,"delta":{"content":"b"}}]})"});
  const Json choices = Answer()["choices"];
  EXPECT_TRUE(choices[0].contains("logprobs"));
  EXPECT_TRUE(choices[0]["logprobs"].is_null());
  EXPECT_FALSE(choices[1].contains("logprobs"));
}

TEST_F(StreamAssemblerTest, JoinsAFunctionCallOfTheOldForm) {
  Feed({
      R"({"choices":[{"index":0,"delta":{"function_call":{"name":"f","arguments":"{"}}}]})",
      R"({"choices":[{"index":0,"delta":{"function_call":{"arguments":"}"}},"finish_reason":"function_call"}]})",
      "[DONE]",
  });
  EXPECT_EQ(Answer()["choices"][0]["message"]["function_call"],
            Json::parse(R"({"name":"f","arguments":"{}"})"));
}

TEST(StreamAssemblerCompletionsTest, PutsACompletionTogether) {
  StreamAssembler assembler({.endpoint = Endpoint::kCompletions});
  assembler.TakeFrame(
      "",
      R"({"id":"x","object":"text_completion","choices":[{"index":0,"text":"a","logprobs":{"tokens":["a"],"token_logprobs":[-0.5]},"finish_reason":null}]})");
  assembler.TakeFrame(
      "",
      R"({"id":"x","object":"text_completion","choices":[{"index":0,"text":"b","logprobs":{"tokens":["b"],"token_logprobs":[-1]},"finish_reason":"length"}]})");
  assembler.TakeFrame("", "[DONE]");
  EXPECT_EQ(Json::parse(assembler.Assemble()), Json::parse(R"({
    "id":"x","object":"text_completion","choices":[{"index":0,"text":"ab",
    "logprobs":{"tokens":["a","b"],"token_logprobs":[-0.5,-1]},"finish_reason":"length"}]})"));
  EXPECT_EQ(assembler.Incomplete(), "");
}

TEST_F(StreamAssemblerTest, ContentIsWhatThePersonWaitsFor) {
  Feed({R"({"choices":[]})",
        R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})"});
  EXPECT_EQ(assembler_.pieces(), 0);
  Feed({R"({"choices":[{"index":0,"delta":{"content":"x"}}]})"});
  EXPECT_GT(assembler_.pieces(), 0);
}

TEST_F(StreamAssemblerTest, EndWithoutDoneIsIncomplete) {
  EXPECT_EQ(assembler_.Incomplete(), "the stream ended without an answer in it");
  Feed({R"({"choices":[{"index":0,"delta":{"content":"x"}}]})"});
  EXPECT_EQ(assembler_.Incomplete(), "the stream ended without a finish_reason and without [DONE]");
  Feed({R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"});
  EXPECT_EQ(assembler_.Incomplete(), "the stream ended without [DONE]");
}

TEST_F(StreamAssemblerTest, DoneWithoutFinishReasonIsIncomplete) {
  Feed({R"({"choices":[{"index":0,"delta":{"content":"x"}}]})", "[DONE]"});
  EXPECT_EQ(assembler_.Incomplete(), "the stream ended without a finish_reason");
}

// A server that closes its account has come to the end by itself.
TEST_F(StreamAssemblerTest, UsageStandsInForAMissingFinishReason) {
  Feed({R"({"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]})",
        R"({"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}})", "[DONE]"});
  EXPECT_EQ(assembler_.Incomplete(), "");
  EXPECT_TRUE(Answer()["choices"][0]["finish_reason"].is_null());
}

TEST(StreamAssemblerOptionsTest, SomeServersSendNoDone) {
  StreamAssembler assembler({.end = StreamEnd::kFinishReason});
  assembler.TakeFrame("", R"({"choices":[{"index":0,"delta":{"content":"x"}}]})");
  EXPECT_NE(assembler.Incomplete(), "");
  assembler.TakeFrame("", R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})");
  EXPECT_EQ(assembler.Incomplete(), "");
}

TEST_F(StreamAssemblerTest, ErrorFramesEndTheStream) {
  const std::string frame = R"({"error":{"message":"[503] queue full","code":503}})";
  Feed({R"({"choices":[{"index":0,"delta":{"content":"part"}}]})", frame,
        R"({"choices":[{"index":0,"delta":{"content":"late"},"finish_reason":"stop"}]})",
        "[DONE]"});
  EXPECT_TRUE(assembler_.failed());
  EXPECT_FALSE(assembler_.done());
  EXPECT_EQ(assembler_.error_frame(), frame);
  EXPECT_EQ(assembler_.Incomplete(), "the stream ended with an error");
  EXPECT_EQ(Answer()["choices"][0]["message"]["content"], "part");
}

TEST(StreamAssemblerErrorTest, ErrorsAreKnownByEventByObjectAndByType) {
  for (const auto& [event, data] : std::vector<std::pair<std::string, std::string>>{
           {"error", R"({"message":"m"})"},
           {"error", "not JSON at all"},
           {"", R"({"object":"error","message":"m"})"},
           {"", R"({"type":"error","error":{"message":"m"}})"},
           {"", R"({"error":"m","error_type":"overloaded"})"}}) {
    StreamAssembler assembler({});
    assembler.TakeFrame(event, data);
    EXPECT_EQ(assembler.error_frame(), data);
  }
  StreamAssembler assembler({});
  assembler.TakeFrame("", R"({"error":null,"choices":[]})");
  EXPECT_FALSE(assembler.failed());
}

TEST_F(StreamAssemblerTest, UnreadableFramesAreAFailure) {
  Feed({R"({"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]})", "{broken",
        "[DONE]"});
  EXPECT_TRUE(assembler_.failed());
  EXPECT_EQ(assembler_.Incomplete(), "the stream holds a frame that is not JSON");
}

// A server that cuts an emoji into two frames sends two halves of a surrogate pair.
TEST_F(StreamAssemblerTest, ACharacterCutIntoTwoFramesIsPutTogether) {
  Feed({R"({"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]})",
        R"({"choices":[{"index":0,"delta":{"content":"\ude00b"},"finish_reason":"stop"}]})",
        "[DONE]"});
  EXPECT_EQ(assembler_.Incomplete(), "");
  EXPECT_EQ(Answer()["choices"][0]["message"]["content"], "a\U0001F600b");
}

TEST_F(StreamAssemblerTest, BottomlessNestingIsRefusedAndNotFollowed) {
  Feed({R"({"choices":[],"x":)" + std::string(1000000, '[') + std::string(1000000, ']') + "}"});
  EXPECT_TRUE(assembler_.failed());
}

TEST_F(StreamAssemblerTest, StrangeShapesDoNoHarm) {
  Feed(
      {R"({"choices":7})",
       R"({"choices":[7,null,{"delta":"x"},{"index":"a","delta":{"tool_calls":[7,{"function":[]}],"content":{"x":1},"function_call":"f"},"logprobs":[1]}]})",
       R"({"choices":[{"delta":{"content":"ok","role":"assistant"},"finish_reason":"stop"}]})", " ",
       "[DONE]"});
  EXPECT_EQ(assembler_.Incomplete().find("not JSON"), std::string::npos);
  EXPECT_TRUE(Answer()["choices"].is_array());
}

// Whatever a server sends, the end is a document or nothing.
TEST(StreamAssemblerMangledTest, MangledFramesDoNoHarm) {
  const std::vector<std::string> good = {
      R"({"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"a","tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{"}}]},"logprobs":{"content":[{"token":"a"}]}}]})",
      R"({"choices":[{"index":1,"text":"x","finish_reason":"stop"}],"usage":{"prompt_tokens":1}})",
  };
  const std::string pool = "{}[]\",:0\\ntf-e.dux\xC3";
  Random random(20261130);
  for (int round = 0; round < 3000; ++round) {
    StreamAssembler assembler(
        {.endpoint = random.Chance(0.5) ? Endpoint::kCompletions : Endpoint::kChatCompletions});
    std::string frames;
    for (int i = 0; i < 4; ++i) {
      std::string frame = good[random.Below(good.size())];
      for (uint64_t cut = random.Below(4); cut > 0; --cut) {
        frame[random.Below(frame.size())] = pool[random.Below(pool.size())];
      }
      assembler.TakeFrame("", frame);
      frames += frame + "\n";
    }
    const std::string answer = assembler.Assemble();
    EXPECT_TRUE(answer.empty() || Json::accept(answer)) << frames;
  }
}

TEST_F(StreamAssemblerTest, CountsWhatItKeeps) {
  Feed({R"({"choices":[{"index":0,"delta":{"content":")" + std::string(5000, 'x') + "\"}}]}"});
  EXPECT_GE(assembler_.bytes_kept(), 4900);
}

}  // namespace
}  // namespace nightshift
