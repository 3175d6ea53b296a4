#include "worker/core/retry_queue.h"

#include <gtest/gtest.h>

#include "worker/core/rate_meter.h"

namespace nightshift {
namespace {

MonotonicTime At(double seconds) { return MonotonicTime{static_cast<int64_t>(seconds * 1e9)}; }

TEST(RetryDelayTest, IsFullJitterOfADoublingCeiling) {
  Random random(3);
  for (int waits = 0; waits < 12; ++waits) {
    const absl::Duration ceiling = std::min(absl::Seconds(60), absl::Seconds(1 << waits));
    absl::Duration longest;
    for (int i = 0; i < 200; ++i) {
      const absl::Duration delay = RetryDelay(waits, absl::ZeroDuration(), random);
      EXPECT_GE(delay, absl::ZeroDuration());
      EXPECT_LT(delay, ceiling);
      longest = std::max(longest, delay);
    }
    EXPECT_GT(longest, ceiling * 0.9) << "the whole range is used";
  }
}

TEST(RetryDelayTest, NeverUndercutsTheBackendsWishAndSpreadsAboveIt) {
  Random random(3);
  absl::Duration longest;
  for (int i = 0; i < 200; ++i) {
    const absl::Duration delay = RetryDelay(i % 8, absl::Seconds(30), random);
    EXPECT_GE(delay, absl::Seconds(30));
    EXPECT_LE(delay, absl::Seconds(31));
    longest = std::max(longest, delay);
  }
  EXPECT_GT(longest, absl::Seconds(30.5));
}

TEST(RetryQueueTest, GivesRequestsInOrderOfTheirTime) {
  HeldRequest a, b, c;
  a.order = 1;
  b.order = 2;
  c.order = 3;
  RetryQueue queue;
  EXPECT_TRUE(queue.NextDue().infinite());
  queue.Add(&a, At(5));
  queue.Add(&b, At(3));
  queue.Add(&c, At(3));
  EXPECT_EQ(b.place, HeldRequest::Place::kWaiting);
  EXPECT_EQ(queue.NextDue(), At(3));
  EXPECT_EQ(queue.PopDue(At(2.9)), nullptr);
  EXPECT_EQ(queue.PopDue(At(4)), &b);
  EXPECT_EQ(queue.PopDue(At(4)), &c);
  EXPECT_EQ(queue.PopDue(At(4)), nullptr);
  EXPECT_EQ(queue.NextDue(), At(5));
}

TEST(RetryQueueTest, ForgetsARemovedRequest) {
  HeldRequest a, b;
  a.order = 1;
  b.order = 2;
  RetryQueue queue;
  queue.Add(&a, At(1));
  queue.Add(&b, At(1));
  queue.Remove(&a);
  EXPECT_EQ(queue.PopDue(At(9)), &b);
  EXPECT_EQ(queue.PopDue(At(9)), nullptr);
}

TEST(RequestListTest, LeavesTheOthersInOrderWhenOneIsRemoved) {
  HeldRequest requests[5];
  for (int removed = 0; removed < 5; ++removed) {
    RequestList list;
    for (HeldRequest& request : requests) list.PushBack(&request);
    list.Remove(&requests[removed]);
    EXPECT_EQ(list.size(), 4);
    list.PushFront(&requests[removed]);
    EXPECT_EQ(list.PopFront(), &requests[removed]);
    for (int i = 0; i < 5; ++i) {
      if (i == removed) continue;
      EXPECT_EQ(list.PopFront(), &requests[i]);
    }
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(list.size(), 0);
  }
}

TEST(RateMeterTest, TellsASteadyRateFromTheFirstSecondOn) {
  RateMeter meter;
  EXPECT_EQ(meter.PerSecond(At(0)), 0);
  for (int i = 0; i <= 2000; ++i) {
    meter.Add(1, At(i * 0.01));
    if (i < 100) continue;
    EXPECT_NEAR(meter.PerSecond(At(i * 0.01)), 100, 5);
  }
}

TEST(RateMeterTest, FollowsAChangeWithinSeconds) {
  RateMeter meter;
  for (int i = 0; i < 3000; ++i) meter.Add(1, At(i * 0.01));
  for (int i = 0; i < 900; ++i) meter.Add(1, At(30 + i * 0.001));
  const double rising = meter.PerSecond(At(30.9));
  EXPECT_GT(rising, 250);
  for (int i = 900; i < 15'000; ++i) meter.Add(1, At(30 + i * 0.001));
  EXPECT_NEAR(meter.PerSecond(At(45)), 1000, 30);
  EXPECT_LT(meter.PerSecond(At(60)), 10);
}

TEST(RecentMeanTest, IsPlainFirstAndFollowsLater) {
  RecentMean mean;
  EXPECT_EQ(mean.value(), 0);
  mean.Add(1);
  mean.Add(3);
  EXPECT_DOUBLE_EQ(mean.value(), 2);
  for (int i = 0; i < 1000; ++i) mean.Add(10);
  EXPECT_NEAR(mean.value(), 10, 0.01);
}

}  // namespace
}  // namespace nightshift
