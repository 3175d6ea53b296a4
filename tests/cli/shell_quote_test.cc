#include "client/cli/shell_quote.h"

#include <cstdio>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace nightshift {
namespace {

// What bash makes of the words, one per line.
std::string ThroughBash(const std::vector<std::string>& words) {
  std::vector<std::string> command = {"printf", "%s\\n"};
  command.insert(command.end(), words.begin(), words.end());
  const std::string line = "bash -c " + ShellQuote(ShellCommand(command));
  FILE* const pipe = popen(line.c_str(), "r");
  std::string out;
  char buffer[256];
  while (fgets(buffer, sizeof buffer, pipe) != nullptr) out += buffer;
  EXPECT_EQ(pclose(pipe), 0) << line;
  return out;
}

TEST(ShellQuoteTest, HarmlessWordsStayReadable) {
  EXPECT_EQ(ShellCommand({"nightshift", "run", "a.jsonl", "--backend", "http://127.0.0.1:8000/v1"}),
            "nightshift run a.jsonl --backend http://127.0.0.1:8000/v1");
}

TEST(ShellQuoteTest, BashReadsBackEveryWord) {
  const std::vector<std::string> words = {
      "two words", "$HOME",    "it's",    "\"double\"", "back\\slash", "`id`",
      "a\tb",      "!history", "*",       "~",          "{{topic}}",   "ümlaut 日本",
      "",          "-x.jsonl", "a;b|c&d", "#comment",   "\x7f",        "tab\t'q'\\"};
  std::string expected;
  for (const std::string& word : words) expected += word + "\n";
  EXPECT_EQ(ThroughBash(words), expected);
}

TEST(ShellQuoteTest, LineFeedInAWordStaysInIt) { EXPECT_EQ(ThroughBash({"a\nb"}), "a\nb\n"); }

}  // namespace
}  // namespace nightshift
