// The simulation itself: that equal seeds give equal worlds, that its time and processes behave,
// and that it notices when a promise is broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/world.h"

namespace nightshift::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kSeedsMax = 60;

class HarnessTest : public ::testing::Test {
 protected:
  HarnessTest() { SetLogLevel(LogLevel::kOff); }
};

WorldReport RunPlan(const Plan& plan) {
  World world(plan, /*print=*/false);
  return world.Run();
}

// Otherwise a seed would be no way to see a fault again.
TEST_F(HarnessTest, EqualSeedsGiveEqualWorlds) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const WorldReport first = RunPlan(Plan::Make(seed));
    // Other addresses, so that an order that depends on them shows.
    const std::vector<std::string> elsewhere(997 * seed % 1000, std::string(100, 'x'));
    const WorldReport second = RunPlan(Plan::Make(seed));
    EXPECT_EQ(first.fingerprint, second.fingerprint) << "seed " << seed;
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
  }
}

// Runs worlds with one promise broken until it is noticed; the same worlds hold when it is not
// broken.
void ExpectNoticed(Sabotage sabotage, bool Faults::*needed, const std::string& sentence) {
  for (uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    Plan plan = Plan::Make(seed);
    if (needed != nullptr) plan.faults.*needed = true;
    plan.sabotage = sabotage;
    const WorldReport broken = RunPlan(plan);
    if (broken.violation.empty()) continue;
    EXPECT_THAT(broken.violation, HasSubstr(sentence)) << "seed " << seed;
    plan.sabotage = Sabotage::kNone;
    EXPECT_EQ(RunPlan(plan).violation, "") << "seed " << seed;
    return;
  }
  ADD_FAILURE() << "not noticed in " << kSeedsMax << " worlds: " << sentence;
}

TEST_F(HarnessTest, NoticesADiskThatForgets) {
  ExpectNoticed(Sabotage::kForgetfulDisk, &Faults::coordinator_crash, "is lost");
}

TEST_F(HarnessTest, NoticesASecondOutcome) {
  ExpectNoticed(Sabotage::kTwiceRecorded, nullptr, "gets a second outcome");
}

TEST_F(HarnessTest, NoticesCallsForWhatWasTakenBack) {
  ExpectNoticed(Sabotage::kDeafWorker, &Faults::commands, "goes on calling");
}

TEST_F(HarnessTest, NoticesWorkThatNeverEnds) {
  ExpectNoticed(Sabotage::kLostMessage, nullptr, "not everything has ended");
}

TEST_F(HarnessTest, NoticesAnAcknowledgementBeforeTheCommit) {
  ExpectNoticed(Sabotage::kEarlyAcknowledgement, nullptr, "is acknowledged and not in the store");
}

TEST_F(HarnessTest, NoticesAWokenWorkerThatGoesOnAsIfNothingHadBeen) {
  ExpectNoticed(Sabotage::kSleepwalker, &Faults::worker_stop, "since it stood still");
}

// Where nothing else dies.
Plan PoisonPlan(uint64_t seed) {
  Plan plan = Plan::Make(seed);
  plan.faults = Faults();
  plan.faults.poison = true;
  plan.frugal = false;
  return plan;
}

TEST_F(HarnessTest, ARequestKillsFewWorkersAndIsRecorded) {
  int kills_max = 0;
  int three_at_most = 0;
  for (uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    const WorldReport report = RunPlan(PoisonPlan(seed));
    EXPECT_EQ(report.violation, "") << "seed " << seed;
    kills_max = std::max(kills_max, report.kills_max);
    three_at_most += report.kills_max <= 3 ? 1 : 0;
  }
  EXPECT_GE(kills_max, 3);
  // More only where two of them kill at the same moment.
  EXPECT_GE(three_at_most, kSeedsMax * 9 / 10);
}

TEST_F(HarnessTest, NoticesDeathsThatNobodyCounts) {
  Plan plan = PoisonPlan(7);
  plan.requests_max = 300;
  plan.sabotage = Sabotage::kUncountedDeath;
  EXPECT_THAT(RunPlan(plan).violation, HasSubstr("has killed"));
  plan.sabotage = Sabotage::kNone;
  EXPECT_EQ(RunPlan(plan).violation, "");
}

TEST_F(HarnessTest, NoticesAnAnswerThatIsNotTheBackends) {
  ExpectNoticed(Sabotage::kChangedAnswer, nullptr, "is not what its backend said");
}

class SchedulerTest : public ::testing::Test {
 protected:
  void RunAll() {
    while (scheduler_.RunNext(scheduler_.Now() + absl::Hours(1))) {
    }
  }
  void Note(const std::string& what) { noted_.push_back(what); }

  Scheduler scheduler_;
  ProcessPtr process_ = std::make_shared<Process>();
  std::vector<std::string> noted_;
};

TEST_F(SchedulerTest, EventsHappenInOrderOfTimeThenOfMaking) {
  scheduler_.After(absl::Seconds(2), nullptr, [this] { Note("later"); });
  scheduler_.After(absl::Seconds(1), nullptr, [this] { Note("first"); });
  scheduler_.After(absl::Seconds(1), nullptr, [this] { Note("second"); });
  RunAll();
  EXPECT_THAT(noted_, ElementsAre("first", "second", "later"));
}

TEST_F(SchedulerTest, StoppedProcessGoesOnInTheSameOrder) {
  scheduler_.After(absl::Seconds(2), process_, [this] { Note("b"); });
  scheduler_.After(absl::Seconds(1), process_, [this] { Note("a"); });
  scheduler_.After(absl::Seconds(3), nullptr, [this] { Note("world"); });
  process_->stopped_until = scheduler_.Now() + absl::Seconds(10);
  const MonotonicTime begin = scheduler_.Now();
  RunAll();
  EXPECT_THAT(noted_, ElementsAre("world", "b", "a"));
  EXPECT_GE(scheduler_.Now(), begin + absl::Seconds(10));
}

TEST_F(SchedulerTest, ThreadsOfADeadProcessLeaveAtOnce) {
  Scheduler::Condition never(scheduler_);
  scheduler_.Spawn(process_, [this] {
    scheduler_.Sleep(absl::Hours(10));
    Note(process_->alive ? "alive" : "dead");
  });
  scheduler_.Spawn(process_, [this, &never] {
    while (process_->alive) never.Wait();
    Note("left");
  });
  scheduler_.After(absl::Seconds(1), process_, [this] { Note("before"); });
  scheduler_.After(absl::Seconds(3), process_, [this] { Note("after"); });
  scheduler_.RunNext(scheduler_.Now());
  scheduler_.RunNext(scheduler_.Now());
  scheduler_.RunNext(scheduler_.Now() + absl::Seconds(2));
  scheduler_.Kill(process_);
  RunAll();
  EXPECT_THAT(noted_, ElementsAre("before", "dead", "left"));
}

TEST_F(SchedulerTest, WaitEndsByNoticeOrTime) {
  Scheduler::Condition condition(scheduler_);
  scheduler_.Spawn(process_, [this, &condition] {
    Note(condition.Wait(absl::Seconds(5)) ? "noticed" : "time");
    Note(condition.Wait(absl::Seconds(5)) ? "noticed" : "time");
  });
  scheduler_.After(absl::Seconds(1), nullptr, [&condition] { condition.NotifyAll(); });
  RunAll();
  EXPECT_THAT(noted_, ElementsAre("noticed", "time"));
}

}  // namespace
}  // namespace nightshift::sim
