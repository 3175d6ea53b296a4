#include "client/sim/sim_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <fstream>
#include <set>

namespace nightshift {
namespace {

using testing::HasSubstr;

// Everything that a flag can change, as text, to compare two sets of options.
std::string Describe(const SimServerOptions& o) {
  return absl::StrCat(
      absl::StrCat(o.listen, "|", SimProfileName(o.profile), "|", o.seed, "|", o.log_path, "|",
                   o.models.size(), "|", o.api_key, "|", o.directives, "|", o.context_tokens, "|",
                   absl::FormatDuration(o.latency), "|", absl::FormatDuration(o.loading), "|",
                   o.reply_tokens, "|", o.reply_spread, "|", o.connections_max, "|"),
      absl::StrCat(o.faults.too_many, "|", o.faults.internal, "|", o.faults.drop, "|",
                   o.faults.hang, "|", o.faults.slow, "|",
                   absl::FormatDuration(o.faults.slow_delay), "|"),
      absl::StrCat(o.gpu.slots, "|", absl::FormatDuration(o.gpu.step_base), "|",
                   absl::FormatDuration(o.gpu.step_per_call), "|",
                   absl::FormatDuration(o.gpu.step_per_1k_kv), "|",
                   absl::FormatDuration(o.gpu.prefill_per_1k), "|", o.gpu.kv_tokens, "|",
                   o.gpu.queue_max, "|", o.gpu.noise, "|"),
      absl::StrCat(o.cerebras.tokens_per_second, "|", o.cerebras.requests_per_minute, "|",
                   o.cerebras.tokens_per_minute, "|", o.cerebras.requests_per_day, "|",
                   o.cerebras.tokens_per_day, "|", o.cerebras.in_flight_max, "|",
                   o.cerebras.refund_unused, "|", o.cerebras.limit_headers));
}

TEST(SimFlagsTest, DefaultsInTheTableAreTheDefaultsOfTheOptions) {
  SimServerOptions options;
  for (const SimFlag& flag : SimFlags()) {
    if (*flag.default_text == '\0') continue;
    EXPECT_TRUE(SetSimFlag(options, flag.name, flag.default_text).ok()) << flag.name;
  }
  EXPECT_EQ(Describe(options), Describe(SimServerOptions()));
}

TEST(SimFlagsTest, EachFlagChangesAMemberOfItsOwn) {
  const std::string key_file = testing::TempDir() + "/sim_flags_test_key";
  std::ofstream(key_file) << "secret\n";
  std::set<std::string> seen = {Describe(SimServerOptions())};
  for (const SimFlag& flag : SimFlags()) {
    const absl::string_view name = flag.name;
    std::string text;
    switch (flag.type) {
      case SimFlagType::kInt:
        text = "1234";
        break;
      case SimFlagType::kNumber:
        text = "0.125";
        break;
      case SimFlagType::kDuration:
        text = "77ms";
        break;
      case SimFlagType::kSwitch:
        text = name == "directives" || name == "limit-headers" ? "false" : "true";
        break;
      case SimFlagType::kChoice:
        text = "gpu";
        break;
      case SimFlagType::kText:
        text = name == "api-key-file" ? key_file : "text";
        break;
    }
    SimServerOptions options;
    ASSERT_TRUE(SetSimFlag(options, name, text).ok()) << name;
    EXPECT_TRUE(seen.insert(Describe(options)).second) << "--" << name << " changes nothing new";
  }
  std::filesystem::remove(key_file);
}

TEST(SimFlagsTest, BadValuesNameFlagAndValue) {
  for (const SimFlag& flag : SimFlags()) {
    if (flag.type == SimFlagType::kText) continue;
    SimServerOptions options;
    const absl::Status status = SetSimFlag(options, flag.name, "banana");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << flag.name;
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr(flag.name), HasSubstr("banana")));
  }
  SimServerOptions options;
  EXPECT_TRUE(absl::IsInvalidArgument(SetSimFlag(options, "slots", "5000000000")));
  EXPECT_TRUE(absl::IsInvalidArgument(SetSimFlag(options, "api-key-file", "/nowhere/at/all")));
  EXPECT_TRUE(absl::IsNotFound(SetSimFlag(options, "bananas", "1")));
}

TEST(SimFlagsTest, CommandLineFillsTheOptions) {
  CLI::App app;
  SimServerOptions options;
  AddSimFlags(app, options);
  app.parse(
      "--profile gpu --slots 8 --step-time 0.5ms --fault-500 0.25 --refund-unused "
      "--directives=false");
  EXPECT_EQ(options.profile, SimProfile::kGpu);
  EXPECT_EQ(options.gpu.slots, 8);
  EXPECT_EQ(options.gpu.step_base, absl::Microseconds(500));
  EXPECT_EQ(options.faults.internal, 0.25);
  EXPECT_TRUE(options.cerebras.refund_unused);
  EXPECT_FALSE(options.directives);
}

TEST(SimFlagsTest, CommandLineRefusesBadValues) {
  CLI::App app;
  SimServerOptions options;
  AddSimFlags(app, options);
  EXPECT_THROW(app.parse("--slots many"), CLI::ParseError);
}

TEST(SimOptionsTest, NonsenseIsRefusedNamingTheFlag) {
  const auto reason = [](auto change) {
    SimServerOptions options;
    change(options);
    return std::string(ValidateSimOptions(options).message());
  };
  EXPECT_TRUE(ValidateSimOptions(SimServerOptions()).ok());
  EXPECT_THAT(reason([](auto& o) { o.gpu.slots = 0; }), HasSubstr("--slots 0"));
  EXPECT_THAT(reason([](auto& o) { o.faults.hang = 1.5; }), HasSubstr("--fault-hang 1.5"));
  EXPECT_THAT(reason([](auto& o) { o.faults.hang = o.faults.drop = 0.6; }), HasSubstr("1.2"));
  EXPECT_THAT(reason([](auto& o) { o.cerebras.tokens_per_minute = -1; }),
              HasSubstr("--tokens-per-minute -1"));
  EXPECT_THAT(reason([](auto& o) {
                o.gpu.step_base = absl::ZeroDuration();
                o.gpu.step_per_call = absl::ZeroDuration();
              }),
              HasSubstr("--step-time"));
  EXPECT_THAT(reason([](auto& o) { o.connections_max = 0; }), HasSubstr("--connections-max 0"));
  EXPECT_THAT(reason([](auto& o) { o.cerebras.tokens_per_second = 0; }),
              HasSubstr("--tokens-per-second"));
}

}  // namespace
}  // namespace nightshift
