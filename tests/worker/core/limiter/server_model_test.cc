// The model must be right before anything is concluded from it.
#include "tests/worker/core/limiter/server_model.h"

#include <gtest/gtest.h>

#include <vector>

namespace nightshift {
namespace {

// Submits `count` requests of one size and runs until all have ended.
double TimeFor(BatchingServer& server, int count, Load::Request request) {
  for (int i = 0; i < count; ++i) EXPECT_TRUE(server.Submit(request));
  std::vector<ServerModel::Finished> finished;
  int ended = 0;
  while (ended < count && server.now() < 1e6) {
    server.Advance(1e6, finished);
    ended += static_cast<int>(finished.size());
  }
  EXPECT_EQ(ended, count);
  return server.now();
}

ServerSpec Simple() {
  return {.fixed = 0.01,
          .per_request = 0.001,
          .per_token = 0,
          .per_prompt_token = 0.0001,
          .slots = 10,
          .cache_tokens = 1e9};
}

TEST(BatchingServerTest, OneStepMakesOneTokenForEach) {
  BatchingServer server(Simple());
  // 10 prompts of 100 tokens one after the other, then 50 steps of 10 + 10 x 1 ms together.
  EXPECT_NEAR(TimeFor(server, 10, {.prompt = 100, .output = 50}), 10 * 0.01 + 50 * 0.02, 1e-9);
  EXPECT_NEAR(server.made(), 500, 1e-6);
}

TEST(BatchingServerTest, WhatHasNoSlotWaits) {
  BatchingServer server(Simple());
  for (int i = 0; i < 25; ++i) ASSERT_TRUE(server.Submit({.prompt = 100, .output = 50}));
  EXPECT_EQ(server.running(), 10);
  EXPECT_EQ(server.waiting(), 15);
}

TEST(BatchingServerTest, RefusesBeyondItsQueue) {
  ServerSpec spec = Simple();
  spec.queue_max = 2;
  BatchingServer server(spec);
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(server.Submit({.prompt = 100, .output = 50}));
  EXPECT_FALSE(server.Submit({.prompt = 100, .output = 50}));
}

// Two that do not fit together: the younger is put back, and its prompt is worked off again.
TEST(BatchingServerTest, AFullCachePutsTheYoungestBack) {
  ServerSpec spec = Simple();
  spec.cache_tokens = 300;
  BatchingServer server(spec);
  const double together = TimeFor(server, 2, {.prompt = 100, .output = 100});
  EXPECT_EQ(server.preempted(), 1);
  BatchingServer roomy(Simple());
  EXPECT_GT(together, TimeFor(roomy, 2, {.prompt = 100, .output = 100}) * 1.2);
  EXPECT_NEAR(server.made(), 200, 1e-6);
}

TEST(BatchingServerTest, TheSameSeedsGiveTheSameRun) {
  ServerSpec spec = Simple();
  spec.noise = 0.12;
  double first = 0;
  for (int run = 0; run < 2; ++run) {
    BatchingServer server(spec);
    const double time = TimeFor(server, 500, {.prompt = 100, .output = 50});
    if (run == 0) first = time;
    EXPECT_EQ(time, first);
  }
  spec.noise_seed = 78;
  BatchingServer other(spec);
  EXPECT_NE(TimeFor(other, 500, {.prompt = 100, .output = 50}), first);
}

TEST(InstantServerTest, AnswersAtItsRate) {
  InstantServer server({{1, 100}, {10, 1000}, {100, 500}}, /*noise=*/0, /*seed=*/1);
  EXPECT_NEAR(server.RateAt(5), 500, 100);
  EXPECT_NEAR(server.RateAt(55), 750, 1e-9);
  EXPECT_NEAR(server.RateAt(1000), 500, 1e-9);
}

}  // namespace
}  // namespace nightshift
