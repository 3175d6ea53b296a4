#include "client/output/text_width.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/random.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

TEST(TextWidthTest, CountsCellsNotBytes) {
  EXPECT_EQ(DisplayWidth(""), 0);
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("größe"), 5);
  EXPECT_EQ(DisplayWidth("日本語"), 6);
  EXPECT_EQ(DisplayWidth("e\xCC\x81"), 1);  // e and a combining accent
  EXPECT_EQ(DisplayWidth("🙂"), 2);
  EXPECT_EQ(DisplayWidth("한글"), 4);
  EXPECT_EQ(DisplayWidth("ﾊﾝ"), 2);  // half-width
  EXPECT_EQ(DisplayWidth("a\xFFz"), 3);
}

TEST(TextWidthTest, CutsWithoutHalfCharacters) {
  EXPECT_EQ(CutToWidth("abcdef", 6), "abcdef");
  EXPECT_EQ(CutToWidth("abcdef", 5), "abcd…");
  EXPECT_EQ(CutToWidth("abcdef", 5, false), "ab...");
  EXPECT_EQ(CutToWidth("日本語", 5), "日本…");
  EXPECT_EQ(CutToWidth("日本語", 4), "日…");
  EXPECT_EQ(CutToWidth("abc", 0), "");
  EXPECT_EQ(CutToWidth("abcdef", 2, false), "..");
}

TEST(TextWidthTest, PrintableShowsWhatATerminalWouldObey) {
  EXPECT_EQ(Printable("a\x1B[31mb\nc\td\re\x7F"), "a\\x1b[31mb\\nc\\td\\re\\x7f");
  EXPECT_EQ(Printable("größe 日本"), "größe 日本");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "31m"),
            "\\x9b31m");  // the one-byte form of ESC [
  EXPECT_EQ(Printable("\xE2\x80\xAE"), "\\u202e");
  EXPECT_EQ(Printable("caf\xE9"), "caf?");
}

TEST(TextWidthTest, AnyBytesAreCutToTheWidthAndPrintable) {
  const uint64_t seed = Random::FromSystem().Next();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (uint64_t i = random.Below(30); i > 0; --i) {
      text += random.Chance(0.5) ? std::string(1, static_cast<char>(random.Below(256)))
                                 : std::string("日");
    }
    const int cells = static_cast<int>(random.Below(20));
    EXPECT_LE(DisplayWidth(CutToWidth(text, cells, random.Chance(0.5))), cells);
    EXPECT_TRUE(IsValidUtf8(Printable(text)));
    EXPECT_EQ(Printable(text).find('\x1B'), std::string::npos);
  }
}

}  // namespace
}  // namespace nightshift
