#include "worker/core/limiter/epoch.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

MonotonicTime At(double seconds) { return MonotonicTime{static_cast<int64_t>(seconds * 1e9)}; }

// Answers of all lengths, each having waited for `wait` and then run at `pace` seconds a token.
Epoch EpochOf(double wait, double pace, MeanCall& mean) {
  Epoch epoch;
  epoch.Begin(At(0));
  for (int tokens = 50; tokens <= 150; tokens += 5) {
    epoch.OnStart(At(0));
    epoch.OnAnswer(At(0), absl::Seconds(wait + pace * tokens), 0, tokens, true);
    mean.Add(0, tokens);
  }
  return epoch;
}

TEST(EpochTest, ThroughputIsLittlesLaw) {
  MeanCall mean;
  const EpochMeasure measure = EpochOf(0, 0.01, mean).Measure(10, mean);
  EXPECT_NEAR(measure.throughput, 10 * 100 / 1.0, 1e-6);
  EXPECT_NEAR(measure.latency, 1.0, 1e-6);
}

TEST(EpochTest, TellsWaitingFromRunning) {
  MeanCall mean;
  EXPECT_NEAR(EpochOf(0, 0.01, mean).Measure(10, mean).served, 1.0, 1e-6);
  mean = MeanCall();
  const EpochMeasure half = EpochOf(1.0, 0.01, mean).Measure(10, mean);
  EXPECT_NEAR(half.served, 0.5, 1e-6);
  EXPECT_LT(half.served_error, 0.01);
}

// The answers that end first are the short ones; the line makes up for that.
TEST(EpochTest, ShortAnswersDoNotLookLikeAFastServer) {
  MeanCall mean;
  for (int i = 0; i < 100; ++i) mean.Add(0, 1000);
  Epoch epoch;
  epoch.Begin(At(0));
  for (int tokens : {10, 20, 30, 40}) {
    epoch.OnAnswer(At(0), absl::Seconds(1 + 0.01 * tokens), 0, tokens, true);
  }
  const EpochMeasure measure = epoch.Measure(8, mean);
  EXPECT_NEAR(measure.throughput, 8 * 1000 / 11.0, 1e-6);
  EXPECT_NEAR(measure.served, 10 / 11.0, 1e-6);
}

TEST(EpochTest, EquallyLongAnswersSayNothingAboutAQueue) {
  MeanCall mean;
  Epoch epoch;
  epoch.Begin(At(0));
  for (int i = 0; i < 50; ++i) {
    epoch.OnAnswer(At(0), absl::Seconds(1 + 0.01 * i), 10, 16, true);
    mean.Add(10, 16);
  }
  EXPECT_EQ(epoch.Measure(8, mean).served_error, 1);
}

TEST(EpochTest, AnswersWithoutTokensCountByPromptOrByOne) {
  EXPECT_EQ(MeanCall::Work(200, 0), 20);
  EXPECT_EQ(MeanCall::Work(200, 50), 70);
  EXPECT_EQ(MeanCall::Work(0, 0), 1);
}

TEST(EpochTest, CallsFromBeforeDoNotCount) {
  Epoch epoch;
  epoch.Begin(At(10));
  epoch.OnStart(At(11));
  EXPECT_EQ(epoch.Old(4), 3);
  epoch.OnAnswer(At(9), absl::Seconds(3), 0, 10, true);
  EXPECT_EQ(epoch.answers(), 0);
  EXPECT_EQ(epoch.Old(3), 2);
  // One of its own ended without an answer: the three in flight are all old.
  epoch.OnDrop(At(11));
  EXPECT_EQ(epoch.Old(2), 2);
}

TEST(EpochTest, OneLongAnswerIsNotManySamples) {
  Epoch epoch;
  epoch.Begin(At(0));
  for (int i = 0; i < 10; ++i) epoch.OnAnswer(At(0), absl::Seconds(1), 0, 10, true);
  EXPECT_NEAR(epoch.EffectiveSamples(), 10, 1e-9);
  epoch.OnAnswer(At(0), absl::Seconds(100), 0, 1000, true);
  EXPECT_LT(epoch.EffectiveSamples(), 2);
}

TEST(EpochTest, StarvedOnlyByMoreThanShortPauses) {
  Epoch epoch;
  epoch.Begin(At(0));
  for (int i = 0; i < 20; ++i) epoch.OnAnswer(At(0), absl::Seconds(1), 0, 10, i >= 2);
  EXPECT_FALSE(epoch.Starved());
  epoch.OnAnswer(At(0), absl::Seconds(1), 0, 10, false);
  EXPECT_TRUE(epoch.Starved());
}

}  // namespace
}  // namespace nightshift
