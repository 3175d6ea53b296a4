#include "worker/core/limiter/level_memory.h"

#include <gtest/gtest.h>

namespace nightshift {
namespace {

MonotonicTime At(absl::Duration d) { return MonotonicTime{1} + d; }

TEST(LevelMemoryTest, KnowsTheBest) {
  LevelMemory memory;
  EXPECT_FALSE(memory.Best().has_value());
  memory.Add(32, 100, true, At(absl::ZeroDuration()));
  memory.Add(64, 150, true, At(absl::ZeroDuration()));
  memory.Add(128, 120, true, At(absl::ZeroDuration()));
  EXPECT_EQ(memory.Best()->level, 64);
}

TEST(LevelMemoryTest, AShortLookDoesNotCountAgainstALongOne) {
  LevelMemory memory;
  memory.Add(32, 500, false, At(absl::ZeroDuration()));
  EXPECT_FALSE(memory.Best().has_value());
  EXPECT_NEAR(*memory.Expect(32), 500, 1e-6);
  memory.Add(32, 100, true, At(absl::ZeroDuration()));
  EXPECT_NEAR(*memory.Expect(32), 100, 1e-6);
  memory.Add(32, 500, false, At(absl::ZeroDuration()));
  EXPECT_NEAR(*memory.Expect(32), 100, 1e-6);
}

TEST(LevelMemoryTest, NeighboursShareAnEntryThatFollowsSlowly) {
  LevelMemory memory;
  memory.Add(100, 100, true, At(absl::ZeroDuration()));
  memory.Add(101, 200, true, At(absl::ZeroDuration()));
  EXPECT_NEAR(*memory.Expect(100), 130, 1e-6);
}

TEST(LevelMemoryTest, ExpectsBetweenWhatItKnows) {
  LevelMemory memory;
  memory.Add(32, 100, true, At(absl::ZeroDuration()));
  memory.Add(128, 400, true, At(absl::ZeroDuration()));
  EXPECT_NEAR(*memory.Expect(64), 200, 1e-6);
  EXPECT_FALSE(memory.Expect(16).has_value());
  EXPECT_FALSE(memory.Expect(256).has_value());
}

TEST(LevelMemoryTest, ForgetsWhatIsOldAndWhatItIsTold) {
  LevelMemory memory;
  memory.Add(32, 1000, true, At(absl::ZeroDuration()));
  memory.Add(64, 100, true, At(absl::Minutes(31)));
  EXPECT_EQ(memory.Best()->level, 64);
  memory.Add(256, 300, true, At(absl::Minutes(31)));
  memory.Forget(240);
  EXPECT_EQ(memory.Best()->level, 64);
}

}  // namespace
}  // namespace nightshift
