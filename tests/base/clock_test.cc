#include "base/clock.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace nightshift {
namespace {

TEST(MonotonicTimeTest, WhatIsTooFarAwayIsNeverAndNotThePast) {
  EXPECT_TRUE((MonotonicTime{1} + absl::Nanoseconds(INT64_MAX)).infinite());
  EXPECT_TRUE((MonotonicTime{1} + absl::Hours(24 * 366 * 1000)).infinite());
  EXPECT_EQ((MonotonicTime{-5} - absl::Hours(24 * 366 * 1000)).nanos, INT64_MIN);
  EXPECT_EQ((MonotonicTime{5} + absl::Nanoseconds(3)).nanos, 8);
  EXPECT_TRUE((MonotonicTime::Infinite() - absl::Seconds(1)).infinite());
}

}  // namespace
}  // namespace nightshift
