#include "client/cli/parse.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace nightshift {
namespace {

class ParseTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/nightshift_parse_test";
    ASSERT_EQ(std::system(("mkdir -p " + folder_ + "/nightshift").c_str()), 0);
    user_file_ = folder_ + "/nightshift/config.yaml";
    std::remove(user_file_.c_str());
    setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
    for (const char* name : {"NIGHTSHIFT_CONFIG", "NIGHTSHIFT_COORDINATOR", "NIGHTSHIFT_LABEL",
                             "NIGHTSHIFT_JSON", "NIGHTSHIFT_MAX_ATTEMPTS"})
      unsetenv(name);
  }

  std::variant<Invocation, ParseFailure> Parse(std::vector<const char*> words) {
    words.insert(words.begin(), "nightshift");
    return ParseCommandLine(static_cast<int>(words.size()), words.data());
  }
  Invocation Good(std::vector<const char*> words) {
    auto parsed = Parse(std::move(words));
    if (auto* failed = std::get_if<ParseFailure>(&parsed)) {
      ADD_FAILURE() << failed->failure.message;
      return {};
    }
    return std::get<Invocation>(std::move(parsed));
  }
  Failure Bad(std::vector<const char*> words) {
    auto parsed = Parse(std::move(words));
    if (auto* failed = std::get_if<ParseFailure>(&parsed)) return failed->failure;
    ADD_FAILURE() << "accepted";
    return {};
  }

  std::string folder_, user_file_;
};

TEST_F(ParseTest, SharedFlagsStandBeforeAndAfterTheCommand) {
  for (const auto& words : std::vector<std::vector<const char*>>{
           {"--json", "--data-dir", "d", "jobs"}, {"jobs", "--json", "--data-dir=d"}}) {
    const Invocation parsed = Good(words);
    EXPECT_STREQ(parsed.command->name, "jobs");
    EXPECT_TRUE(parsed.settings.On("json"));
    EXPECT_EQ(parsed.settings.Text("data-dir"), "d");
  }
}

TEST_F(ParseTest, AFlagDoesNotSwallowTheInput) {
  const Invocation parsed = Good({"run", "--backend", "a", "--backend", "b", "in.jsonl"});
  EXPECT_EQ(parsed.positionals, std::vector<std::string>{"in.jsonl"});
  EXPECT_EQ(parsed.settings.List("backend"), (std::vector<std::string>{"a", "b"}));
}

TEST_F(ParseTest, DoubleDashEndsFlags) {
  EXPECT_EQ(Good({"run", "--", "-x.jsonl"}).positionals, std::vector<std::string>{"-x.jsonl"});
  EXPECT_EQ(Good({"run", "--limit", "3", "-"}).positionals, std::vector<std::string>{"-"});
}

TEST_F(ParseTest, AnInputMayBeCalledLikeACommand) {
  EXPECT_EQ(Good({"run", "jobs"}).positionals, std::vector<std::string>{"jobs"});
}

TEST_F(ParseTest, CommandsAreNotCompleted) {
  const Failure failure = Bad({"stat"});
  EXPECT_EQ(failure.exit, ExitCode::kUsage);
  EXPECT_EQ(failure.hint, "did you mean nightshift status?");
}

TEST_F(ParseTest, UnknownFlagSuggestsTheNearest) {
  const Failure failure = Bad({"run", "x", "--jsno"});
  EXPECT_EQ(failure.exit, ExitCode::kUsage);
  EXPECT_EQ(failure.message, "unknown option --jsno");
  EXPECT_EQ(failure.hint, "did you mean --json?");
}

TEST_F(ParseTest, AFlagOfAnotherCommandSaysWhose) {
  EXPECT_EQ(Bad({"watch", "job_1", "--budget-usd", "3"}).hint, "it belongs to run, submit, resume");
}

TEST_F(ParseTest, HelpWinsOverWhatElseIsWrong) {
  EXPECT_TRUE(Good({"run", "x", "--budget-usd", "3", "-h"}).help);
  EXPECT_TRUE(Good({"run", "--nonsense", "--help"}).help);
  EXPECT_TRUE(Good({"run", "--help"}).help);
}

TEST_F(ParseTest, AMissingValueIsNotTakenFromTheNextFlag) {
  EXPECT_EQ(Bad({"run", "x", "--model", "--json"}).message, "--model needs a value before --json");
  EXPECT_EQ(Bad({"run", "x", "--model"}).exit, ExitCode::kUsage);
}

TEST_F(ParseTest, WrongValuesNameTheFlag) {
  EXPECT_EQ(Bad({"run", "x", "--deadline", "soon"}).message,
            "--deadline: \"soon\" is not a duration; write 500ms, 30s, 5m, 8h or 2d");
  EXPECT_TRUE(absl::StartsWith(Bad({"run", "x", "--max-attempts", "0"}).message,
                               "--max-attempts: \"0\" is too small"));
  EXPECT_TRUE(
      absl::StartsWith(Bad({"jobs", "--color", "red"}).message, "--color: \"red\" is none"));
  EXPECT_TRUE(absl::StartsWith(Bad({"run", "x", "--label", "a"}).message, "--label: "));
}

TEST_F(ParseTest, ANegativePriorityIsANumber) {
  EXPECT_EQ(Good({"run", "x", "--priority", "-5"}).settings.Int("priority"), -5);
}

TEST_F(ParseTest, WordsAreCounted) {
  EXPECT_EQ(Bad({"run"}).message, "nightshift run needs INPUT");
  EXPECT_EQ(Bad({"status", "a", "b"}).message, "\"b\" is one word too many");
  EXPECT_TRUE(Good({"audit"}).positionals.empty());
}

// One value, given at each level in turn: each wins over all before it.
TEST_F(ParseTest, FlagBeatsEnvironmentBeatsConfigBeatsUserFileBeatsDefault) {
  const auto coordinator = [&](std::vector<const char*> words) {
    const Invocation parsed = Good(std::move(words));
    return parsed.settings.all().at("coordinator");
  };
  Setting setting = coordinator({"jobs"});
  EXPECT_EQ(setting.values[0], "127.0.0.1:7440");
  EXPECT_EQ(setting.source, Source::kDefault);

  std::ofstream(user_file_) << "\ncoordinator: user:1\n";
  setting = coordinator({"jobs"});
  EXPECT_EQ(setting.values[0], "user:1");
  EXPECT_EQ(setting.where, user_file_ + ":2");

  const std::string config = folder_ + "/explicit.yaml";
  std::ofstream(config) << "coordinator: config:1\n";
  setting = coordinator({"jobs", "--config", config.c_str()});
  EXPECT_EQ(setting.values[0], "config:1");
  EXPECT_EQ(setting.where, config + ":1");

  setenv("NIGHTSHIFT_COORDINATOR", "environment:1", 1);
  setting = coordinator({"jobs", "--config", config.c_str()});
  EXPECT_EQ(setting.values[0], "environment:1");
  EXPECT_EQ(setting.where, "NIGHTSHIFT_COORDINATOR");

  setting = coordinator({"jobs", "--config", config.c_str(), "--coordinator", "flag:1"});
  EXPECT_EQ(setting.values[0], "flag:1");
  EXPECT_EQ(setting.where, "--coordinator");
}

TEST_F(ParseTest, TheEnvironmentGoesThroughTheSameChecks) {
  setenv("NIGHTSHIFT_MAX_ATTEMPTS", "many", 1);
  EXPECT_EQ(Bad({"run", "x"}).message, "NIGHTSHIFT_MAX_ATTEMPTS: \"many\" is not a whole number");
  setenv("NIGHTSHIFT_MAX_ATTEMPTS", "7", 1);
  setenv("NIGHTSHIFT_LABEL", "a=1,b=2", 1);
  setenv("NIGHTSHIFT_JSON", "1", 1);
  const Invocation parsed = Good({"run", "x"});
  EXPECT_EQ(parsed.settings.Int("max-attempts"), 7);
  EXPECT_EQ(parsed.settings.List("label"), (std::vector<std::string>{"a=1", "b=2"}));
  EXPECT_TRUE(parsed.settings.On("json"));
  unsetenv("NIGHTSHIFT_MAX_ATTEMPTS");
  unsetenv("NIGHTSHIFT_LABEL");
  unsetenv("NIGHTSHIFT_JSON");
}

// A file may be shared by all commands: keys of other commands are checked and left alone.
TEST_F(ParseTest, KeysOfOtherCommandsAreNoError) {
  std::ofstream(user_file_) << "lease-ttl: 20s\n";
  EXPECT_STREQ(Good({"jobs"}).command->name, "jobs");
}

}  // namespace
}  // namespace nightshift
