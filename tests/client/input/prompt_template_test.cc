#include "client/input/prompt_template.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string>& Columns() {
  static const auto* const columns =
      new std::vector<std::string>{"topic", "first name", "a.b", "größe"};
  return *columns;
}

std::string Fill(absl::string_view text, const std::vector<absl::string_view>& cells) {
  const absl::StatusOr<PromptTemplate> made = PromptTemplate::Create(text, Columns());
  return made.ok() ? made->Fill(cells, nullptr)
                   : absl::StrCat("refused: ", made.status().message());
}

TEST(PromptTemplateTest, PlacesAreFilled) {
  EXPECT_EQ(Fill("Write about {{topic}}.", {"owls", "", "", ""}), "Write about owls.");
  EXPECT_EQ(Fill("{{ first name }}/{{a.b}}/{{größe}}{{topic}}", {"t", "Jo", "5", "9"}), "Jo/5/9t");
}

// A cell that looks like a place is data.
TEST(PromptTemplateTest, CellsAreNotLookedIntoAgain) {
  EXPECT_EQ(Fill("{{topic}} {{a.b}}", {"{{a.b}}", "", "{{topic}}", ""}), "{{a.b}} {{topic}}");
}

TEST(PromptTemplateTest, BracesAsText) {
  EXPECT_EQ(Fill("{{{{topic}} {{topic}} } }} {", {"x", "", "", ""}), "{{topic}} x } }} {");
  EXPECT_EQ(Fill("{\"q\": {{topic}}}", {"x", "", "", ""}), "{\"q\": x}");
  EXPECT_EQ(Fill("{{{topic}}}", {"x", "", "", ""}), "{x}");
}

TEST(PromptTemplateTest, UnknownColumnsAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(Fill("{{topik}}", {}), AllOf(HasSubstr("no column \"topik\" in row 1"),
                                           HasSubstr("topic, first name, a.b")));
  EXPECT_THAT(Fill("{{}}{{topic}}", {}), HasSubstr("refused"));
  EXPECT_THAT(Fill("{{Topic}}", {}), HasSubstr("refused"));
  EXPECT_THAT(Fill("Write about {{topic", {}), HasSubstr("no closing }}"));
}

TEST(PromptTemplateTest, ATemplateWithoutAnyPlaceIsRefused) {
  EXPECT_THAT(Fill("Write about {topic}", {}), HasSubstr("{{topic}}, for example"));
  EXPECT_THAT(Fill("", {}), HasSubstr("refused"));
}

TEST(PromptTemplateTest, EmptyCellsAreNoticedOnlyWhereTheyAreUsed) {
  const absl::StatusOr<PromptTemplate> made = PromptTemplate::Create("{{topic}}", Columns());
  ASSERT_TRUE(made.ok());
  bool empty = false;
  EXPECT_EQ(made->Fill({"x", "", "", ""}, &empty), "x");
  EXPECT_FALSE(empty);
  made->Fill({" ", "y", "", ""}, &empty);
  EXPECT_TRUE(empty);
}

}  // namespace
}  // namespace nightshift
