// A dispatcher with a disk and a clock, and short words for what happens to it.
#ifndef NIGHTSHIFT_TESTS_COORDINATOR_CORE_DISPATCHER_FIXTURE_H_
#define NIGHTSHIFT_TESTS_COORDINATOR_CORE_DISPATCHER_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "coordinator/core/dispatcher.h"
#include "tests/coordinator/core/disk.h"

namespace nightshift {

class DispatcherFixture : public ::testing::Test {
 protected:
  using Kind = JobCommand::Kind;

  DispatcherFixture() { Start(); }
  ~DispatcherFixture() override { dispatcher->CheckConsistent(); }

  // A coordinator that knows what is on the disk.
  void Start() {
    ++options.epoch;
    dispatcher = std::make_unique<Dispatcher>(options);
    dispatcher->SetWakeUp([this] { ++wake_ups; });
    dispatcher->Load(disk.Read(), clock.Now());
  }

  Committed Do(const std::vector<ResultEvent>& results,
               const std::vector<JobCommand>& commands = {}) {
    Committed done = Commit(*dispatcher, disk, clock, results, commands);
    dispatcher->CheckConsistent();
    return done;
  }
  absl::Status Run(const JobCommand& command) { return Do({}, {command}).statuses[0]; }
  absl::Status Run(Kind kind, JobNumber job) { return Run(Command(kind, job)); }
  // A commit that nobody asked for.
  Committed Round() { return Do({}, {}); }
  // Looks for workers that are overdue, and commits what became of their leases.
  void Tick() {
    dispatcher->Tick(clock.Now());
    while (dispatcher->HasInternalWork()) Round();
  }

  JobNumber NewJob(int64_t total) {
    EXPECT_TRUE(Run(Seal(++last_job, total)).ok());
    return last_job;
  }

  WorkerNumber Connect(const std::string& name, int32_t limit = 8, double rate = 0,
                       const std::vector<std::string>& models = {}) {
    auto reply =
        dispatcher->OnHello(HelloOf(name, name + "-session", models), clock.Now(), clock.WallNow());
    EXPECT_TRUE(reply.ok()) << reply.status();
    dispatcher->OnReport(reply->worker, ReportOf(limit, rate, models), clock.Now());
    return reply->worker;
  }

  // Plans and makes the frontiers durable; everything that was granted, in order.
  std::vector<RequestId> Plan() {
    const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
    std::vector<RequestId> ids;
    for (const Grant& grant : plan.grants) {
      for (const Grant::Item& item : grant.items) ids.push_back(item.id);
    }
    for (const JobNumber job : plan.frontier_moved) {
      EXPECT_TRUE(
          Commit(*dispatcher, disk, clock, {}, {Command(Kind::kFrontier, job)}).statuses[0].ok());
    }
    return ids;
  }

  // A worker that answers all that it is given now.
  WorkerNumber ConnectAndAnswer(const std::string& name) {
    const WorkerNumber worker = Connect(name);
    Do(AnswerAll(worker, Plan()));
    return worker;
  }

  std::vector<ResultEvent> AnswerAll(WorkerNumber worker, const std::vector<RequestId>& ids) {
    std::vector<ResultEvent> events;
    for (const RequestId& id : ids) events.push_back(Answered(worker, id));
    return events;
  }

  v1::JobStatus Status(JobNumber job) { return *dispatcher->GetStatus(job, clock.Now()); }
  v1::JobState State(JobNumber job) { return Status(job).state(); }
  ResultDecision::Kind Decision(const ResultEvent& event) {
    return Do({event}).plan.decisions[0].kind;
  }

  DispatcherOptions options;
  FakeClock clock;
  Disk disk;
  int wake_ups = 0;
  JobNumber last_job = 0;
  std::unique_ptr<Dispatcher> dispatcher;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_COORDINATOR_CORE_DISPATCHER_FIXTURE_H_
