#include "coordinator/maintenance/maintenance.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/commit/command_sink.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/jobs/reopen.h"
#include "coordinator/maintenance/disk_watcher.h"
#include "coordinator/maintenance/expirer.h"
#include "coordinator/maintenance/lease_reaper.h"
#include "gtest/gtest.h"
#include "storage/memory_store.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

TEST(MaintenanceScheduleTest, TasksRunAtOnceAndThenEachAtItsOwnPace) {
  FakeClock clock;
  int fast = 0;
  int slow = 0;
  std::vector<MaintenanceTask> tasks;
  tasks.push_back({"fast", absl::Seconds(1), [&] { ++fast; }});
  tasks.push_back({"slow", absl::Seconds(10), [&] { ++slow; }});
  MaintenanceSchedule schedule(std::move(tasks), clock);
  EXPECT_EQ(schedule.RunDue(), clock.Now() + absl::Seconds(1));
  EXPECT_EQ(fast, 1);
  EXPECT_EQ(slow, 1);
  EXPECT_EQ(schedule.RunDue(), clock.Now() + absl::Seconds(1));
  EXPECT_EQ(fast, 1);
  for (int second = 0; second < 10; ++second) {
    clock.Advance(absl::Seconds(1));
    schedule.RunDue();
  }
  EXPECT_EQ(fast, 11);
  EXPECT_EQ(slow, 2);
}

TEST(MaintenanceTest, StopWaitsForTheTaskThatRuns) {
  Mutex mutex;
  CondVar changed;
  int runs = 0;
  std::vector<MaintenanceTask> tasks;
  tasks.push_back({"often", absl::Milliseconds(1), [&] {
                     MutexLock lock(&mutex);
                     ++runs;
                     changed.SignalAll();
                   }});
  Maintenance maintenance(std::move(tasks), Clock::Real());
  {
    MutexLock lock(&mutex);
    while (runs < 3) changed.Wait(&mutex);
  }
  maintenance.Stop();
  MutexLock lock(&mutex);
  EXPECT_GE(runs, 3);
}

class TasksTest : public ::testing::Test {
 protected:
  // A worker that says Hello, holds `count` requests and is never heard of again.
  void LeaseToSilentWorker(int64_t count) { ASSERT_TRUE(world_.Lease(count).ok()); }

  const std::unique_ptr<Store> store_ = NewMemoryStore();
  JobWorld world_{*store_};
};

TEST_F(TasksTest, ReaperTakesBackWhatASilentWorkerHolds) {
  world_.SubmitJob(5);
  LeaseToSilentWorker(5);
  MaintenanceTask reaper = NewLeaseReaper(world_.dispatcher(), world_.clock());
  reaper.run();
  for (int second = 0; second < 29; ++second) {
    world_.clock().Advance(absl::Seconds(1));
    reaper.run();
  }
  EXPECT_EQ(world_.dispatcher().lapsed_leases(), 0);
  for (int second = 0; second < 3; ++second) {
    world_.clock().Advance(absl::Seconds(1));
    reaper.run();
  }
  EXPECT_GT(world_.dispatcher().lapsed_leases(), 0);
}

// After Ctrl-Z and fg, or a machine that was starved, nobody was silent but the coordinator itself.
TEST_F(TasksTest, ReaperThatWasItselfStoppedListensBeforeItTakesBack) {
  world_.SubmitJob(5);
  LeaseToSilentWorker(5);
  MaintenanceTask reaper = NewLeaseReaper(world_.dispatcher(), world_.clock());
  reaper.run();
  world_.clock().Advance(absl::Minutes(10));
  reaper.run();
  EXPECT_EQ(world_.dispatcher().lapsed_leases(), 0);
  for (absl::Duration listened; listened <= kListenAfterStop; listened += absl::Seconds(1)) {
    world_.clock().Advance(absl::Seconds(1));
    reaper.run();
  }
  EXPECT_GT(world_.dispatcher().lapsed_leases(), 0) << "a worker that stays silent is still gone";
}

TEST_F(TasksTest, ExpirerEndsJobsPastTheirDeadlineAndNoOthers) {
  v1::JobOptions options;
  options.set_deadline_ms(absl::ToInt64Milliseconds(absl::Hours(1)));
  const JobNumber limited = world_.SubmitJob(3, options);
  const JobNumber unlimited = world_.SubmitJob(3);
  MaintenanceTask expirer = NewExpirer(world_.dispatcher(), world_.committer(), world_.clock());
  expirer.run();
  EXPECT_EQ(world_.Status(limited).counts().expired(), 0);
  world_.clock().Advance(absl::Hours(2));
  expirer.run();
  EXPECT_EQ(world_.Status(limited).state(), v1::JOB_STATE_EXPIRED);
  EXPECT_EQ(world_.Status(limited).counts().expired(), 3);
  EXPECT_EQ(world_.Status(unlimited).counts().pending(), 3);
  expirer.run();  // nothing more to do
}

// An administrator, or the first answer of a time server, sets the clock while a job runs.
TEST_F(TasksTest, AWallClockThatIsSetMovesNoDeadline) {
  for (const absl::Duration jump : {absl::Hours(1), -absl::Hours(1)}) {
    v1::JobOptions options;
    options.set_deadline_ms(absl::ToInt64Milliseconds(absl::Minutes(30)));
    const JobNumber job = world_.SubmitJob(3, options);
    MaintenanceTask expirer = NewExpirer(world_.dispatcher(), world_.committer(), world_.clock());
    expirer.run();
    world_.clock().JumpWall(jump);
    world_.clock().Advance(absl::Minutes(30) - absl::Seconds(1));
    expirer.run();
    EXPECT_FALSE(JobHasEnded(world_.Status(job).state())) << "expired early by a jump of " << jump;
    world_.clock().Advance(absl::Seconds(1));
    expirer.run();
    EXPECT_EQ(world_.Status(job).state(), v1::JOB_STATE_EXPIRED) << "late by a jump of " << jump;
  }
}

// What is set before the job is handed in or run again counts as a matter of course.
TEST_F(TasksTest, ADeadlineIsReckonedFromTheClockOfItsJob) {
  world_.clock().JumpWall(absl::Hours(1));
  v1::JobOptions options;
  options.set_deadline_ms(absl::ToInt64Milliseconds(absl::Minutes(30)));
  const JobNumber job = world_.SubmitJob(3, options);
  MaintenanceTask expirer = NewExpirer(world_.dispatcher(), world_.committer(), world_.clock());
  expirer.run();
  world_.clock().Advance(absl::Minutes(31));
  expirer.run();
  EXPECT_EQ(world_.Status(job).state(), v1::JOB_STATE_EXPIRED);
  ASSERT_TRUE(ReopenJob(world_.store(), world_.committer(), world_.dispatcher(), job, {}).ok());
  expirer.run();
  EXPECT_FALSE(JobHasEnded(world_.Status(job).state())) << "the old deadline ended the new run";
  world_.clock().Advance(absl::Minutes(31));
  expirer.run();
  EXPECT_EQ(world_.Status(job).state(), v1::JOB_STATE_EXPIRED);
}

// Refuses what it is asked for while the disk is full.
class FullSink final : public CommandSink {
 public:
  explicit FullSink(CommandSink& inner) : inner_(inner) {}
  absl::Status Execute(JobCommand command) override {
    ++asked;
    if (full) return absl::ResourceExhaustedError("the disk is full");
    return inner_.Execute(std::move(command));
  }
  void Nudge() override { inner_.Nudge(); }

  bool full = true;
  int asked = 0;

 private:
  CommandSink& inner_;
};

TEST_F(TasksTest, ExpirerWaitsForRoomOnTheDiskAndSaysSoOnce) {
  v1::JobOptions options;
  options.set_deadline_ms(absl::ToInt64Milliseconds(absl::Hours(1)));
  const JobNumber first = world_.SubmitJob(3, options);
  const JobNumber second = world_.SubmitJob(3, options);
  FullSink sink(world_.committer());
  MaintenanceTask expirer = NewExpirer(world_.dispatcher(), sink, world_.clock());
  world_.clock().Advance(absl::Hours(2));
  ::testing::internal::CaptureStderr();
  expirer.run();
  expirer.run();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(sink.asked, 2) << "one look each time is enough";
  const size_t once = said.find("when there is room again");
  EXPECT_NE(once, std::string::npos) << said;
  EXPECT_EQ(said.find("when there is room again", once + 1), std::string::npos) << said;
  EXPECT_EQ(said.find("could not be ended"), std::string::npos) << said;
  sink.full = false;
  expirer.run();
  EXPECT_EQ(world_.Status(first).state(), v1::JOB_STATE_EXPIRED);
  EXPECT_EQ(world_.Status(second).state(), v1::JOB_STATE_EXPIRED);
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(DiskMarksTest, FollowTheSizeOfTheVolumeWithinBounds) {
  EXPECT_EQ(LowWaterMark(300 * kMiB), 160 * kMiB);
  EXPECT_EQ(LowWaterMark(10'000 * kMiB), 500 * kMiB);
  EXPECT_EQ(LowWaterMark(4'000'000 * kMiB), 1024 * kMiB);
  EXPECT_EQ(GoOnMark(4'000'000 * kMiB), 1280 * kMiB);
}

// On a volume that is not refused, work that was held can go on.
TEST(DiskMarksTest, VolumeWithoutRoomForTheMarksIsRefused) {
  const absl::Status small = CheckVolume("/data/store", 190 * kMiB);
  EXPECT_TRUE(absl::IsFailedPrecondition(small)) << small;
  EXPECT_NE(small.message().find("/data/store"), absl::string_view::npos) << small;
  for (uint64_t mib = 1; mib < 100'000; ++mib) {
    if (!CheckVolume("/data/store", mib * kMiB).ok()) continue;
    ASSERT_LE(GoOnMark(mib * kMiB) + 56 * kMiB, mib * kMiB) << mib;
  }
}

TEST_F(TasksTest, DiskWatcherHoldsWorkUntilThereIsClearlyRoom) {
  const JobNumber job = world_.SubmitJob(3);
  DiskSpace space{200 * kMiB, 1000 * kMiB};
  absl::Status failure;
  MaintenanceTask watcher = NewDiskWatcher(
      world_.dispatcher(), "/data", [&](const std::string& path) -> absl::StatusOr<DiskSpace> {
        EXPECT_EQ(path, "/data");
        if (!failure.ok()) return failure;
        return space;
      });
  const auto state = [&](uint64_t free_mib) {
    space.free_bytes = free_mib * kMiB;
    watcher.run();
    return world_.Status(job).state();
  };
  EXPECT_EQ(state(161), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(state(159), v1::JOB_STATE_PAUSED);
  EXPECT_EQ(world_.Status(job).reason(), v1::PAUSE_REASON_DISK);
  EXPECT_NE(world_.Status(job).waiting_for().find("/data"), std::string::npos);
  const auto refused = world_.Submit(JobWorld::Requests(0, 1), {}, "");
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_EQ(state(199), v1::JOB_STATE_PAUSED) << "a little more room than the mark is not enough";
  failure = absl::UnavailableError("cannot be asked");
  EXPECT_EQ(state(500), v1::JOB_STATE_PAUSED) << "nothing is known";
  failure = absl::OkStatus();
  EXPECT_EQ(state(200), v1::JOB_STATE_QUEUED);
  EXPECT_TRUE(world_.Submit(JobWorld::Requests(0, 1), {}, "").ok());
}

}  // namespace
}  // namespace nightshift
