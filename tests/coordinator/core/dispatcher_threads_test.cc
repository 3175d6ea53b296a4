// The dispatcher as the coordinator uses it: streams, grant loop, committer, ticker and watchers on
// threads of their own. Its worth is under ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "coordinator/core/dispatcher.h"
#include "tests/coordinator/core/disk.h"

namespace nightshift {
namespace {

constexpr int kWorkers = 3;
constexpr int kJobs = 4;
constexpr int64_t kRequests = 600;

class Fleet {
 public:
  void Run() {
    dispatcher_.SetWakeUp([this] { ++wake_ups_; });
    for (JobNumber job = 1; job <= kJobs; ++job) Queue(Seal(job, kRequests));
    std::vector<std::thread> threads;
    threads.emplace_back([this] { CommitLoop(); });
    threads.emplace_back([this] { GrantLoop(); });
    threads.emplace_back([this] { Watch(); });
    for (int i = 0; i < kWorkers; ++i) threads.emplace_back([this, i] { Work(i); });
    for (std::thread& thread : threads) thread.join();
    dispatcher_.CheckConsistent();
    for (JobNumber job = 1; job <= kJobs; ++job) {
      const v1::JobStatus status = *dispatcher_.GetStatus(job, clock_.Now());
      EXPECT_EQ(status.state(), v1::JOB_STATE_COMPLETED);
      EXPECT_EQ(status.counts().succeeded(), kRequests);
    }
    EXPECT_GT(wake_ups_.load(), 0);
  }

 private:
  void Queue(JobCommand command) {
    MutexLock lock(&mutex_);
    commands_.push_back(std::move(command));
    changed_.SignalAll();
  }

  void CommitLoop() {
    while (!done_) {
      std::vector<ResultEvent> results;
      std::vector<JobCommand> commands;
      {
        MutexLock lock(&mutex_);
        if (results_.empty() && commands_.empty()) {
          changed_.WaitFor(&mutex_, absl::Milliseconds(1));
        }
        results.swap(results_);
        commands.swap(commands_);
      }
      const Committed made = Commit(dispatcher_, disk_, clock_, results, commands);
      MutexLock lock(&mutex_);
      for (const JobCommand& command : commands) {
        if (command.kind == JobCommand::Kind::kFrontier) ++frontiers_;
      }
      changed_.SignalAll();
      done_ = dispatcher_.ListJobs().size() == kJobs && AllEnded();
    }
  }

  bool AllEnded() {
    for (const JobNumber job : dispatcher_.ListJobs()) {
      if (!Terminal(dispatcher_.GetStatus(job, clock_.Now())->state())) return false;
    }
    return true;
  }

  void GrantLoop() {
    while (!done_) {
      const GrantPlan plan = dispatcher_.PlanGrants(clock_.Now());
      for (const JobNumber job : plan.frontier_moved) {
        Queue(Command(JobCommand::Kind::kFrontier, job));
      }
      MutexLock lock(&mutex_);
      frontiers_wanted_ += plan.frontier_moved.size();
      while (!done_ && frontiers_ < frontiers_wanted_) {
        changed_.WaitFor(&mutex_, absl::Milliseconds(1));
      }
      for (const auto& grant : plan.grants) {
        for (const auto& item : grant.items) inbox_[grant.worker].push_back(item.id);
      }
      changed_.WaitFor(&mutex_, absl::Milliseconds(1));
    }
  }

  void Work(int place) {
    const std::string name = absl::StrCat("w", place);
    Random random(static_cast<uint64_t>(place));
    WorkerNumber number = 0;
    std::vector<RequestId> held;
    while (!done_) {
      if (number == 0 || random.Chance(0.02)) {  // a new stream, and what it holds
        {
          MutexLock lock(&mutex_);
          for (const RequestId& id : inbox_[number]) held.push_back(id);
          inbox_[number].clear();
        }
        v1::Hello hello = HelloOf(name, name);
        for (const RequestId& id : held) Hold(&hello, id, false);
        const auto reply = dispatcher_.OnHello(hello, clock_.Now(), clock_.WallNow());
        ASSERT_TRUE(reply.ok());
        number = reply->worker;
      }
      dispatcher_.OnReport(number, ReportOf(16, 50), clock_.Now());
      {
        MutexLock lock(&mutex_);
        for (const RequestId& id : inbox_[number]) held.push_back(id);
        inbox_[number].clear();
        if (held.empty()) changed_.WaitFor(&mutex_, absl::Milliseconds(1));
      }
      v1::Returned returned;
      std::vector<ResultEvent> results;
      for (const RequestId& id : held) {
        if (random.Chance(0.05)) {
          v1::RequestKey* key = returned.add_keys();
          key->set_job(id.job);
          key->set_index(id.index);
        } else {
          results.push_back(Answered(number, id));
        }
      }
      held.clear();
      dispatcher_.OnReturned(number, returned, clock_.Now());
      MutexLock lock(&mutex_);
      results_.insert(results_.end(), results.begin(), results.end());
      changed_.SignalAll();
    }
  }

  // Whoever looks, and the ticker.
  void Watch() {
    uint64_t seen = 0;
    while (!done_) {
      dispatcher_.Tick(clock_.Now());
      for (const JobNumber job : dispatcher_.ListJobs()) {
        const uint64_t count = dispatcher_.ChangeCount(job);
        EXPECT_GT(count, 0u);
        seen = std::max(seen, count);
        const v1::JobStatus status = *dispatcher_.GetStatus(job, clock_.Now());
        const v1::Counts& counts = status.counts();
        EXPECT_EQ(counts.succeeded() + counts.pending() + counts.in_flight() + counts.retrying(),
                  kRequests);
        EXPECT_TRUE(dispatcher_.GetRecord(job).ok());
        EXPECT_EQ(*dispatcher_.FindJob(status.id()), job);
        dispatcher_.FinishedBitmap(job, 0).IgnoreError();
      }
      EXPECT_LE(dispatcher_.ListWorkers(clock_.Now()).size(), size_t{kWorkers});
      EXPECT_TRUE(dispatcher_.ExpiredJobs(clock_.Now(), clock_.WallNow()).empty());
      dispatcher_.HasInternalWork();
      EXPECT_GE(dispatcher_.duplicate_results(), 0);
      std::this_thread::yield();
    }
  }

  Clock& clock_ = Clock::Real();
  Dispatcher dispatcher_{DispatcherOptions{}};
  Disk disk_;  // the committer's alone
  std::atomic<bool> done_{false};
  std::atomic<int64_t> wake_ups_{0};

  Mutex mutex_;
  CondVar changed_;
  std::vector<ResultEvent> results_ ABSL_GUARDED_BY(mutex_);
  std::vector<JobCommand> commands_ ABSL_GUARDED_BY(mutex_);
  std::map<WorkerNumber, std::vector<RequestId>> inbox_ ABSL_GUARDED_BY(mutex_);
  size_t frontiers_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t frontiers_wanted_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(DispatcherThreads, AllJobsCompleteWithEverythingAtOnce) {
  Fleet fleet;
  fleet.Run();
}

}  // namespace
}  // namespace nightshift
