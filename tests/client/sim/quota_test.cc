#include "client/sim/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/numbers.h"

namespace nightshift {
namespace {

constexpr MonotonicTime kStart{1'000'000'000};

SimCerebrasOptions Limits(int64_t rpm, int64_t tpm, int64_t rpd = 0, int64_t tpd = 0) {
  SimCerebrasOptions options;
  options.requests_per_minute = rpm;
  options.tokens_per_minute = tpm;
  options.requests_per_day = rpd;
  options.tokens_per_day = tpd;
  return options;
}

std::map<std::string, std::string> HeaderMap(Quota& quota, MonotonicTime now) {
  const auto headers = quota.Headers(now);
  return {headers.begin(), headers.end()};
}

TEST(QuotaTest, GrantsAMinutesWorthThenRefusesUntilItRefills) {
  Quota quota(Limits(60, 0), kStart);
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(quota.Take(1000000, kStart).has_value()) << i;
  const auto refusal = quota.Take(1, kStart);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_FALSE(refusal->tokens);
  EXPECT_STREQ(refusal->window, "minute");
  EXPECT_EQ(absl::ToDoubleSeconds(refusal->wait), 1.0);
  EXPECT_TRUE(quota.Take(1, kStart + absl::Milliseconds(900)).has_value());
  EXPECT_FALSE(quota.Take(1, kStart + absl::Milliseconds(1001)).has_value());
}

TEST(QuotaTest, TokensAreChargedAtAdmission) {
  Quota quota(Limits(0, 6000), kStart);
  EXPECT_FALSE(quota.Take(5000, kStart).has_value());
  const auto refusal = quota.Take(2000, kStart);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_TRUE(refusal->tokens);
  EXPECT_NEAR(absl::ToDoubleSeconds(refusal->wait), 10, 1e-6);
  EXPECT_FALSE(quota.Take(1000, kStart).has_value()) << "a refused request must pay nothing";
}

TEST(QuotaTest, RefusalNamesTheBucketThatWaitsLongest) {
  Quota quota(Limits(60, 600000, 0, 1000), kStart);
  EXPECT_FALSE(quota.Take(900, kStart).has_value());
  const auto refusal = quota.Take(200, kStart);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_TRUE(refusal->tokens);
  EXPECT_STREQ(refusal->window, "day");
  EXPECT_NEAR(absl::ToDoubleSeconds(refusal->wait), 100 * 86.4, 1e-3);
}

TEST(QuotaTest, RequestLargerThanTheWindowIsNeverAdmitted) {
  Quota quota(Limits(0, 1000), kStart);
  const auto refusal = quota.Take(1001, kStart);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->wait, absl::InfiniteDuration());
}

TEST(QuotaTest, RefundGivesTokensBackUpToTheLimit) {
  Quota quota(Limits(0, 1000), kStart);
  EXPECT_FALSE(quota.Take(1000, kStart).has_value());
  quota.Refund(600, kStart);
  EXPECT_FALSE(quota.Take(600, kStart).has_value());
  quota.Refund(5000, kStart);
  EXPECT_EQ(HeaderMap(quota, kStart)["x-ratelimit-remaining-tokens-minute"], "1000");
}

TEST(QuotaTest, HeadersNameTheWindowAndCountSecondsToFull) {
  Quota quota(Limits(60, 6000, 1440, 0), kStart);
  EXPECT_FALSE(quota.Take(3000, kStart).has_value());
  auto headers = HeaderMap(quota, kStart);
  EXPECT_EQ(headers.size(), 9u) << "three for each limit that is set";
  EXPECT_EQ(headers["x-ratelimit-limit-requests-minute"], "60");
  EXPECT_EQ(headers["x-ratelimit-remaining-requests-minute"], "59");
  EXPECT_EQ(headers["x-ratelimit-reset-requests-minute"], "1.000000");
  EXPECT_EQ(headers["x-ratelimit-limit-requests-day"], "1440");
  EXPECT_EQ(headers["x-ratelimit-reset-requests-day"], "60.000000");
  EXPECT_EQ(headers["x-ratelimit-remaining-tokens-minute"], "3000");
  EXPECT_EQ(headers["x-ratelimit-reset-tokens-minute"], "30.000000");
}

TEST(QuotaTest, NoLimitsMeansNoRefusalsAndNoHeaders) {
  Quota quota(Limits(0, 0), kStart);
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(quota.Take(1 << 20, kStart).has_value());
  EXPECT_TRUE(quota.Headers(kStart).empty());
}

// A pacer that believes the headers must get this much and no more.
TEST(QuotaTest, LongRunRateIsTheLimit) {
  Quota quota(Limits(600, 0), kStart);
  int granted = 0;
  for (int ms = 0; ms < 600000; ms += 10) {
    if (!quota.Take(1, kStart + absl::Milliseconds(ms)).has_value()) ++granted;
  }
  EXPECT_NEAR(granted, 600 * 11, 2);  // ten minutes, and the minute that was saved up
}

}  // namespace
}  // namespace nightshift
