// How long jobs take on fleets whose speed is known, and who gets how much: see fleet_model.h.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/log.h"
#include "tests/sim/fleet_model.h"

namespace nightshift::sim {
namespace {

// One backend with 32 slots, and three that are fifteen times slower.
const std::vector<FleetBackend> kUnequal = {{32, 15}, {32, 1}, {32, 1}, {32, 1}};
const std::vector<FleetBackend> kEqual(4, FleetBackend{64, 1});

FleetJob OfSize(int64_t requests) {
  FleetJob job;
  job.requests = requests;
  return job;
}

struct Ran {
  double ratio = 0;  // makespan over the lower bound
  int64_t copies = 0;
  v1::Counts counts;
};

Ran Makespan(const std::string& what, const std::vector<FleetBackend>& backends,
             const FleetJob& job, uint64_t seed, bool speculates = true) {
  SetLogLevel(LogLevel::kOff);
  Fleet fleet(backends, {job}, seed, speculates);
  fleet.Run();
  fleet.dispatcher().CheckConsistent();
  const Ran ran = {fleet.outcome(0).ended / fleet.LowerBound(), fleet.dispatcher().copies_made(),
                   fleet.outcome(0).status.counts()};
  std::printf("%-32s seed %d: %.0f s, %.3f of the lower bound, %d calls, %d copies\n", what.c_str(),
              static_cast<int>(seed), fleet.outcome(0).ended, ran.ratio,
              static_cast<int>(fleet.outcome(0).calls), static_cast<int>(ran.copies));
  EXPECT_EQ(ran.counts.succeeded(), job.requests) << "the job has not ended";
  EXPECT_EQ(fleet.dispatcher().copies_out(), 0);
  return ran;
}

TEST(Fleet, AFastBackendAndThreeSlowOnesEndTogether) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_LE(Makespan("one 15 times faster", kUnequal, OfSize(20000), seed).ratio, 1.10);
  }
}

TEST(Fleet, ABackendThatSlowsToATenthHandsItsWorkOn) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    std::vector<FleetBackend> backends = kEqual;
    backends[2].slow_from = 150;
    backends[2].slower = 10;
    EXPECT_LE(Makespan("one slows to a tenth", backends, OfSize(20000), seed).ratio, 1.20);
  }
}

TEST(Fleet, StragglersAreCalledForASecondTime) {
  FleetJob job = OfSize(20000);
  job.straggler_share = 0.005;
  job.straggle = 20;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Ran without = Makespan("stragglers, no copies", kEqual, job, seed, false);
    const Ran with = Makespan("stragglers, copies", kEqual, job, seed);
    EXPECT_LE(with.ratio, 1.25);
    EXPECT_LT(with.ratio, without.ratio);
    EXPECT_GT(with.copies, 0);
    EXPECT_LE(with.copies, job.requests / 100);
  }
}

// Four backends of which two are three times slower; jobs whose calls take 2, 4 and 8 s: shares are
// of time, not of requests.
TEST(Fleet, WeightsAreSharesOfTheBackendsTime) {
  SetLogLevel(LogLevel::kOff);
  const std::vector<FleetBackend> backends = {{32, 3}, {32, 3}, {32, 1}, {32, 1}};
  std::vector<FleetJob> jobs;
  for (const int weight : {1, 2, 4}) {
    FleetJob& job = jobs.emplace_back(OfSize(50000));
    job.work_mean = 2 * weight;
    job.options.set_weight(weight);
  }
  for (const bool apart : {false, true}) {
    // Together, and one after another: who comes late has no claim to what it missed.
    for (size_t i = 0; i < jobs.size(); ++i)
      jobs[i].submit_at = apart ? 10.0 * static_cast<double>(i) : 0;
    Fleet fleet(backends, jobs, 7);
    fleet.Run(40);
    std::vector<double> before;
    for (size_t i = 0; i < jobs.size(); ++i) before.push_back(fleet.outcome(i).slot_seconds);
    fleet.Run(100);
    double all = 0;
    for (size_t i = 0; i < jobs.size(); ++i) all += fleet.outcome(i).slot_seconds - before[i];
    for (size_t i = 0; i < jobs.size(); ++i) {
      const double share = (fleet.outcome(i).slot_seconds - before[i]) / all;
      const double wanted = jobs[i].options.weight() / 7.0;
      std::printf("weight %d: %.4f of the time of 60 s, wanted %.4f\n", jobs[i].options.weight(),
                  share, wanted);
      EXPECT_NEAR(share / wanted, 1, 0.05);
    }
    EXPECT_GT(all, 0.98 * 60 * 128) << "the backends stood idle";
  }
}

TEST(Fleet, AnUrgentJobDoesNotWaitForTheOthers) {
  SetLogLevel(LogLevel::kOff);
  FleetJob urgent = OfSize(10);
  urgent.options.set_priority(10);
  for (const auto& backends : {kEqual, std::vector<FleetBackend>{{16, 1}}}) {
    Fleet alone(backends, {urgent}, 5);
    alone.Run();
    FleetJob late = urgent;
    late.submit_at = 100;
    Fleet fleet(backends, {late, OfSize(100000)}, 5);
    fleet.Run(200);
    const double starts = fleet.outcome(0).first_call - 100;
    const double takes = fleet.outcome(0).ended - 100;
    std::printf("urgent job: first call after %.3f s, ended after %.1f s, alone %.1f s\n", starts,
                takes, alone.outcome(0).ended);
    ASSERT_GE(fleet.outcome(0).ended, 0) << "it has not ended";
    EXPECT_LE(starts, 1);
    EXPECT_LE(takes, 3 * alone.outcome(0).ended);
  }
}

// With something urgent all the time, what is in the background goes on, slowly.
TEST(Fleet, ALowClassIsNeverStarved) {
  SetLogLevel(LogLevel::kOff);
  FleetJob urgent = OfSize(50000);
  urgent.options.set_priority(10);
  Fleet fleet({{64, 1}}, {urgent, OfSize(50000)}, 5);
  fleet.Run(600);
  const double low = fleet.outcome(1).slot_seconds;
  const double share = low / (low + fleet.outcome(0).slot_seconds);
  std::printf("the lower class had %.4f of the time\n", share);
  EXPECT_NEAR(share, 0.05, 0.01);
}

// Load 0.9: three jobs with deadlines of which each alone would do, and one without that takes what
// it gets. `served`: with their deadlines known; otherwise they share evenly.
std::vector<FleetJob> DeadlineJobs() {
  std::vector<FleetJob> jobs;
  // 64 slots; 64 * 200 s * 0.9 = 11,520 slot-seconds by the last deadline.
  const double deadlines[] = {60, 120, 200};
  const double loads[] = {0.75, 0.9, 0.9};
  double before = 0;
  for (int i = 0; i < 3; ++i) {
    const double work = 64 * deadlines[i] * loads[i] - before;
    before += work;
    FleetJob& job = jobs.emplace_back(OfSize(static_cast<int64_t>(work / 2)));
    job.work_mean = 2;
    job.work_cv = 0.5;
    job.options.set_deadline_ms(static_cast<int64_t>(deadlines[i] * 1000));
  }
  return jobs;
}

TEST(Fleet, DeadlinesAreMetThatFairSharesWouldMiss) {
  SetLogLevel(LogLevel::kOff);
  std::vector<FleetJob> jobs = DeadlineJobs();
  FleetJob endless = OfSize(100000);
  endless.work_mean = 2;
  const auto run = [&](bool served) {
    std::vector<FleetJob> all = jobs;
    all.push_back(endless);
    for (FleetJob& job : all) {
      if (!served) job.options.clear_deadline_ms();
    }
    Fleet fleet({{64, 1}}, all, 3);
    fleet.Run(400);
    int met = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
      const double deadline = static_cast<double>(jobs[i].options.deadline_ms()) / 1000;
      const Fleet::Outcome& outcome = fleet.outcome(i);
      const bool in_time = outcome.ended >= 0 && outcome.ended <= deadline &&
                           outcome.status.counts().succeeded() == jobs[i].requests;
      std::printf("%s: deadline %.0f s, %lld of %lld answered, ended at %.1f s\n",
                  served ? "deadlines" : "fair shares", deadline,
                  static_cast<long long>(outcome.status.counts().succeeded()),
                  static_cast<long long>(jobs[i].requests), outcome.ended);
      met += in_time ? 1 : 0;
    }
    return met;
  };
  EXPECT_EQ(run(true), 3);
  EXPECT_LT(run(false), 3);
}

TEST(Fleet, AJobThatWillBeLateSaysSo) {
  SetLogLevel(LogLevel::kOff);
  FleetJob job = OfSize(20000);
  job.options.set_deadline_ms(100'000);
  FleetJob easy = OfSize(100);
  easy.options.set_deadline_ms(900'000);
  Fleet fleet({{64, 1}}, {job, easy}, 3);
  fleet.Run(30);
  const auto status = fleet.dispatcher().GetStatus(1, MonotonicTime());
  std::printf("%s\n", status->at_risk().c_str());
  EXPECT_NE(status->at_risk(), "");
  EXPECT_EQ(fleet.dispatcher().GetStatus(2, MonotonicTime())->at_risk(), "");
}

}  // namespace
}  // namespace nightshift::sim
