#include "worker/core/limiter.h"

#include <gtest/gtest.h>

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

TEST(FixedLimiterTest, StaysWhateverHappens) {
  const std::unique_ptr<Limiter> limiter = NewFixedLimiter(7);
  Answers(*limiter, 1000);
  for (int i = 0; i < 100; ++i) limiter->OnReject({}, 7, {});
  EXPECT_EQ(limiter->limit(), 7);
  EXPECT_EQ(limiter->Explain(), "fixed at 7");
}

}  // namespace
}  // namespace nightshift
