#include "client/sim/gpu_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace nightshift {
namespace {

using Event = GpuEngine::Event;

constexpr MonotonicTime kStart{1'000'000'000};

MonotonicTime At(absl::Duration after) { return kStart + after; }

// Round figures: a step takes 10 ms, and 1 ms more for each running request.
SimGpuOptions RoundOptions() {
  SimGpuOptions options;
  options.slots = 4;
  options.step_base = absl::Milliseconds(10);
  options.step_per_call = absl::Milliseconds(1);
  options.step_per_1k_kv = absl::ZeroDuration();
  options.prefill_per_1k = absl::ZeroDuration();
  options.kv_tokens = 100000;
  return options;
}

std::vector<Event> AdvanceTo(GpuEngine& engine, absl::Duration after) {
  std::vector<Event> events;
  engine.Advance(At(after), events);
  return events;
}

std::map<uint64_t, absl::Duration> FinishTimes(const std::vector<Event>& events) {
  std::map<uint64_t, absl::Duration> times;
  for (const Event& event : events) {
    if (event.finished) times[event.id] = event.at - kStart;
  }
  return times;
}

TEST(GpuEngineTest, OneRequestTakesOneStepPerToken) {
  GpuEngine engine(RoundOptions(), 1);
  EXPECT_TRUE(engine.NextEvent().infinite());
  ASSERT_TRUE(engine.Submit(7, 100, 3, kStart));
  EXPECT_EQ(engine.NextEvent(), At(absl::Milliseconds(11)));
  EXPECT_TRUE(AdvanceTo(engine, absl::Milliseconds(10.9)).empty());
  const std::vector<Event> events = AdvanceTo(engine, absl::Seconds(1));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].generated, 1);
  EXPECT_FALSE(events[1].finished);
  EXPECT_TRUE(events[2].finished);
  EXPECT_EQ(events[2].at, At(absl::Milliseconds(33)));
  EXPECT_TRUE(engine.NextEvent().infinite());
  EXPECT_EQ(engine.kv_tokens(), 0);
  EXPECT_EQ(engine.generated_tokens(), 3);
}

TEST(GpuEngineTest, StepTimeCountsBatchKvAndPrefill) {
  SimGpuOptions options = RoundOptions();
  options.step_per_1k_kv = absl::Milliseconds(2);
  options.prefill_per_1k = absl::Milliseconds(30);
  GpuEngine engine(options, 1);
  ASSERT_TRUE(engine.Submit(1, 2000, 2, kStart));
  // 10 + 1 for the batch + 2 * 2 for the cache + 30 * 2 for the prompt.
  EXPECT_EQ(engine.NextEvent(), At(absl::Milliseconds(75)));
  AdvanceTo(engine, absl::Milliseconds(75));
  // The second step has no prompt to compute, and one token more in the cache.
  EXPECT_EQ(engine.NextEvent(), At(absl::Milliseconds(75 + 15 + 0.002)));
}

TEST(GpuEngineTest, RequestsJoinTheBatchWithTheNextStep) {
  GpuEngine engine(RoundOptions(), 1);
  ASSERT_TRUE(engine.Submit(1, 10, 2, kStart));
  ASSERT_TRUE(engine.Submit(2, 10, 1, At(absl::Milliseconds(5))));
  EXPECT_EQ(engine.running(), 1);
  EXPECT_EQ(engine.waiting(), 1);
  const auto times = FinishTimes(AdvanceTo(engine, absl::Seconds(1)));
  // The first step has one in it (11 ms), the second two (12 ms).
  EXPECT_EQ(times.at(1), absl::Milliseconds(23));
  EXPECT_EQ(times.at(2), absl::Milliseconds(23));
}

TEST(GpuEngineTest, SlotsAreGivenFirstComeFirstServed) {
  SimGpuOptions options = RoundOptions();
  options.slots = 1;
  GpuEngine engine(options, 1);
  for (uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(engine.Submit(id, 10, 2, kStart));
  std::vector<uint64_t> order;
  for (const Event& event : AdvanceTo(engine, absl::Seconds(1))) {
    if (event.finished) order.push_back(event.id);
  }
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3, 4, 5));
}

TEST(GpuEngineTest, LateWakeUpsLoseNoTime) {
  GpuEngine punctual(RoundOptions(), 1);
  GpuEngine late(RoundOptions(), 1);
  for (uint64_t id = 1; id <= 9; ++id) {
    ASSERT_TRUE(punctual.Submit(id, 10, static_cast<int64_t>(id), kStart));
    ASSERT_TRUE(late.Submit(id, 10, static_cast<int64_t>(id), kStart));
  }
  std::vector<Event> events;
  while (!punctual.NextEvent().infinite()) punctual.Advance(punctual.NextEvent(), events);
  EXPECT_EQ(FinishTimes(events), FinishTimes(AdvanceTo(late, absl::Seconds(100))));
}

TEST(GpuEngineTest, QueueBeyondItsMaximumIsRefused) {
  SimGpuOptions options = RoundOptions();
  options.slots = 1;
  options.queue_max = 2;
  GpuEngine engine(options, 1);
  EXPECT_TRUE(engine.Submit(1, 10, 5, kStart));
  EXPECT_TRUE(engine.Submit(2, 10, 5, kStart));
  EXPECT_TRUE(engine.Submit(3, 10, 5, kStart));
  EXPECT_FALSE(engine.Submit(4, 10, 5, kStart));
  EXPECT_EQ(engine.waiting(), 2);
}

TEST(GpuEngineTest, FullCacheKeepsNewcomersWaitingThoughSlotsAreFree) {
  SimGpuOptions options = RoundOptions();
  options.kv_tokens = 1000;
  GpuEngine engine(options, 1);
  ASSERT_TRUE(engine.Submit(1, 900, 3, kStart));
  ASSERT_TRUE(engine.Submit(2, 200, 1, kStart));
  EXPECT_EQ(engine.running(), 1);
  EXPECT_EQ(engine.waiting(), 1);
  const auto times = FinishTimes(AdvanceTo(engine, absl::Seconds(1)));
  EXPECT_EQ(times.at(1), absl::Milliseconds(33));
  EXPECT_EQ(times.at(2), absl::Milliseconds(44));
}

TEST(GpuEngineTest, OverflowingCachePutsTheYoungestOutAndItFinishesLater) {
  SimGpuOptions options = RoundOptions();
  options.kv_tokens = 220;
  options.prefill_per_1k = absl::Seconds(1);
  GpuEngine engine(options, 1);
  ASSERT_TRUE(engine.Submit(1, 100, 50, kStart));
  std::vector<Event> events;
  engine.Advance(engine.NextEvent(), events);
  ASSERT_TRUE(engine.Submit(2, 100, 50, engine.NextEvent()));
  while (engine.preemptions() == 0) engine.Advance(engine.NextEvent(), events);
  EXPECT_EQ(engine.running(), 1);
  EXPECT_EQ(engine.waiting(), 1);
  EXPECT_LE(engine.kv_tokens(), options.kv_tokens);
  const auto before = static_cast<int64_t>(events.back().generated);
  while (!engine.NextEvent().infinite()) {
    engine.Advance(engine.NextEvent(), events);
    ASSERT_LE(engine.kv_tokens(), options.kv_tokens);
  }
  EXPECT_GT(before, 0);
  const auto times = FinishTimes(events);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_LT(times.at(1), times.at(2)) << "the older one must not be the one put out";
  // No token is generated twice: what was computed before is prefilled, not decoded again.
  EXPECT_EQ(engine.generated_tokens(), 100);
  EXPECT_EQ(engine.kv_tokens(), 0);
}

TEST(GpuEngineTest, RequestLargerThanTheCacheRunsAlone) {
  SimGpuOptions options = RoundOptions();
  options.kv_tokens = 50;
  GpuEngine engine(options, 1);
  ASSERT_TRUE(engine.Submit(1, 500, 2, kStart));
  ASSERT_TRUE(engine.Submit(2, 10, 2, kStart));
  EXPECT_EQ(engine.running(), 1);
  EXPECT_EQ(FinishTimes(AdvanceTo(engine, absl::Seconds(1))).size(), 2u);
}

TEST(GpuEngineTest, CancelledCallsLeaveQueueBatchAndCache) {
  SimGpuOptions options = RoundOptions();
  options.slots = 2;
  GpuEngine engine(options, 1);
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(engine.Submit(id, 100, 10, kStart));
  AdvanceTo(engine, absl::Milliseconds(12));
  EXPECT_EQ(engine.running(), 2);
  engine.Cancel(3);
  EXPECT_EQ(engine.waiting(), 0);
  engine.Cancel(1);
  EXPECT_EQ(engine.running(), 1);
  EXPECT_EQ(engine.kv_tokens(), 100) << "the second has joined, but not stepped yet";
  engine.Cancel(99);
  const auto times = FinishTimes(AdvanceTo(engine, absl::Seconds(1)));
  EXPECT_EQ(times.size(), 1u);
  EXPECT_TRUE(times.contains(2));
  EXPECT_EQ(engine.kv_tokens(), 0);
}

TEST(GpuEngineTest, EngineGoesOnAfterAllCallsWereCancelled) {
  GpuEngine engine(RoundOptions(), 1);
  ASSERT_TRUE(engine.Submit(1, 10, 10, kStart));
  engine.Cancel(1);
  EXPECT_TRUE(AdvanceTo(engine, absl::Milliseconds(11)).empty());
  EXPECT_TRUE(engine.NextEvent().infinite());
  ASSERT_TRUE(engine.Submit(2, 10, 1, At(absl::Seconds(5))));
  EXPECT_EQ(engine.NextEvent(), At(absl::Seconds(5) + absl::Milliseconds(11)));
}

// Tokens per second with `level` requests in flight all the time, after some warming up.
double Throughput(const SimGpuOptions& options, int level, uint64_t seed = 1,
                  int64_t output_tokens = 100) {
  GpuEngine engine(options, seed);
  uint64_t next = 1;
  const auto submit = [&](MonotonicTime now) {
    engine.Submit(next, 100, output_tokens + output_tokens / 8 * static_cast<int64_t>(next % 20),
                  now);
    ++next;
  };
  for (int i = 0; i < level; ++i) submit(kStart);
  std::vector<Event> events;
  const absl::Duration warm = absl::Seconds(20);
  const absl::Duration end = absl::Seconds(80);
  int64_t tokens_before = 0;
  while (engine.NextEvent() <= At(end)) {
    const MonotonicTime now = engine.NextEvent();
    if (now <= At(warm)) tokens_before = engine.generated_tokens();
    events.clear();
    engine.Advance(now, events);
    for (const Event& event : events) {
      if (event.finished) submit(now);
    }
  }
  return static_cast<double>(engine.generated_tokens() - tokens_before) /
         absl::ToDoubleSeconds(end - warm);
}

// What the adaptive limiter has to find.
TEST(GpuEngineTest, ThroughputRisesToAKneeAtTheSlotsAndStaysFlat) {
  const SimGpuOptions options;
  ASSERT_EQ(options.slots, 48);
  const double one = Throughput(options, 1);
  const double half = Throughput(options, 24);
  const double knee = Throughput(options, 48);
  const double beyond = Throughput(options, 200);
  EXPECT_GT(half, 15 * one);
  EXPECT_GT(knee, 1.5 * half);
  EXPECT_NEAR(beyond / knee, 1, 0.05);
}

// The trap for a client that only ever adds: slots are free, but the cache is not.
TEST(GpuEngineTest, TooManyForTheCacheCostThroughput) {
  SimGpuOptions options;
  options.slots = 256;
  options.kv_tokens = 16000;
  options.prefill_per_1k = absl::Milliseconds(60);
  const double fits = Throughput(options, 32, 1, 300);
  const double thrashes = Throughput(options, 200, 1, 300);
  EXPECT_LT(thrashes, 0.95 * fits);
}

TEST(GpuEngineTest, NoiseIsReplayedBySeedAndKeepsTheMean) {
  SimGpuOptions options;
  options.noise = 0.1;
  EXPECT_EQ(Throughput(options, 48, 5), Throughput(options, 48, 5));
  EXPECT_NE(Throughput(options, 48, 5), Throughput(options, 48, 6));
  SimGpuOptions quiet;
  EXPECT_NEAR(Throughput(options, 48, 5) / Throughput(quiet, 48, 5), 1, 0.1);
}

}  // namespace
}  // namespace nightshift
