#include "base/request_line.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/json.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace nightshift {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ParsedRequest Parse(absl::string_view text, const RequestLineOptions& options = {}) {
  ParsedRequest request;
  RequestLineError error;
  EXPECT_TRUE(ParseRequestLine(text, 7, options, &request, &error))
      << text << ": " << error.field << ": " << error.reason;
  EXPECT_TRUE(error.reason.empty());
  return request;
}

// "custom_id|field|reason"
std::string Refusal(absl::string_view text, const RequestLineOptions& options = {}) {
  ParsedRequest request;
  RequestLineError error;
  EXPECT_FALSE(ParseRequestLine(text, 7, options, &request, &error)) << text;
  EXPECT_TRUE(request.body.empty());
  EXPECT_FALSE(error.reason.empty());
  return absl::StrCat(error.custom_id, "|", error.field, "|", error.reason);
}

std::string Batch(absl::string_view body, absl::string_view url = "/v1/chat/completions") {
  return absl::StrCat(R"({"custom_id":"a","method":"POST","url":")", url, R"(","body":)", body,
                      "}");
}

constexpr absl::string_view kChat = R"({"messages":[{"role":"user","content":"x"}]})";

TEST(BatchLineTest, BodyIsTakenAsItStands) {
  const std::string body =
      R"({ "model":"m" , "messages":[{"role":"user","content":"\u00e9\ud800 <!-- -->"}],)"
      R"("temperature":1e3,"seed":18446744073709551615,"top_p":0.10,"x_unknown":{"b":1,"a":2}})";
  const ParsedRequest request = Parse(absl::StrCat("  ", Batch(body), " \r"));
  EXPECT_EQ(request.body, body);
  EXPECT_EQ(request.custom_id, "a");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.endpoint, Endpoint::kChatCompletions);
}

// It would come back as another text, and two of them as the same.
TEST(BatchLineTest, HalfACharacterIsNoCustomId) {
  const auto line = [](const std::string& id) {
    return absl::StrCat(R"({"custom_id":")", id, R"(","prompt":"x"})");
  };
  for (const char* id :
       {R"(\ud800)", R"(a\udc00b)", R"(\ud83dx)", R"(\ud83d\ud83d)", R"(\ude00\ud83d)"}) {
    EXPECT_THAT(Refusal(line(id)), StartsWith("|custom_id|")) << id;
  }
  EXPECT_EQ(Parse(line(R"(\ud83d\ude00)")).custom_id, "\xF0\x9F\x98\x80");
  EXPECT_EQ(Parse(line(R"(\\ud800)")).custom_id, R"(\ud800)");
}

TEST(BatchLineTest, EveryKnownPathIsTaken) {
  for (const char* path : {"/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/moderations",
                           "/v1/messages", "/v1/rerank", "/v1/score"}) {
    const ParsedRequest request =
        Parse(Batch(R"({"prompt":"x","input":["x"],"messages":[{"role":"user"}]})", path));
    EXPECT_EQ(EndpointPath(request.endpoint), path);
  }
}

TEST(BatchLineTest, WithoutCustomIdTheLineNamesIt) {
  EXPECT_EQ(
      Parse(absl::StrCat(R"({"method":"POST","url":"/v1/chat/completions","body":)", kChat, "}"))
          .custom_id,
      "request-7");
}

// Each part of the line is looked at, and the refusal names it.
TEST(BatchLineTest, MissingAndWrongTypedPartsAreRefused) {
  EXPECT_EQ(
      Refusal(absl::StrCat(R"({"custom_id":"a","url":"/v1/completions","body":)", kChat, "}")),
      "a|method|missing; it must be \"POST\"");
  EXPECT_EQ(Refusal(R"({"custom_id":"a","method":"DELETE","url":"/v1/completions","body":{}})"),
            "a|method|expected \"POST\", found \"DELETE\"");
  EXPECT_EQ(Refusal(R"({"custom_id":"a","method":7,"url":"/v1/completions","body":{}})"),
            "a|method|expected \"POST\", found a number");
  EXPECT_THAT(Refusal(R"({"custom_id":"a","method":"POST","body":{}})"),
              AllOf(StartsWith("a|url|missing"), HasSubstr("/v1/rerank")));
  EXPECT_EQ(Refusal(R"({"custom_id":"a","method":"POST","url":["x"],"body":{}})"),
            "a|url|expected a string, found a list");
  for (const char* url : {"http://evil/v1/chat/completions", "//x", "/v1/chat/completions/", "",
                          "/v1/chat/completions?x=1", "/V1/chat/completions"}) {
    EXPECT_THAT(Refusal(Batch(kChat, url)),
                AllOf(StartsWith("a|url|not a known endpoint path"), HasSubstr("/v1/embeddings")));
  }
  EXPECT_EQ(Refusal(R"({"custom_id":"a","method":"POST","url":"/v1/completions"})"),
            "a|body|missing");
  EXPECT_EQ(Refusal(R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":"{}"})"),
            "a|body|expected an object, found a string");
}

TEST(BatchLineTest, ShapeThatEveryServerRefusesIsRefused) {
  EXPECT_EQ(Refusal(Batch("{}")), "a|body.messages|missing");
  EXPECT_EQ(Refusal(Batch(R"({"messages":"hi"})")),
            "a|body.messages|expected a list, found a string");
  EXPECT_THAT(Refusal(Batch(R"({"messages":[]})")), HasSubstr("a|body.messages|is an empty list"));
  EXPECT_EQ(Refusal(Batch(R"({"messages":[{"role":"user"},"hi"]})")),
            "a|body.messages[1]|expected an object, found a string");
  EXPECT_EQ(Refusal(Batch(R"({"messages":[{"content":"x"}]})")), "a|body.messages[0].role|missing");
  EXPECT_EQ(Refusal(Batch(R"({"messages":[{"role":1}]})")),
            "a|body.messages[0].role|expected a string, found a number");
  EXPECT_EQ(Refusal(Batch("{}", "/v1/completions")), "a|body.prompt|missing");
  EXPECT_EQ(Refusal(Batch(R"({"prompt":null})", "/v1/completions")),
            "a|body.prompt|expected a string or a list, found null");
  EXPECT_EQ(Refusal(Batch("{}", "/v1/embeddings")), "a|body.input|missing");
  EXPECT_EQ(Refusal(Batch("{}", "/v1/responses")), "a|body.input|missing");
  EXPECT_EQ(Refusal(Batch("{}", "/v1/moderations")), "a|body.input|missing");
  EXPECT_EQ(Refusal(Batch(R"({"model":5,"messages":[{"role":"user"}]})")),
            "a|body.model|expected a string, found a number");
}

// A stream cannot be recorded as one answer.
TEST(BatchLineTest, StreamTrueIsRefusedWithTheFlagThatHelps) {
  EXPECT_THAT(Refusal(Batch(R"({"stream":true,"messages":[{"role":"user"}]})")),
              AllOf(StartsWith("a|body.stream|"), HasSubstr("--stream")));
  EXPECT_THAT(Refusal(Batch(R"({"str\u0065am":true,"messages":[{"role":"user"}]})")),
              StartsWith("a|body.stream|"));
  EXPECT_EQ(Refusal(Batch(R"({"stream":"true","messages":[{"role":"user"}]})")),
            "a|body.stream|expected true or false, found a string");
  const std::string off = R"({"stream":false,"messages":[{"role":"user"}]})";
  EXPECT_EQ(Parse(Batch(off)).body, off);
}

TEST(BatchLineTest, SameKeyTwiceIsRefused) {
  EXPECT_EQ(Refusal(R"({"custom_id":"a","method":"POST","url":"x","url":"y","body":{}})"),
            "a|url|same key twice: url");
  EXPECT_EQ(Refusal(Batch(R"({"model":"a","messages":[{"role":"user"}],"mod\u0065l":"b"})")),
            "a|body.model|same key twice: model");
  std::string many = R"({"messages":[{"role":"user"}])";
  for (int i = 0; i < 30; ++i) absl::StrAppend(&many, ",\"k", i, "\":", i);
  Parse(Batch(many + "}"));
  EXPECT_EQ(Refusal(Batch(many + ",\"k7\":1}")), "a|body.k7|same key twice: k7");
}

TEST(BatchLineTest, AnotherEndpointThanTheJobsIsRefused) {
  RequestLineOptions options;
  options.endpoint = Endpoint::kCompletions;
  options.endpoint_given = true;
  EXPECT_EQ(Refusal(Batch(kChat), options),
            "a|url|is /v1/chat/completions, but the job is for /v1/completions");
  Parse(Batch(R"({"prompt":"x"})", "/v1/completions"), options);
}

TEST(BatchLineTest, OptionsSetOnlyWhatTheBodyLeavesOpen) {
  RequestLineOptions options;
  options.model = "d\"m";
  options.max_tokens = 64;
  options.system = "not for batch lines";
  const ParsedRequest request = Parse(Batch(R"({ "messages" : [{"role":"user"}]})"), options);
  EXPECT_EQ(request.body, R"({"model":"d\"m","max_tokens":64, "messages" : [{"role":"user"}]})");
  EXPECT_EQ(request.model, "d\"m");
  for (const char* body :
       {R"({"model":"m","messages":[{"role":"user"}],"max_tokens":5})",
        R"({"model":"m","messages":[{"role":"user"}],"max_completion_tokens":5})"}) {
    EXPECT_EQ(Parse(Batch(body), options).body, body);
    EXPECT_EQ(Parse(Batch(body), options).model, "m");
  }
  EXPECT_EQ(Parse(Batch(R"({"input":"x"})", "/v1/responses"), options).body,
            R"({"model":"d\"m","max_output_tokens":64,"input":"x"})");
  EXPECT_EQ(Parse(Batch(R"({"max_output_tokens":1,"input":"x"})", "/v1/responses"), options).body,
            R"({"model":"d\"m","max_output_tokens":1,"input":"x"})");
  EXPECT_EQ(Parse(Batch(R"({"input":"x"})", "/v1/embeddings"), options).body,
            R"({"model":"d\"m","input":"x"})");
  EXPECT_EQ(Parse(Batch(" {} ", "/v1/score"), options).body, R"({"model":"d\"m"})");
}

TEST(CustomIdTest, OneTo512BytesOfAnyText) {
  const auto line = [](absl::string_view raw) {
    return absl::StrCat(R"({"prompt":"x","custom_id":)", raw, "}");
  };
  const auto quoted = [](size_t n) { return absl::StrCat("\"", std::string(n, 'i'), "\""); };
  EXPECT_EQ(Parse(line(quoted(512))).custom_id, std::string(512, 'i'));
  EXPECT_THAT(Refusal(line(quoted(513))), StartsWith("|custom_id|is 513 bytes long"));
  EXPECT_THAT(Refusal(line("\"\"")), StartsWith("|custom_id|is empty"));
  EXPECT_EQ(Refusal(line("17")), "|custom_id|expected a string, found a number; write \"17\"");
  EXPECT_EQ(Refusal(line("null")), "|custom_id|expected a string, found null");
  EXPECT_EQ(Parse(line(R"("a/b \u00fc\n🙂")")).custom_id, "a/b ü\n🙂");
}

TEST(ShortFormTest, PromptBecomesTheOneUserMessage) {
  const ParsedRequest request = Parse(R"({"prompt":"a\u00e9\n"})");
  EXPECT_EQ(request.body, R"({"messages":[{"role":"user","content":"a\u00e9\n"}]})");
  EXPECT_EQ(request.custom_id, "request-7");
  EXPECT_EQ(request.endpoint, Endpoint::kChatCompletions);
  EXPECT_EQ(request.model, "");
}

TEST(ShortFormTest, OtherFieldsKeepTheirBytesAndOrder) {
  EXPECT_EQ(
      Parse(R"({"id":"q", "temperature" : 0.10 ,"prompt":"x","model":"m" ,"seed":1e3})").body,
      R"({"temperature" : 0.10 ,"messages":[{"role":"user","content":"x"}],"model":"m" ,"seed":1e3})");
  EXPECT_EQ(Parse(R"({"a":1,"custom_id":"q", "messages":[ {"role":"user"} ] ,"b":2 })").body,
            R"({"a":1, "messages":[ {"role":"user"} ] ,"b":2 })");
  EXPECT_EQ(Parse(R"({"messages":[{"role":"user"}],"custom_id":"q"})").body,
            R"({"messages":[{"role":"user"}]})");
  const ParsedRequest request = Parse(R"({"prompt":"x","id":"q"})");
  EXPECT_EQ(request.custom_id, "q");
  EXPECT_EQ(request.body, R"({"messages":[{"role":"user","content":"x"}]})");
}

TEST(ShortFormTest, SystemTextComesFirst) {
  RequestLineOptions options;
  options.system = "Be \"brief\"";
  EXPECT_EQ(
      Parse(R"({"prompt":"x"})", options).body,
      R"({"messages":[{"role":"system","content":"Be \"brief\""},{"role":"user","content":"x"}]})");
  EXPECT_EQ(Parse(R"({"messages":[{"role":"user"}]})", options).body,
            R"({"messages":[{"role":"system","content":"Be \"brief\""},{"role":"user"}]})");
  const std::string own = R"({"messages":[{"role":"system","content":"mine"},{"role":"user"}]})";
  EXPECT_EQ(Parse(own, options).body, own);
}

TEST(ShortFormTest, EndpointDecidesWhereThePromptGoes) {
  RequestLineOptions options;
  options.endpoint_given = true;
  options.endpoint = Endpoint::kCompletions;
  EXPECT_EQ(Parse(R"({"prompt":"x","id":"q"})", options).body, R"({"prompt":"x"})");
  EXPECT_EQ(Parse(R"({"prompt":["x","y"]})", options).body, R"({"prompt":["x","y"]})");
  EXPECT_THAT(Refusal(R"({"messages":[]})", options), HasSubstr("has no \"prompt\""));
  options.endpoint = Endpoint::kEmbeddings;
  EXPECT_EQ(Parse(R"({"prompt":"x"})", options).body, R"({"input":"x"})");
  EXPECT_EQ(Parse(R"({"input":[1,2]})", options).body, R"({"input":[1,2]})");
  options.endpoint = Endpoint::kMessages;
  options.system = "s";
  EXPECT_EQ(Parse(R"({"prompt":"x"})", options).body,
            R"({"system":"s","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(Parse(R"({"prompt":"x","system":"own"})", options).body,
            R"({"messages":[{"role":"user","content":"x"}],"system":"own"})");
  options.endpoint = Endpoint::kResponses;
  EXPECT_EQ(Parse(R"({"prompt":"x"})", options).body, R"({"instructions":"s","input":"x"})");
  options.endpoint = Endpoint::kRerank;
  EXPECT_THAT(Refusal(R"({"prompt":"x"})", options), HasSubstr("takes no plain prompt"));
  EXPECT_EQ(Parse(R"({"query":"x","documents":["y"]})", options).body,
            R"({"query":"x","documents":["y"]})");
}

TEST(ShortFormTest, UnclearLinesAreRefused) {
  EXPECT_THAT(Refusal("{}"), AllOf(StartsWith("||has neither"), HasSubstr("messages")));
  EXPECT_THAT(Refusal(R"({"text":"x"})"), HasSubstr("has neither"));
  EXPECT_EQ(Refusal(R"({"prompt":"x","messages":[]})"),
            "|prompt|prompt and messages are both given; keep one");
  EXPECT_EQ(Refusal(R"({"prompt":["x"]})"), "|prompt|expected a string, found a list");
  EXPECT_EQ(Refusal(R"({"id":"a","custom_id":"b","prompt":"x"})"),
            "|id|custom_id and id are both given; keep one");
  EXPECT_EQ(Refusal(R"({"id":5,"prompt":"x"})"),
            "|id|expected a string, found a number; write \"5\"");
  EXPECT_EQ(Refusal(R"({"id":"q","messages":"x"})"), "q|messages|expected a list, found a string");
  EXPECT_THAT(Refusal(R"({"prompt":"x","stream":true})"), StartsWith("|stream|"));
  EXPECT_EQ(Refusal(R"({"prompt":"x","prompt":"y"})"), "|prompt|same key twice: prompt");
  EXPECT_EQ(Refusal(R"({"prompt":"x","":1,"":2})"), "||same key twice: ");
  EXPECT_EQ(Refusal(R"({"prompt":"x","\u001b[1m":1,"\u001b[1m":2})"),
            R"(|\u001b[1m|same key twice: \u001b[1m)");
}

TEST(RequestLineTest, WhatIsNotOneObjectIsRefusedInWords) {
  EXPECT_EQ(Refusal("[1]"), "||expected an object, found a list");
  EXPECT_EQ(Refusal("\"x\""), "||expected an object, found a string");
  EXPECT_EQ(Refusal(R"({"prompt":"x)"),
            "||not JSON: ends inside a string at column 13 (file cut off?)");
  EXPECT_THAT(Refusal("Write a poem"), StartsWith("||not JSON: "));
  EXPECT_THAT(Refusal("[\r"), AllOf(StartsWith("||not JSON: "), HasSubstr("jq -c")));
  EXPECT_EQ(Refusal("{\"prompt\":\"caf\xE9\"}"),
            "||invalid UTF-8 at byte 15 (0xE9; this looks like Latin-1; save the file as UTF-8)");
  EXPECT_THAT(Refusal(absl::string_view("{\0\"\0p\0", 6)), HasSubstr("UTF-16"));
}

TEST(RequestFromPromptTest, PromptIsQuotedWhole) {
  RequestLineOptions options;
  options.model = "m";
  options.max_tokens = 9;
  options.system = "s";
  const ParsedRequest request = RequestFromPrompt("a \"b\"\n\\\xE2\x80\xA8", "", 12, options);
  EXPECT_EQ(request.custom_id, "request-12");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(
      request.body,
      "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
      "{\"role\":\"user\",\"content\":\"a \\\"b\\\"\\n\\\\\xE2\x80\xA8\"}]}");
  options = {};
  options.endpoint = Endpoint::kCompletions;
  EXPECT_EQ(RequestFromPrompt("x", "id", 1, options).body, R"({"prompt":"x"})");
  EXPECT_EQ(RequestFromPrompt("x", "id", 1, options).custom_id, "id");
}

// Whatever the line, the result is a request with a valid body, or a reason.
TEST(RequestLineTest, DamagedLinesNeverYieldABrokenBody) {
  const uint64_t seed = Random::FromSystem().Next();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  const std::vector<std::string> starts = {
      Batch(kChat), R"({"prompt":"x","id":"q","a":[1,{"b":2}],"model":"m"})",
      R"({"custom_id":"q", "messages":[{"role":"user","content":"\u00e9"}] ,"z":1})",
      Batch(R"({"input":"x", "model":"m"})", "/v1/embeddings")};
  RequestLineOptions options;
  options.model = "d";
  options.max_tokens = 3;
  options.system = "s";
  int good = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = starts[random.Below(starts.size())];
    for (uint64_t i = random.Below(3); i > 0 && !text.empty(); --i) {
      const size_t at = random.Below(text.size());
      switch (random.Below(3)) {
        case 0:
          text[at] = static_cast<char>(random.Below(256));
          break;
        case 1:
          text.erase(at, 1 + random.Below(6));
          break;
        default:
          text.insert(at, text.substr(random.Below(text.size()), random.Below(12)));
      }
    }
    ParsedRequest request;
    RequestLineError error;
    if (ParseRequestLine(text, 1, options, &request, &error)) {
      ++good;
      EXPECT_TRUE(SplitJsonObject(request.body).ok()) << text << "\n" << request.body;
      EXPECT_FALSE(request.custom_id.empty());
      EXPECT_NE(request.endpoint, Endpoint::kUnspecified);
      EXPECT_TRUE(error.reason.empty());
    } else {
      EXPECT_FALSE(error.reason.empty());
      EXPECT_TRUE(IsValidUtf8(error.reason)) << error.reason;
      EXPECT_TRUE(IsValidUtf8(error.field));
    }
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace nightshift
