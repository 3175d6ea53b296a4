#include "base/json.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace nightshift {
namespace {

using ::testing::HasSubstr;

std::string Message(absl::string_view text) {
  const absl::Status status = CheckJson(text);
  return status.ok() ? "valid" : std::string(status.message());
}

bool SplitsAsObject(absl::string_view text) { return SplitJsonObject(text).ok(); }

TEST(SplitJsonObjectTest, MembersKeepTheirBytesAndOrder) {
  const std::string text =
      " { \"b\" : 1e3 ,\"a\":\"x\\u00e9\\n\",\"l\":[1, {\"q\":2}],\"o\":{ } "
      ",\"n\":null,\"t\":true}\n";
  const auto members = SplitJsonObject(text);
  ASSERT_TRUE(members.ok()) << members.status();
  ASSERT_EQ(members->size(), 6u);
  EXPECT_EQ((*members)[0].raw_key, "b");
  EXPECT_EQ((*members)[0].raw_value, "1e3");
  EXPECT_EQ((*members)[0].kind, JsonKind::kNumber);
  EXPECT_EQ((*members)[1].raw_value, "\"x\\u00e9\\n\"");
  EXPECT_EQ((*members)[1].kind, JsonKind::kString);
  EXPECT_EQ((*members)[2].raw_value, "[1, {\"q\":2}]");
  EXPECT_EQ((*members)[2].kind, JsonKind::kArray);
  EXPECT_EQ((*members)[3].raw_value, "{ }");
  EXPECT_EQ((*members)[3].kind, JsonKind::kObject);
  EXPECT_EQ((*members)[4].kind, JsonKind::kNull);
  EXPECT_EQ((*members)[5].kind, JsonKind::kBool);
  for (const JsonMember& member : *members) {
    EXPECT_EQ(text.substr(member.value_offset, member.raw_value.size()),
              std::string(member.raw_value.data(), member.raw_value.size()));
  }
}

TEST(SplitJsonObjectTest, SameKeyTwiceIsReportedTwice) {
  const auto members = SplitJsonObject(R"({"a":1,"a":2})");
  ASSERT_TRUE(members.ok());
  EXPECT_EQ(members->size(), 2u);
}

TEST(SplitJsonObjectTest, OtherKindsAtTheTopAreRefused) {
  for (const char* text : {"[]", "1", "\"a\"", "null", " [ {} ]"}) {
    const auto members = SplitJsonObject(text);
    ASSERT_FALSE(members.ok()) << text;
    EXPECT_THAT(std::string(members.status().message()), HasSubstr("not an object"));
    EXPECT_TRUE(CheckJson(text).ok());
  }
}

TEST(SplitJsonArrayTest, ElementsKeepTheirBytesAndOrder) {
  const auto elements = SplitJsonArray(R"( [1e3, {"a":[2]} ,"x",[]] )");
  ASSERT_TRUE(elements.ok()) << elements.status();
  ASSERT_EQ(elements->size(), 4u);
  EXPECT_EQ((*elements)[0].raw_value, "1e3");
  EXPECT_EQ((*elements)[1].raw_value, R"({"a":[2]})");
  EXPECT_EQ((*elements)[1].kind, JsonKind::kObject);
  EXPECT_EQ((*elements)[2].raw_value, "\"x\"");
  EXPECT_EQ((*elements)[3].kind, JsonKind::kArray);
  EXPECT_EQ((*elements)[3].raw_key, "");
  EXPECT_TRUE(SplitJsonArray("[]")->empty());
  EXPECT_FALSE(SplitJsonArray("{}").ok());
}

// A double can hold none of these; they are the user's bytes and valid all the same.
TEST(SplitJsonObjectTest, NumbersOfAnySizePass) {
  for (const char* number : {"123456789012345678901234567890", "1e999", "-0", "0.10", "-1E-400",
                             "18446744073709551616", "1e3"}) {
    const std::string text = std::string("{\"a\":[") + number + "],\"b\":" + number + "}";
    const auto members = SplitJsonObject(text);
    ASSERT_TRUE(members.ok()) << text << members.status();
    EXPECT_EQ((*members)[1].raw_value, number);
  }
}

TEST(CheckJsonTest, AcceptsWhatTheGrammarAccepts) {
  for (const char* text : {"{}", "[]", " {\r\n} ", "[[[]]]", R"(["\ud800"])", R"({"":""})",
                           R"(["\/\b\f\"\\"])", "[\"\xE2\x80\xA8\"]", "true", "-1", "\"\x7F\""}) {
    EXPECT_TRUE(CheckJson(text).ok()) << text << ": " << CheckJson(text);
  }
}

TEST(CheckJsonTest, RefusesWhatTheGrammarRefuses) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "}",
                           "[1,]",
                           "[,1]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "[01]",
                           "[1.]",
                           "[.5]",
                           "[+1]",
                           "[1e]",
                           "[-]",
                           "[1 2]",
                           "[\"a\" \"b\"]",
                           "[\"a\"x]",
                           "[x\"a\"]",
                           "[true\"a\"]",
                           "[tru]",
                           "[truefalse]",
                           "[nullx]",
                           "[\"\\x\"]",
                           "[\"\\u12g4\"]",
                           "[\"\\\"]",
                           "[\"a\nb\"]",
                           "[\"a]",
                           "{} {}",
                           "{}x",
                           "[}",
                           "{]",
                           "[1}",
                           "{\"a\":1]",
                           "\\\"a\"",
                           "[\\\"a\"]",
                           "[NaN]",
                           "[1,,2]",
                           "{,}",
                           "[:]",
                           "'a'",
                           "{\"a\":1:2}",
                           "[\"\\u\"]",
                           "\xEF\xBB\xBF{}",
                           "[1]]",
                           "1 2",
                           "\"a\"b",
                           "[\x01]",
                           "[\f]"}) {
    EXPECT_FALSE(CheckJson(text).ok()) << text;
    EXPECT_FALSE(SplitsAsObject(text)) << text;
  }
}

TEST(CheckJsonTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(Message(R"({"a":[1,2})"), "has '}' where ',' or ']' was expected at byte 9");
  EXPECT_EQ(Message(R"({"a":"b)"), "ends inside a string at byte 7 (file cut off?)");
  EXPECT_EQ(Message(R"({"a":1)"), "ends inside an object at byte 6 (file cut off?)");
  EXPECT_EQ(Message(R"({'a':1})"), "has ''' where a key in quotes was expected at byte 1");
  EXPECT_EQ(Message("[01]"), "has a malformed number at byte 1");
  EXPECT_THAT(Message("[\"caf\xE9 au lait\"]"), HasSubstr("Latin-1"));
  EXPECT_THAT(Message("[\"caf\xE9 au lait\"]"), HasSubstr("at byte 5"));
  EXPECT_THAT(Message(absl::string_view("\xFF\xFE{\0}\0", 6)), HasSubstr("UTF-16"));
  EXPECT_THAT(Message(absl::string_view("{\0}\0", 4)), HasSubstr("UTF-16"));
}

TEST(CheckJsonTest, DeepNestingIsRefusedNotACrash) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(CheckJson(nested(1024)).ok());
  EXPECT_FALSE(CheckJson(nested(1025)).ok());
  EXPECT_THAT(Message(nested(1'000'000)), HasSubstr("nested more than 1024"));
  EXPECT_FALSE(CheckJson(std::string(1'000'000, '[')).ok());
}

TEST(CheckJsonTest, NoByteBeyondTheEndIsRead) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const map =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  char* const edge = static_cast<char*>(map) + page;
  ASSERT_EQ(mprotect(edge, page, PROT_NONE), 0);
  for (size_t filler = 0; filler < 300; ++filler) {
    const std::string text = R"({"a":")" + std::string(filler, 'x') + R"("})";
    char* const start = edge - text.size();
    std::memcpy(start, text.data(), text.size());
    EXPECT_TRUE(SplitsAsObject(absl::string_view(start, text.size())));
    EXPECT_TRUE(IsValidUtf8(absl::string_view(start, text.size())));
    start[text.size() - 1] = ' ';
    EXPECT_FALSE(SplitsAsObject(absl::string_view(start, text.size())));
  }
  munmap(map, 2 * page);
}

TEST(JsonStringTextTest, ResolvesEscapes) {
  EXPECT_EQ(*JsonStringText(R"("a\n\"\\\/\u00e9\ud83d\ude00")"),
            "a\n\"\\/\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(*JsonStringText(R"(plain key)"), "plain key");
  EXPECT_EQ(*JsonStringText(R"(\"quoted\")"), "\"quoted\"");
  EXPECT_EQ(*JsonStringText(R"("\ud800x")"), "\xEF\xBF\xBDx");
  EXPECT_EQ(*JsonStringText(R"("\ude00\ud83d")"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(*JsonStringText(R"("\u0000")"), std::string(1, '\0'));
  EXPECT_FALSE(JsonStringText(R"("\q")").ok());
  EXPECT_FALSE(JsonStringText("\"").ok());
}

TEST(AppendJsonStringTest, WritesWhatReadsBackTheSame) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (uint64_t i = random.Below(20); i > 0; --i) {
      static const char* const kPieces[] = {
          "a",    "\"",   "\\",       "\n",           "\t",
          "\x01", "\x1F", "\xC3\xA9", "\xE2\x80\xA8", "\xF0\x9F\x98\x80",
          "/",    "\x7F"};
      text += kPieces[random.Below(12)];
    }
    std::string quoted;
    AppendJsonString(quoted, text);
    ASSERT_TRUE(CheckJson(quoted).ok()) << quoted;
    EXPECT_EQ(*JsonStringText(quoted), text);
    EXPECT_EQ(nlohmann::json::parse(quoted).get<std::string>(), text);
  }
}

TEST(AppendJsonStringTest, InvalidUtf8BecomesTheReplacementCharacter) {
  std::string quoted;
  AppendJsonString(quoted, "a\xE9\"\xC3\xA9\xFF");
  EXPECT_EQ(quoted, "\"a\xEF\xBF\xBD\\\"\xC3\xA9\xEF\xBF\xBD\"");
}

TEST(SpliceMemberTest, OnlyThatMemberChanges) {
  EXPECT_EQ(SpliceMember(R"({ "a" : 1e3, "model":"x" ,"z":0.10})", "model", "\"y\""),
            R"({ "a" : 1e3, "model":"y" ,"z":0.10})");
  EXPECT_EQ(SpliceMember(R"({ "a":1})", "model", "\"y\""), R"({"model":"y", "a":1})");
  EXPECT_EQ(SpliceMember(" {} ", "n", "5"), R"( {"n":5} )");
  EXPECT_EQ(SpliceMember(R"({"m\u006fdel":1})", "model", "2"), R"({"m\u006fdel":2})");
  EXPECT_EQ(SpliceMember(R"({"x":{"model":1}})", "model", "2"), R"({"model":2,"x":{"model":1}})");
}

TEST(FindMemberTest, ComparesResolvedKeys) {
  const auto members = SplitJsonObject(R"({"a":1,"m\u006fdel":2})");
  ASSERT_TRUE(members.ok());
  ASSERT_NE(FindMember(*members, "model"), nullptr);
  EXPECT_EQ(FindMember(*members, "model")->raw_value, "2");
  EXPECT_EQ(FindMember(*members, "b"), nullptr);
}

TEST(FoldToOneLineTest, LineEndsBecomeBlanks) {
  std::string document = "{\r\n \"a\": 1\n}";
  EXPECT_TRUE(FoldToOneLine(document));
  EXPECT_EQ(document, "{   \"a\": 1 }");
  EXPECT_FALSE(FoldToOneLine(document));
}

// The reference refuses two kinds of valid text: lone surrogates, and numbers too big for a double.
bool ReferenceIsTooStrict(const std::string& text) {
  return text.find("\\ud") != std::string::npos || text.find("\\uD") != std::string::npos ||
         text.find_first_of("eE") != std::string::npos;
}

class JsonFuzzTest : public ::testing::Test {
 protected:
  JsonFuzzTest() : seed_(Seed()), random_(seed_) { RecordProperty("seed", std::to_string(seed_)); }
  static uint64_t Seed() {
    const char* given = std::getenv("NIGHTSHIFT_TEST_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : Random::FromSystem().Next();
  }

  void Compare(const std::string& text) {
    const bool ours = CheckJson(text).ok();
    // The reference skips a byte-order mark and takes NUL for the end of the text.
    const bool odd = text.rfind("\xEF\xBB\xBF", 0) == 0 || text.find('\0') != std::string::npos;
    const bool theirs = !odd && nlohmann::json::accept(text);
    if (theirs == ours) return;
    ASSERT_TRUE(ours && ReferenceIsTooStrict(text))
        << "seed " << seed_ << " ours=" << ours << " text=" << ::testing::PrintToString(text);
  }

  std::string Value(int depth) {
    static const char* const kScalars[] = {"1",    "-0.5",         "true",         "false",
                                           "null", "\"\"",         "\"a\\nb\"",    "\"\\u00e9\"",
                                           "12",   "\"{[,:\\\"\"", "\"\xC3\xA9\"", "\"\\\\\""};
    static const char* const kBlanks[] = {"", "", "", " ", "\n", "\t \r"};
    const auto blank = [&] { return std::string(kBlanks[random_.Below(6)]); };
    if (depth == 0 || random_.Chance(0.4)) return blank() + kScalars[random_.Below(12)] + blank();
    const bool object = random_.Chance(0.5);
    std::string out = object ? "{" : "[";
    const uint64_t count = random_.Below(4);
    for (uint64_t i = 0; i < count; ++i) {
      if (i > 0) out += ",";
      if (object) out += blank() + "\"k" + std::to_string(random_.Below(3)) + "\"" + blank() + ":";
      out += Value(depth - 1);
    }
    if (count == 0) out += blank();
    return blank() + out + (object ? "}" : "]") + blank();
  }

  const uint64_t seed_;
  Random random_;
};

TEST_F(JsonFuzzTest, AgreesWithTheReferenceOnDamagedDocuments) {
  static const char kAlphabet[] = "{}[]:,\"\\ \n\t019.-+eEtrufalsn/x\x01\x7F\xC3\xA9\xE2\xFF";
  for (int round = 0; round < 30'000; ++round) {
    std::string text = Value(4);
    Compare(text);
    const uint64_t damages = 1 + random_.Below(3);
    for (uint64_t i = 0; i < damages && !text.empty(); ++i) {
      const size_t at = random_.Below(text.size());
      const char c = kAlphabet[random_.Below(sizeof(kAlphabet) - 1)];
      switch (random_.Below(4)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        case 2:
          text.erase(at, 1);
          break;
        default:
          text.resize(at);
      }
    }
    ASSERT_NO_FATAL_FAILURE(Compare(text));
  }
}

TEST_F(JsonFuzzTest, AgreesWithTheReferenceOnRandomBytes) {
  static const char kAlphabet[] = "{}[]:,\"\\ 01.-etrufalsn\xC3\xA9";
  for (int round = 0; round < 100'000; ++round) {
    std::string text;
    const bool any_byte = random_.Chance(0.3);
    for (uint64_t i = random_.Below(80); i > 0; --i) {
      text.push_back(any_byte ? static_cast<char>(random_.Below(256))
                              : kAlphabet[random_.Below(sizeof(kAlphabet) - 1)]);
    }
    ASSERT_NO_FATAL_FAILURE(Compare(text));
  }
}

TEST_F(JsonFuzzTest, MembersAreThoseOfTheReference) {
  for (int round = 0; round < 5'000; ++round) {
    std::string text = Value(4);
    const auto members = SplitJsonObject(text);
    const auto reference = nlohmann::ordered_json::parse(text);
    ASSERT_EQ(members.ok(), reference.is_object()) << text;
    if (!members.ok()) continue;
    for (const auto& [key, value] : reference.items()) {
      // Of equal keys the reference keeps the last value.
      const JsonMember* last = nullptr;
      for (const JsonMember& member : *members) {
        if (member.raw_key == absl::string_view(key)) last = &member;
      }
      ASSERT_NE(last, nullptr) << text;
      EXPECT_EQ(nlohmann::ordered_json::parse(std::string(last->raw_value)), value) << text;
    }
  }
}

}  // namespace
}  // namespace nightshift
