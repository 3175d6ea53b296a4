#include "client/output/text_table.h"

#include "gtest/gtest.h"

namespace nightshift {
namespace {

TEST(TextTableTest, ColumnsAlignByCells) {
  TextTable table({{"job"}, {"done", Align::kRight}, {"name"}});
  table.AddRow({"job_1", "7", "größe"});
  table.AddRow({"日本語", "12,345", ""});
  table.AddRow({"x"});
  EXPECT_EQ(table.Render(),
            "job       done  name\n"
            "job_1        7  größe\n"
            "日本語  12,345\n"
            "x\n");
}

TEST(TextTableTest, WithoutNamesThereIsNoHeader) {
  TextTable table({{""}, {""}});
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.Render(), "");
  table.AddRow({"a", "b"});
  EXPECT_EQ(table.Render(2), "  a  b\n");
}

TEST(TextTableTest, LongCellsAreCutAndControlCharactersShown) {
  TextTable table({{"id", Align::kLeft, 5}, {"n"}});
  table.AddRow({"abcdefgh", "1"});
  table.AddRow({"a\nb", "2"});
  EXPECT_EQ(table.Render(), "id     n\nabcd…  1\na\\nb   2\n");
  EXPECT_EQ(table.Render(0, false), "id     n\nab...  1\na\\nb   2\n");
}

}  // namespace
}  // namespace nightshift
