#include "client/cli/config_file.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "gtest/gtest.h"

namespace nightshift {
namespace {

class ConfigFileTest : public testing::Test {
 protected:
  absl::StatusOr<ConfigFile> Read(const std::string& text) {
    path_ = testing::TempDir() + "/nightshift_config_file_test.yaml";
    std::ofstream(path_) << text;
    return ReadConfigFile(path_);
  }
  std::string path_;
};

TEST_F(ConfigFileTest, ReadsFlagsListsAndBackends) {
  const auto file = Read(
      "max-attempts: 8\n"
      "data_dir: /x\n"
      "label: {team: search, run: '7'}\n"
      "backend: [gpu]\n"
      "backends:\n"
      "  gpu:\n"
      "    kind: vllm\n"
      "    url: http://10.0.0.7:8000/v1\n"
      "    api_key_env: GPU_KEY\n"
      "    price_prompt_per_million: 0.1\n"
      "    request_timeout: 2m\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->values.at("max-attempts").values, std::vector<std::string>{"8"});
  EXPECT_EQ(file->values.at("max-attempts").line, 1);
  EXPECT_EQ(file->values.at("data-dir").values, std::vector<std::string>{"/x"});
  EXPECT_EQ(file->values.at("label").values, (std::vector<std::string>{"team=search", "run=7"}));
  ASSERT_EQ(file->backends.size(), 1u);
  EXPECT_EQ(file->backends[0].name, "gpu");
  EXPECT_EQ(file->backends[0].kind, "vllm");
  EXPECT_EQ(file->backends[0].api_key_env, "GPU_KEY");
  EXPECT_DOUBLE_EQ(file->backends[0].price_prompt_per_million, 0.1);
  EXPECT_EQ(file->backends[0].request_timeout, absl::Minutes(2));
}

TEST_F(ConfigFileTest, AnUnknownKeyNamesFileLineAndTheNearestKey) {
  const auto file = Read("json: true\nmax-atempts: 8\n");
  ASSERT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file.status().message(),
            path_ + ":2: unknown key max-atempts; did you mean max-attempts?");
}

TEST_F(ConfigFileTest, ABackendMayHaveItsOwnNamesOfModels) {
  const auto file = Read(
      "backends:\n  gpu:\n    url: http://h/v1\n    model_aliases:\n      small: org/small-8b\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->backends[0].model_aliases,
            (std::map<std::string, std::string>{{"small", "org/small-8b"}}));
  EXPECT_EQ(Read("backends:\n  gpu:\n    url: http://h/v1\n    model_aliases: small\n")
                .status()
                .message(),
            path_ +
                ":4: backend gpu: model-aliases: expected the requests' names with this "
                "backend's");
}

TEST_F(ConfigFileTest, AnUnknownKeyOfABackendNamesTheLine) {
  const auto file = Read("backends:\n  gpu:\n    url: http://h/v1\n    prize: 3\n");
  EXPECT_EQ(file.status().message(), path_ + ":4: backend gpu: unknown key prize");
}

TEST_F(ConfigFileTest, AKeyInTheFileIsRefusedWithoutRepeatingIt) {
  const auto file = Read("backends:\n  gpu: {url: 'http://h/v1', api_key: sk-secret}\n");
  ASSERT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(file.status().message()).find("sk-secret"), std::string::npos);
}

// With no time, or with more than a timer holds, every call would fail at once.
TEST_F(ConfigFileTest, ATimeoutThatCannotBeIsRefused) {
  for (const std::string text : {"0s", "99999999h", "-1s"}) {
    const auto file =
        Read("backends:\n  gpu: {url: 'http://h/v1', request_timeout: " + text + "}\n");
    ASSERT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(std::string(file.status().message()).find(text), std::string::npos);
  }
}

TEST_F(ConfigFileTest, BrokenYamlNamesTheLine) {
  const auto file = Read("json: true\ncolor: [never\n");
  ASSERT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(file.status().message()).rfind(path_ + ":", 0), 0u);
}

TEST_F(ConfigFileTest, AWrongValueIsFoundEvenForAnotherCommand) {
  const auto file = Read("lease-ttl: soon\n");
  ASSERT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(file.status().message()).rfind(path_ + ":1: lease-ttl: ", 0), 0u);
}

TEST_F(ConfigFileTest, TheSameKeyTwiceIsRefused) {
  EXPECT_EQ(Read("json: true\njson: false\n").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ConfigFileTest, AnEmptyFileSetsNothing) {
  const auto file = Read("# nothing\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->values.empty());
}

}  // namespace
}  // namespace nightshift
