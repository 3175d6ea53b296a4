// Where answers are instant our own client is what limits: more calls in flight bring nothing, and
// too many cost. 100,000 requests are over in seven seconds, so that is how long there is to see
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/worker/core/limiter/closed_loop.h"
#include "tests/worker/core/limiter/server_model.h"
#include "worker/core/limiter.h"

namespace nightshift {
namespace {

using Rates = std::vector<InstantServer::Rate>;

// A loopback on two cores.
const Rates kLoopback = {{1, 3000},    {8, 10'000},   {32, 13'000},
                         {64, 14'000}, {400, 14'000}, {1000, 7000}};
// Far away: a call alone takes long, and many are needed.
const Rates kFarAway = {{1, 500}, {32, 3000}, {128, 12'000}, {256, 14'000}, {1000, 12'000}};

enum class Answers { kConstant, kOfAllLengths, kWithoutTokens };

LoopResult Serve(const Rates& rates, Answers answers, uint64_t seed) {
  InstantServer server(rates, /*noise=*/0.05, seed);
  LoadSpec load;
  load.prompt_mean = 60;
  load.prompt_cv = 0;
  load.output_mean = answers == Answers::kWithoutTokens ? 0 : 16;
  load.output_cv = answers == Answers::kOfAllLengths ? 0.6 : 0;
  const auto limiter = NewFillLimiter();
  LoopOptions options;
  options.seconds = 7;
  options.sample_every = 0.1;
  options.round_trip = 0;
  return RunLoop(server, Load(seed, load), *limiter, options);
}

class InstantAnswersTest : public testing::TestWithParam<Answers> {};

TEST_P(InstantAnswersTest, StopsGrowingWhereThroughputDoes) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const LoopResult result = Serve(kLoopback, GetParam(), seed);
    EXPECT_GT(result.answered, 7 * 14'000 * 0.9) << "seed " << seed;
    for (const LoopResult::Sample& sample : result.samples) {
      EXPECT_LE(sample.level, 256) << "seed " << seed << " at " << sample.at;
    }
  }
}

TEST_P(InstantAnswersTest, GrowsAsLongAsItBringsThroughput) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const LoopResult result = Serve(kFarAway, GetParam(), seed);
    EXPECT_GT(result.PerSecond(2), 14'000 * 0.85) << "seed " << seed;
  }
}

// After some seconds it has made up its mind. Not so with answers of all lengths: what looks like a
// queue there has to be tried out, down to few calls, which costs some percent in these seconds.
TEST_P(InstantAnswersTest, DoesNotSwing) {
  if (GetParam() == Answers::kOfAllLengths) return;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const LoopResult result = Serve(kLoopback, GetParam(), seed);
    int lowest = 1024;
    int highest = 1;
    for (const LoopResult::Sample& sample : result.samples) {
      if (sample.at < 3) continue;
      lowest = std::min(lowest, sample.level);
      highest = std::max(highest, sample.level);
    }
    EXPECT_LE(highest, 2 * lowest) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Answers, InstantAnswersTest,
                         testing::Values(Answers::kConstant, Answers::kOfAllLengths,
                                         Answers::kWithoutTokens));

}  // namespace
}  // namespace nightshift
