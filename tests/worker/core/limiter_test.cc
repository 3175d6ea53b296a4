#include "worker/core/limiter.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace nightshift {
namespace {

FinishSample Sample(int in_flight, bool starved) {
  FinishSample sample;
  sample.in_flight = in_flight;
  sample.starved = starved;
  return sample;
}

// `count` answers with every slot in use.
void Answers(Limiter& limiter, int count) {
  for (int i = 0; i < count; ++i) limiter.OnFinish(Sample(limiter.limit() - 1, false), {});
}

void StarvedAnswers(Limiter& limiter, int count) {
  for (int i = 0; i < count; ++i) limiter.OnFinish(Sample(2, true), {});
}

TEST(FixedLimiterTest, StaysWhateverHappens) {
  const std::unique_ptr<Limiter> limiter = NewFixedLimiter(7);
  Answers(*limiter, 1000);
  for (int i = 0; i < 100; ++i) limiter->OnReject(7, {});
  EXPECT_EQ(limiter->limit(), 7);
  EXPECT_EQ(limiter->Explain(), "fixed at 7");
}

TEST(AimdLimiterTest, AddsOnePerWindowInUse) {
  const std::unique_ptr<Limiter> limiter = NewAimdLimiter();
  EXPECT_EQ(limiter->limit(), 32);
  Answers(*limiter, 31);
  EXPECT_EQ(limiter->limit(), 32);
  Answers(*limiter, 1);
  EXPECT_EQ(limiter->limit(), 33);
  Answers(*limiter, 33);
  EXPECT_EQ(limiter->limit(), 34);
}

TEST(AimdLimiterTest, DoesNotGrowWhileTheLimitIsNotInUse) {
  const std::unique_ptr<Limiter> limiter = NewAimdLimiter();
  StarvedAnswers(*limiter, 10'000);
  EXPECT_EQ(limiter->limit(), 32);
  // Slots free although there was work: the limit is not what holds it up.
  for (int i = 0; i < 10'000; ++i) limiter->OnFinish(Sample(10, false), {});
  EXPECT_EQ(limiter->limit(), 32);
  EXPECT_TRUE(absl::StrContains(limiter->Explain(), "not in use"));
}

TEST(AimdLimiterTest, GrowsOverShortPausesBetweenLeases) {
  const std::unique_ptr<Limiter> limiter = NewAimdLimiter();
  StarvedAnswers(*limiter, 3);
  Answers(*limiter, 29);
  EXPECT_EQ(limiter->limit(), 33);
}

// Five refusals of one burst are one piece of news, not five.
TEST(AimdLimiterTest, HalvesOncePerWindow) {
  const std::unique_ptr<Limiter> limiter = NewAimdLimiter();
  for (int in_flight = 31; in_flight >= 0; --in_flight) limiter->OnReject(in_flight, {});
  EXPECT_EQ(limiter->limit(), 16);
}

TEST(AimdLimiterTest, HalvesAgainInTheNextWindow) {
  const std::unique_ptr<Limiter> limiter = NewAimdLimiter();
  limiter->OnReject(31, {});
  EXPECT_EQ(limiter->limit(), 16);
  // The 31 that were in flight with it, answered or refused.
  Answers(*limiter, 30);
  limiter->OnReject(15, {});
  EXPECT_EQ(limiter->limit(), 16);
  limiter->OnReject(15, {});
  EXPECT_EQ(limiter->limit(), 8);
}

TEST(AimdLimiterTest, AWindowWithARefusalDoesNotGrow) {
  const std::unique_ptr<Limiter> limiter = NewAimdLimiter();
  limiter->OnReject(31, {});
  Answers(*limiter, 31);
  EXPECT_EQ(limiter->limit(), 16);
  Answers(*limiter, 16);
  EXPECT_EQ(limiter->limit(), 17);
}

TEST(AimdLimiterTest, StaysBetweenOneAndItsMaximum) {
  const std::unique_ptr<Limiter> limiter = NewAimdLimiter();
  for (int i = 0; i < 1000; ++i) limiter->OnReject(0, {});
  EXPECT_EQ(limiter->limit(), 1);
  // From 1 to 1024 takes the sum of all windows.
  Answers(*limiter, 600'000);
  EXPECT_EQ(limiter->limit(), 1024);
}

// R64: a handful of refusals must not cost the throughput of the next minutes.
TEST(AimdLimiterTest, RecoversAfterABurstOfRefusals) {
  const std::unique_ptr<Limiter> limiter = NewAimdLimiter();
  Answers(*limiter, 8000);
  const int before = limiter->limit();
  for (int i = 0; i < 5; ++i) limiter->OnReject(before - 1, {});
  EXPECT_EQ(limiter->limit(), before / 2);
  Answers(*limiter, 8000);
  EXPECT_GE(limiter->limit(), before);
}

}  // namespace
}  // namespace nightshift
