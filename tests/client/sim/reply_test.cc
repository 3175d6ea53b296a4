#include "client/sim/reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "client/sim/fault_plan.h"

namespace nightshift {
namespace {

SimRequest Request(uint64_t hash, int64_t max_tokens = 0) {
  SimRequest request;
  request.hash = hash;
  request.max_tokens = max_tokens;
  request.prompt_tokens = 10;
  return request;
}

TEST(SimTextTest, BeginsWithTheMarkAndHasOneWordPerToken) {
  const SimText text("0123456789ab", 7, 20);
  EXPECT_EQ(text.tokens(), 20);
  EXPECT_EQ(text.whole().substr(0, 18), "echo:0123456789ab ");
  EXPECT_EQ(std::count(text.whole().begin(), text.whole().end(), ' '), 19);
  EXPECT_EQ(SimText("m", 7, 0).whole(), "");
  EXPECT_EQ(SimText("m", 7, 1).whole(), "echo:m");
}

TEST(SimTextTest, DependsOnTheHashAlone) {
  EXPECT_EQ(SimText("m", 7, 50).whole(), SimText("m", 7, 50).whole());
  EXPECT_NE(SimText("m", 7, 50).whole(), SimText("m", 8, 50).whole());
}

// A streamed answer must be the same text as one that is sent whole.
TEST(SimTextTest, PiecesPutTogetherAreTheWhole) {
  const SimText text("m", 7, 33);
  for (const int64_t size : {1, 2, 5, 32, 33, 100}) {
    std::string joined;
    for (int64_t begin = 0; begin < text.tokens(); begin += size) {
      joined += std::string(text.Piece(begin, begin + size));
    }
    EXPECT_EQ(joined, text.whole()) << size;
  }
  EXPECT_EQ(text.Piece(33, 40), "");
}

TEST(PlanReplyLengthTest, MaximumOfTheRequestTruncates) {
  EXPECT_EQ(PlanReplyLength(Request(1), 100, 0, 1000).tokens, 100);
  EXPECT_FALSE(PlanReplyLength(Request(1), 100, 0, 1000).truncated);
  EXPECT_EQ(PlanReplyLength(Request(1, 30), 100, 0, 1000).tokens, 30);
  EXPECT_TRUE(PlanReplyLength(Request(1, 30), 100, 0, 1000).truncated);
  EXPECT_FALSE(PlanReplyLength(Request(1, 100), 100, 0, 1000).truncated);
}

TEST(PlanReplyLengthTest, ContextLeavesOnlyWhatThePromptDoesNotTake) {
  const SimReplyLength length = PlanReplyLength(Request(1), 100, 0, 60);
  EXPECT_EQ(length.tokens, 50);
  EXPECT_TRUE(length.truncated);
}

TEST(PlanReplyLengthTest, DirectivesDecideLength) {
  SimRequest request = Request(1);
  request.directive.tokens = 7;
  EXPECT_EQ(PlanReplyLength(request, 100, 1, 1000).tokens, 7);
  request.directive.empty = true;
  EXPECT_EQ(PlanReplyLength(request, 100, 1, 1000).tokens, 0);
  EXPECT_FALSE(PlanReplyLength(request, 100, 1, 1000).truncated);
}

TEST(PlanReplyLengthTest, SpreadKeepsTheMedianAndIsReplayed) {
  std::vector<int64_t> lengths;
  for (uint64_t i = 0; i < 2001; ++i) {
    lengths.push_back(PlanReplyLength(Request(i * 7919), 100, 0.5, 100000).tokens);
    ASSERT_EQ(lengths.back(), PlanReplyLength(Request(i * 7919), 100, 0.5, 100000).tokens);
  }
  std::sort(lengths.begin(), lengths.end());
  EXPECT_NEAR(static_cast<double>(lengths[1000]), 100, 8);
  EXPECT_NEAR(static_cast<double>(lengths[1682]), 165, 15);  // one sigma above
}

TEST(PlanFaultTest, RatesAreKept) {
  SimFaultRates rates;
  rates.too_many = 0.1;
  rates.internal = 0.2;
  rates.drop = 0.1;
  rates.hang = 0.05;
  rates.slow = 0.05;
  std::map<SimFault, int> seen;
  constexpr int kCalls = 20000;
  for (uint64_t i = 0; i < kCalls; ++i) ++seen[PlanFault(rates, i * 0x9e3779b9, 1)];
  EXPECT_NEAR(seen[SimFault::kTooMany], 2000, 200);
  EXPECT_NEAR(seen[SimFault::kInternal], 4000, 300);
  EXPECT_NEAR(seen[SimFault::kDropBefore] + seen[SimFault::kDropMid], 2000, 200);
  EXPECT_GT(seen[SimFault::kDropMid], 500);
  EXPECT_NEAR(seen[SimFault::kHang], 1000, 150);
  EXPECT_NEAR(seen[SimFault::kSlow], 1000, 150);
  EXPECT_NEAR(seen[SimFault::kNone], 10000, 400);
}

// A retry of the same request draws anew, or it could never succeed.
TEST(PlanFaultTest, EachCallOfARequestDrawsAnewAndCanBeReplayed) {
  SimFaultRates rates;
  rates.internal = 0.5;
  std::set<SimFault> seen;
  for (int64_t call = 1; call <= 50; ++call) {
    seen.insert(PlanFault(rates, 42, call));
    EXPECT_EQ(PlanFault(rates, 42, call), PlanFault(rates, 42, call));
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(PlanFaultTest, NoRatesNoFaults) {
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(PlanFault({}, i, 1), SimFault::kNone);
}

}  // namespace
}  // namespace nightshift
