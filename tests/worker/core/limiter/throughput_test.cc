// The promise of the limiter: nearly the throughput of the best fixed level, on every kind of
// server, with few requests in the server's queue. All of it is model time and fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/worker/core/limiter/rivals.h"
#include "tests/worker/core/limiter/scenarios.h"
#include "worker/core/limiter.h"

namespace nightshift {
namespace {

constexpr double kHalfHour = 1800;
constexpr double kSettled = 600;
constexpr double kNoises[] = {0, 0.12};

class NamedServerTest : public testing::TestWithParam<char> {};

TEST_P(NamedServerTest, ReachesTheBestFixedLevel) {
  for (const double noise : kNoises) {
    const Scenario scenario = Named(GetParam(), noise);
    const BestFixed best = Sweep(scenario, kHalfHour);
    for (uint64_t seed = 2; seed <= 5; ++seed) {
      SCOPED_TRACE(testing::Message() << scenario.name << ", noise " << noise << ", seed " << seed);
      const auto limiter = NewFillLimiter();
      const LoopResult result = RunScenario(scenario, *limiter, seed, kHalfHour);
      EXPECT_GE(result.PerSecond(kSettled), 0.97 * best.per_second) << limiter->Explain();
      EXPECT_GE(result.PerSecond(0), 0.95 * best.per_second) << limiter->Explain();
      EXPECT_LE(result.MedianWaiting(kSettled), std::max(1.0, 0.1 * scenario.server.slots))
          << limiter->Explain();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Servers, NamedServerTest,
                         testing::Values('A', 'B', 'C', 'D', 'E', 'F', 'G'));

// Where too many in flight cost 40 % of the throughput, it has to notice from inside, and latencies
// are minutes there: this is where it is weakest. In the second half hour it has most of it back.
TEST(ThroughputTest, GetsOutOfAThrashingCache) {
  const Scenario scenario = Named('H', 0.12);
  const BestFixed best = Sweep(scenario, kHalfHour);
  const auto too_many = NewFixedLimiter(512);
  const double thrashing =
      RunScenario(scenario, *too_many, 2, kHalfHour).PerSecond(kSettled) / best.per_second;
  EXPECT_LT(thrashing, 0.65);
  double sum = 0;
  for (uint64_t seed = 2; seed <= 5; ++seed) {
    const auto limiter = NewFillLimiter();
    const double share =
        RunScenario(scenario, *limiter, seed, 2 * kHalfHour).PerSecond(kHalfHour) / best.per_second;
    EXPECT_GE(share, 0.8) << "seed " << seed << " " << limiter->Explain();
    sum += share;
  }
  EXPECT_GE(sum / 4, 0.9);
}

TEST(ThroughputTest, FollowsEightTimesTheSlotsWithinAMinute) {
  for (const double noise : kNoises) {
    Scenario scenario = Named('A', noise);
    const double best = Sweep(scenario, kHalfHour).per_second;
    scenario.server.slots = 32;
    BatchingServer server(scenario.server);
    LoopOptions options;
    options.events = {{900, [&](Load&) { server.set_slots(256); }}};
    const auto limiter = NewFillLimiter();
    const LoopResult result = RunLoop(server, scenario.MakeLoad(1), *limiter, options);
    EXPECT_LE(result.LevelAt(890), 40);
    EXPECT_GE(result.PerSecond(955, 1100), 0.95 * best) << "noise " << noise;
  }
}

TEST(ThroughputTest, ASlowerServerIsNoReasonToSendLess) {
  for (const char name : {'A', 'E'}) {
    const Scenario scenario = Named(name, 0.05);
    const double best = Sweep(scenario, kHalfHour).per_second;
    BatchingServer server(scenario.server);
    LoopOptions options;
    options.seconds = 3600;
    options.events = {{1200, [&](Load&) { server.set_speed(0.4); }},
                      {2400, [&](Load&) { server.set_speed(1); }}};
    const auto limiter = NewFillLimiter();
    const LoopResult result = RunLoop(server, scenario.MakeLoad(1), *limiter, options);
    EXPECT_GE(result.PerSecond(600, 1200), 0.95 * best) << name;
    EXPECT_GE(result.PerSecond(1260, 2400), 0.95 * 0.4 * best) << name;
    EXPECT_GE(result.PerSecond(2460, 3600), 0.95 * best) << name;
  }
}

TEST(ThroughputTest, ShortAndLongAnswersMixed) {
  Scenario scenario = Named('A', 0.12);
  scenario.load.output_mean = 8;
  scenario.load.output_cv = 0.3;
  scenario.other_load = scenario.load;
  scenario.other_load.output_mean = 1500;
  scenario.other_share = 0.2;
  const BestFixed best = Sweep(scenario, kHalfHour);
  for (uint64_t seed = 2; seed <= 4; ++seed) {
    const auto limiter = NewFillLimiter();
    const LoopResult result = RunScenario(scenario, *limiter, seed, kHalfHour);
    EXPECT_GE(result.PerSecond(kSettled), 0.97 * best.per_second) << limiter->Explain();
    EXPECT_GE(result.PerSecond(0), 0.95 * best.per_second) << limiter->Explain();
  }
}

TEST(ThroughputTest, ABoundedQueueRefusesHardlyAny) {
  Scenario scenario = Named('A', 0.12);
  const BestFixed best = Sweep(scenario, kHalfHour);
  scenario.server.queue_max = 16;
  for (uint64_t seed = 2; seed <= 4; ++seed) {
    const auto limiter = NewFillLimiter();
    const LoopResult result = RunScenario(scenario, *limiter, seed, kHalfHour);
    EXPECT_LE(result.refused, result.answered / 1000);
    EXPECT_GE(result.PerSecond(kSettled), 0.97 * best.per_second) << limiter->Explain();
  }
}

// Servers of all kinds; NIGHTSHIFT_LIMITER_SERVERS says how many of each seed.
TEST(ThroughputTest, RandomServers) {
  const char* wanted = std::getenv("NIGHTSHIFT_LIMITER_SERVERS");
  const int servers = wanted != nullptr ? std::atoi(wanted) : 6;
  for (const uint64_t seeds : {1000, 2000}) {
    int within = 0;
    for (int i = 0; i < servers; ++i) {
      const Scenario scenario = RandomScenario(seeds + static_cast<uint64_t>(i), 0.12);
      const BestFixed best = Sweep(scenario, 900);
      const auto limiter = NewFillLimiter();
      const double share =
          RunScenario(scenario, *limiter, 2, 3600).PerSecond(900) / best.per_second;
      if (share >= 0.95) ++within;
      EXPECT_GE(share, 0.8) << scenario.name << ": " << limiter->Explain();
    }
    EXPECT_GE(within, servers - std::max(1, servers / 20)) << "from seed " << seeds;
  }
}

// What the limiter replaces, on the server it was made for: the model must tell them apart.
TEST(ThroughputTest, LatencyIsTheWrongSign) {
  const Scenario scenario = Named('A', 0);
  const BestFixed best = Sweep(scenario, kHalfHour);
  const auto vegas = NewVegasLimiter();
  EXPECT_LT(RunScenario(scenario, *vegas, 2, kHalfHour).PerSecond(kSettled), 0.5 * best.per_second);
}

}  // namespace
}  // namespace nightshift
