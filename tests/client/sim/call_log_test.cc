#include "client/sim/call_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace nightshift {
namespace {

using testing::HasSubstr;

class CallLogTest : public testing::Test {
 protected:
  CallLogTest() { std::filesystem::remove(path_); }
  ~CallLogTest() override { std::filesystem::remove(path_); }

  std::vector<std::string> Lines() const {
    std::ifstream file(path_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  static CallLogEntry Entry(absl::string_view key) {
    CallLogEntry entry;
    entry.started = absl::FromUnixMillis(1790000000250);
    entry.took = absl::Milliseconds(12.5);
    entry.path = "/v1/completions";
    entry.status = 200;
    entry.key = key;
    entry.mark = "0123456789ab";
    entry.call = 3;
    entry.how = "answered";
    return entry;
  }

  const std::string path_ = testing::TempDir() + "/call_log_test.jsonl";
};

TEST_F(CallLogTest, LineIsJsonWithAllThatIsKnown) {
  auto log = CallLog::Open(path_);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Append(Entry("a \"quoted\"\nkey"));
  (*log)->Flush();
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(CheckJson(lines[0]).ok()) << lines[0];
  EXPECT_THAT(lines[0], HasSubstr(R"("time":1790000000.250000,"ms":12.500)"));
  EXPECT_THAT(lines[0], HasSubstr(R"("path":"/v1/completions","status":200,"how":"answered")"));
  EXPECT_THAT(lines[0], HasSubstr(R"("call":3,"mark":"0123456789ab","key":"a \"quoted\")"));
}

TEST_F(CallLogTest, AppendsToWhatIsThere) {
  for (int i = 0; i < 2; ++i) (*CallLog::Open(path_))->Append(Entry(absl::StrCat(i)));
  EXPECT_EQ(Lines().size(), 2u) << "the end of the log writes what is left";
}

TEST_F(CallLogTest, NoLineIsLostOrTornBetweenThreads) {
  auto log = CallLog::Open(path_);
  ASSERT_TRUE(log.ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) (*log)->Append(Entry("key"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  (*log)->Flush();
  const std::vector<std::string> lines = Lines();
  EXPECT_EQ(lines.size(), 2000u);
  for (const std::string& line : lines) ASSERT_TRUE(CheckJson(line).ok()) << line;
}

TEST_F(CallLogTest, PlaceThatCannotBeWrittenIsNamed) {
  const auto log = CallLog::Open("/nowhere/at/all.jsonl");
  EXPECT_TRUE(absl::IsUnavailable(log.status()));
  EXPECT_THAT(std::string(log.status().message()), HasSubstr("/nowhere/at/all.jsonl"));
}

}  // namespace
}  // namespace nightshift
