#include "client/input/text_argument.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/input/input_support.h"

namespace nightshift {
namespace {

using ::testing::HasSubstr;

TEST(TextArgumentTest, TextOrFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(*ReadTextArgument("--system", "Be brief"), "Be brief");
  EXPECT_EQ(*ReadTextArgument("--system", "@@home"), "@home");
  const std::string path = folder.Write("s.txt", "\xEF\xBB\xBFline 1\nline 2\r\n");
  EXPECT_EQ(*ReadTextArgument("--system", "@" + path), "line 1\nline 2");
}

TEST(TextArgumentTest, RefusalsNameTheFlag) {
  const TemporaryFolder folder;
  const auto missing = ReadTextArgument("--template", "@" + folder.Path("none"));
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("--template: there is no file"));
  EXPECT_FALSE(ReadTextArgument("--template", "").ok());
  EXPECT_FALSE(ReadTextArgument("--template", "@" + folder.Write("e", "\n")).ok());
  const auto latin = ReadTextArgument("--system", "@" + folder.Write("l", "caf\xE9\n"));
  EXPECT_THAT(std::string(latin.status().message()), HasSubstr("Latin-1"));
}

}  // namespace
}  // namespace nightshift
