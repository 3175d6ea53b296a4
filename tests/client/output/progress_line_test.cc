#include "client/output/progress_line.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "client/output/text_width.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace nightshift {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ProgressState Night() {
  ProgressState state;
  state.done = 84'731;
  state.total = 200'000;
  state.failed = 521;
  state.retrying = 37;
  state.in_flight = 256;
  state.requests_per_second = 12.34;
  state.tokens_per_second = 18'400;
  state.eta_low_seconds = 11'000;
  state.eta_high_seconds = 11'200;
  state.state = "running";
  return state;
}

const absl::Time kThen = absl::FromUnixSeconds(1'795'998'010);  // 2026-11-30T00:20:10Z
const absl::TimeZone kZone = absl::FixedTimeZone(3600);

TEST(ProgressLineTest, FieldsGoAsTheTerminalNarrows) {
  EXPECT_EQ(TerminalProgressLine(Night(), 96),
            "42%  84,731/200,000  521 failed  37 retrying  12.3 req/s  18.4k tok/s  256 in flight  "
            "ETA 3h05m");
  EXPECT_EQ(TerminalProgressLine(Night(), 95),
            "42% 84.7k/200k  521 failed 37 retry  12.3/s 18.4k tok/s  256 open  ETA 3h05m");
  EXPECT_EQ(TerminalProgressLine(Night(), 77),
            "42% 84.7k/200k  521 failed 37 retry  12.3/s 18.4k tok/s  256 open  ETA 3h05m");
  EXPECT_EQ(TerminalProgressLine(Night(), 76), "42% 84.7k/200k 521 failed 12.3/s ETA 3h05m");
  EXPECT_EQ(TerminalProgressLine(Night(), 43), "42% 84.7k/200k 521 failed 12.3/s ETA 3h05m");
  EXPECT_EQ(TerminalProgressLine(Night(), 20), "42% 84.7k/200k 521…");
}

TEST(ProgressLineTest, SmallJobs) {
  ProgressState state;
  state.done = 122;
  state.total = 200;
  state.in_flight = 32;
  state.requests_per_second = 48.1;
  state.tokens_per_second = 6'200;
  state.eta_low_seconds = state.eta_high_seconds = 2;
  EXPECT_EQ(TerminalProgressLine(state, 80),
            "61% 122/200  0 failed  48.1/s 6.2k tok/s  32 open  ETA 2s");
  state.total = 5'000;
  state.done = 164;
  state.eta_low_seconds = 180;
  state.eta_high_seconds = 240;
  EXPECT_THAT(TerminalProgressLine(state, 80),
              AllOf(HasSubstr("3% 164/5,000"), HasSubstr("ETA 3m30s")));
}

TEST(ProgressLineTest, UncertainEndIsARangeWhereThereIsRoom) {
  ProgressState state = Night();
  state.eta_low_seconds = 7'200;
  state.eta_high_seconds = 14'400;
  EXPECT_THAT(TerminalProgressLine(state, 120), HasSubstr("ETA 2h00m-4h00m"));
  EXPECT_THAT(TerminalProgressLine(state, 80), HasSubstr("ETA 3h00m"));
  state.eta_low_seconds = -1;
  EXPECT_THAT(TerminalProgressLine(state, 120), Not(HasSubstr("ETA")));
}

TEST(ProgressLineTest, TheReasonOfAStandstillTakesThePlaceOfRates) {
  ProgressState state = Night();
  state.waiting_for = "backend b1 rate limited until 02:31";
  for (const int width : {120, 80}) {
    EXPECT_THAT(TerminalProgressLine(state, width),
                AllOf(HasSubstr("waiting: backend b1 rate limited until 02:31"),
                      Not(HasSubstr("/s")), Not(HasSubstr("ETA"))));
  }
  state.waiting_for.clear();
  state.phase = "writing results";
  EXPECT_THAT(TerminalProgressLine(state, 60), HasSubstr("writing results"));
}

// 100 % would say that nothing is left.
TEST(ProgressLineTest, AHundredPercentOnlyAtTheEnd) {
  EXPECT_EQ(PercentDone(0, 200'000), 0);
  EXPECT_EQ(PercentDone(199'999, 200'000), 99);
  EXPECT_EQ(PercentDone(200'000, 200'000), 100);
  EXPECT_EQ(PercentDone(0, 0), 0);
  EXPECT_EQ(PercentDone(99'999'999'999, 100'000'000'000), 99);
  EXPECT_EQ(PercentDone(INT64_MAX - 1, INT64_MAX), 99);
  for (int percent = 0; percent <= 100; ++percent) EXPECT_EQ(PercentDone(percent, 100), percent);
}

TEST(ProgressLineTest, NeverWiderThanTheTerminalWhateverTheNumbers) {
  const uint64_t seed = Random::FromSystem().Next();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  const auto number = [&] { return static_cast<int64_t>(random.Next() >> random.Below(64) >> 1); };
  for (int round = 0; round < 5'000; ++round) {
    ProgressState state;
    state.done = number();
    state.total = number();
    state.failed = number();
    state.retrying = number();
    state.in_flight = number();
    state.requests_per_second = random.LogNormal(10, 5);
    state.tokens_per_second = random.LogNormal(1000, 5);
    state.eta_low_seconds = random.LogNormal(1000, 4);
    state.eta_high_seconds = state.eta_low_seconds * 2;
    if (random.Chance(0.3)) state.waiting_for = "ein Rückstau 日本語 of b1 and b2 and b3";
    const int width = static_cast<int>(random.Below(200));
    EXPECT_LE(DisplayWidth(TerminalProgressLine(state, width)), std::max(width - 1, 0));
    EXPECT_TRUE(nlohmann::json::accept(JsonProgressLine(state, kThen, kZone)));
  }
}

TEST(ProgressLineTest, PlainLinesAreKeysAndValues) {
  ProgressState state = Night();
  EXPECT_EQ(PlainProgressLine(state, kThen, kZone),
            "2026-11-30T01:20:10+01:00 42% 84731/200000 failed=521 retrying=37 req_s=12.3 "
            "tok_s=18400 in_flight=256 eta_s=11100");
  state.state = "paused";
  state.waiting_for = "a \"budget\"";
  state.eta_low_seconds = -1;
  EXPECT_EQ(PlainProgressLine(state, kThen, kZone),
            "2026-11-30T01:20:10+01:00 42% 84731/200000 failed=521 retrying=37 req_s=12.3 "
            "tok_s=18400 in_flight=256 state=paused waiting=\"a \\\"budget\\\"\"");
}

TEST(ProgressLineTest, JsonLinesSayTheSame) {
  ProgressState state = Night();
  state.cost_usd = 41.2;
  EXPECT_EQ(JsonProgressLine(state, kThen, kZone),
            R"({"type":"status","t":"2026-11-30T01:20:10+01:00","done":84731,"total":200000,)"
            R"("failed":521,"retrying":37,"in_flight":256,"req_s":12.34,"tok_s":18400,)"
            R"("eta_s":[11000,11200],"cost_usd":41.2,"state":"running","why":null})");
  state.cost_usd.reset();
  state.eta_high_seconds = -1;
  state.waiting_for = "a \"budget\"";
  EXPECT_THAT(
      JsonProgressLine(state, kThen, kZone),
      AllOf(HasSubstr(R"("eta_s":null,"cost_usd":null)"), HasSubstr(R"("why":"a \"budget\"")")));
}

TEST(ProgressLineTest, StateOfAJobComesFromItsStatus) {
  v1::JobStatus status;
  status.set_state(v1::JOB_STATE_PAUSED);
  status.set_reason(v1::PAUSE_REASON_BUDGET);
  status.mutable_counts()->set_total(100);
  status.mutable_counts()->set_succeeded(10);
  status.mutable_counts()->set_failed(5);
  status.mutable_counts()->set_cancelled(2);
  status.mutable_counts()->set_expired(1);
  status.mutable_counts()->set_retrying(3);
  status.set_eta_low_seconds(-1);
  status.set_cost_usd(2);
  const ProgressState state = ProgressOf(status);
  EXPECT_EQ(state.done, 18);
  EXPECT_EQ(state.failed, 5);
  EXPECT_EQ(state.phase, "paused (budget)");
  EXPECT_EQ(state.state, "paused");
  EXPECT_FALSE(state.cost_usd.has_value());
  status.set_state(v1::JOB_STATE_FINALIZING);
  EXPECT_EQ(ProgressOf(status).phase, "writing results");
  status.set_state(v1::JOB_STATE_RUNNING);
  EXPECT_EQ(ProgressOf(status).phase, "");
}

}  // namespace
}  // namespace nightshift
