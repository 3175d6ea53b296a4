#include "tests/coordinator/jobs/lifecycle_race.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "storage/memory_store.h"

namespace nightshift {
namespace {

// One terminal state, counters that equal the rows, each request in exactly
// one file, whatever happens at the instant of the last result.
TEST(LifecycleRaceTest, AThousandJobsEndOnceWithEveryRequestInOneFile) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  std::map<std::string, int> endings = RaceLifecycles(*store, 1000);
  for (const auto& [state, count] : endings) std::printf("%s %d\n", state.c_str(), count);
  // The races are races: each side wins now and then.
  for (const char* state : {"completed", "cancelled", "expired", "failed", "deleted"}) {
    EXPECT_GT(endings[state], 20) << state;
  }
}

}  // namespace
}  // namespace nightshift
