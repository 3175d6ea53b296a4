#include <gtest/gtest.h>

#include <memory>

#include "storage/memory_store.h"
#include "tests/coordinator/jobs/crash_scenario.h"

namespace nightshift {
namespace {

// Outcome, body and counters are one commit; before it or after it, never between.
TEST(CrashTest, EveryCommitMayBeTheLast) {
  std::unique_ptr<Store> store;
  CrashEverywhere(
      [&store](bool fresh) -> Store& {
        if (fresh) store = NewMemoryStore();
        return *store;
      },
      1);
}

}  // namespace
}  // namespace nightshift
