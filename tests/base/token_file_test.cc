#include "base/token_file.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace nightshift {
namespace {

TEST(TokenFileTest, WhatIsPrintedIsRead) {
  std::vector<TokenEntry> entries = {
      MakeToken(Role::kAdmin, "", "", 1790000000).entry,
      MakeToken(Role::kSubmit, "search", "the nightly run  ", 1790000001).entry,
      MakeToken(Role::kWorker, "", "line\nbreak", 0).entry,
      MakeToken(Role::kRead, kAllTenants, "dashboard", 5).entry};
  const std::string text = PrintTokenTable(entries);
  ASSERT_TRUE(IsTokenTable(text));
  const auto read = ParseTokenTable(text);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ((*read)[i].id, entries[i].id);
    EXPECT_EQ((*read)[i].role, entries[i].role);
    EXPECT_EQ((*read)[i].tenant, entries[i].tenant);
    EXPECT_EQ((*read)[i].salt, entries[i].salt);
    EXPECT_EQ((*read)[i].hash, entries[i].hash);
    EXPECT_EQ((*read)[i].created_at_s, entries[i].created_at_s);
    EXPECT_EQ((*read)[i].name, entries[i].name);
  }
}

TEST(TokenFileTest, OnlyTheWholeTokenIsFound) {
  const NewToken a = MakeToken(Role::kAdmin, "", "", 0);
  const NewToken b = MakeToken(Role::kRead, "x", "", 0);
  const std::vector<TokenEntry> entries = {a.entry, b.entry};
  const TokenEntry* found = FindToken(entries, b.token);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->id, b.entry.id);
  std::string wrong = a.token;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  // The other's id before one's own secret opens nothing.
  const std::string mixed = a.token.substr(0, 13) + b.token.substr(13);
  for (const std::string& token :
       {wrong, a.token.substr(0, a.token.size() - 1), a.token + "0", mixed, a.entry.hash,
        a.entry.id, std::string("ns_"), std::string()}) {
    EXPECT_EQ(FindToken(entries, token), nullptr) << token;
  }
  EXPECT_EQ(FindToken({}, a.token), nullptr);
  EXPECT_FALSE(absl::StrContains(PrintTokenTable(entries), a.token.substr(14)));
}

TEST(TokenFileTest, ALineThatIsNoneIsNamed) {
  const NewToken good = MakeToken(Role::kSubmit, "t", "", 7);
  const std::string text = PrintTokenTable({good.entry});
  for (const char* line : {"x", "0011223344 boss - 00 00 1 n", "0011223344 read"}) {
    const auto read = ParseTokenTable(absl::StrCat(text, "\n# a remark\n", line, "\n"));
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << line;
    EXPECT_TRUE(absl::StrContains(read.status().message(), "line 5")) << read.status();
  }
  EXPECT_FALSE(IsTokenTable("secret"));
}

TEST(TokenFileTest, NamesOfTenants) {
  for (const char* good : {"a", "search-2.eu_West", "9"}) EXPECT_TRUE(IsTenantName(good)) << good;
  for (const char* bad : {"", "-", "-a", "a b", "a/b", "*", "a\n", "\xc3\xa4"}) {
    EXPECT_FALSE(IsTenantName(bad)) << bad;
  }
  EXPECT_FALSE(IsTenantName(std::string(65, 'a')));
}

}  // namespace
}  // namespace nightshift
