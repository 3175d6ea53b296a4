// Requests that kill the worker that calls a backend with them, in fleets of machines that start
// their worker again.
#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "coordinator/core/poison.h"
#include "tests/coordinator/core/dispatcher_fixture.h"

namespace nightshift {
namespace {

constexpr absl::Duration kStep = absl::Milliseconds(200);

class DispatcherPoison : public DispatcherFixture {
 protected:
  // A machine: when its worker dies, the next one comes up some seconds later.
  struct Machine {
    std::string name;
    WorkerNumber number = 0;  // 0: down
    MonotonicTime up_at;
    std::vector<RequestId> held;  // in the order of calling
    int deaths = 0;
  };

  DispatcherPoison() { SetLogLevel(LogLevel::kOff); }
  ~DispatcherPoison() override { SetLogLevel(LogLevel::kInfo); }

  void MakeFleet(int size) {
    for (int i = 0; i < size; ++i) {
      machines.emplace_back();
      machines.back().name = absl::StrCat("w", i);
      Boot(&machines.back());
    }
  }

  void Boot(Machine* machine) {
    if (new_names) machine->name = absl::StrCat("x", ++sessions);
    const auto reply = dispatcher->OnHello(
        HelloOf(machine->name, absl::StrCat("session-", ++sessions)), clock.Now(), clock.WallNow());
    machine->number = reply->worker;
  }

  // kill -9.
  void Kill(Machine* machine) {
    if (machine->number == 0) return;
    dispatcher->OnStreamClosed(machine->number, clock.Now());
    machine->number = 0;
    machine->held.clear();
    machine->up_at = clock.Now() + absl::Seconds(1);
    ++machine->deaths;
  }

  void GrantAll() {
    const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
    for (const Grant& grant : plan.grants) {
      int64_t suspects = 0;
      for (const Grant::Item& item : grant.items) {
        const auto row = disk.jobs.at(item.id.job).attempts.find(item.id.index);
        const int32_t lost =
            row == disk.jobs.at(item.id.job).attempts.end() ? 0 : row->second.lost_workers();
        suspects += lost == 1 ? 1 : 0;
        EXPECT_TRUE(lost < 2 || grant.items.size() == 1) << "an accused request is not alone";
      }
      EXPECT_LE(suspects, kSuspectsPerWorker);
      for (Machine& machine : machines) {
        if (machine.number != grant.worker) continue;
        for (const Grant::Item& item : grant.items) machine.held.push_back(item.id);
      }
    }
    for (const JobNumber job : plan.frontier_moved) {
      Commit(*dispatcher, disk, clock, {}, {Command(Kind::kFrontier, job)});
    }
  }

  // Each worker calls for the first `slots` of what it holds: all are answered, or it dies.
  void Work(Machine* machine) {
    const auto end = machine->held.begin() +
                     std::min<int64_t>(slots, static_cast<int64_t>(machine->held.size()));
    if (std::any_of(machine->held.begin(), end,
                    [this](const RequestId& id) { return poison.count(id.index) > 0; })) {
      return Kill(machine);
    }
    Commit(*dispatcher, disk, clock, AnswerAll(machine->number, {machine->held.begin(), end}), {});
    machine->held.erase(machine->held.begin(), end);
  }

  void Step() {
    clock.Advance(kStep);
    for (Machine& machine : machines) {
      if (machine.number == 0 && machine.up_at <= clock.Now()) Boot(&machine);
      if (machine.number != 0) {
        dispatcher->OnReport(machine.number, ReportOf(slots, 0), clock.Now());
      }
    }
    Tick();
    GrantAll();
    for (Machine& machine : machines) {
      if (machine.number != 0) Work(&machine);
    }
    Tick();
  }

  int Deaths() const {
    int deaths = 0;
    for (const Machine& machine : machines) deaths += machine.deaths;
    return deaths;
  }

  // Within so many steps; a step is 0.2 s.
  void StepUntilEnd(JobNumber job, int steps = 20000) {
    while (steps-- > 0 && !Terminal(State(job))) Step();
    EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED)
        << Status(job).ShortDebugString() << " " << Deaths() << " deaths";
  }

  int32_t LostOver(JobNumber job, uint64_t index) {
    const auto row = disk.jobs.at(job).attempts.find(index);
    return row == disk.jobs.at(job).attempts.end() ? 0 : row->second.lost_workers();
  }

  std::vector<Machine> machines;
  std::set<uint64_t> poison;
  int32_t slots = 32;
  bool new_names = false;  // each process has a name of its own
  int sessions = 0;
};

class DispatcherPoisonFleets : public DispatcherPoison,
                               public ::testing::WithParamInterface<std::tuple<int, bool>> {};

TEST_P(DispatcherPoisonFleets, OnePoisonRequestAmongFiveThousandCostsThreeWorkers) {
  new_names = std::get<1>(GetParam());
  const JobNumber job = NewJob(5000);
  poison = {2345};
  MakeFleet(std::get<0>(GetParam()));
  StepUntilEnd(job);
  EXPECT_EQ(Deaths(), 3);
  EXPECT_EQ(Status(job).counts().succeeded(), 4999);
  EXPECT_EQ(Status(job).counts().failed(), 1);
  const v1::OutcomeRecord& outcome = disk.jobs.at(job).outcomes.at(2345);
  EXPECT_EQ(outcome.error_class(), v1::ERROR_CLASS_WORKER_CRASHED);
  EXPECT_EQ(outcome.error_code(), "worker_crashed");
  EXPECT_EQ(outcome.attempts(), 3);
  EXPECT_EQ(outcome.backend(), "b");
  EXPECT_FALSE(outcome.worker().empty());
  EXPECT_TRUE(disk.jobs.at(job).attempts.empty());
}

// Workers that have been up for long try an accused request at once. The death that accused it is
// just over then, and is not taken for one of the same cause.
TEST_P(DispatcherPoisonFleets, DeathsInQuickSuccessionAreNotTakenForOne) {
  new_names = std::get<1>(GetParam());
  MakeFleet(std::get<0>(GetParam()));
  for (int i = 0; i < 200; ++i) Step();
  const JobNumber job = NewJob(5000);
  poison = {2345};
  StepUntilEnd(job);
  EXPECT_EQ(Deaths(), 3);
  EXPECT_EQ(Status(job).counts().failed(), 1);
}

INSTANTIATE_TEST_SUITE_P(Sizes, DispatcherPoisonFleets,
                         ::testing::Combine(::testing::Values(1, 2, 3, 9), ::testing::Bool()));

TEST_F(DispatcherPoison, ManyPoisonRequestsCostThreeWorkersEachAtMostAndNobodyElseFails) {
  const JobNumber job = NewJob(2000);
  for (uint64_t i = 0; i < 12; ++i) poison.insert(i * i * 13 % 2000);
  MakeFleet(4);
  StepUntilEnd(job);
  EXPECT_LE(Deaths(), 3 * static_cast<int>(poison.size()));
  EXPECT_EQ(Status(job).counts().failed(), static_cast<int64_t>(poison.size()));
  for (const uint64_t index : poison) {
    EXPECT_EQ(disk.jobs.at(job).outcomes.at(index).error_class(), v1::ERROR_CLASS_WORKER_CRASHED);
  }
}

// What has been counted is on the disk; what the coordinator could not see is not.
TEST_F(DispatcherPoison, ARestartOfTheCoordinatorForgetsNoLoss) {
  const JobNumber job = NewJob(600);
  poison = {77};
  MakeFleet(3);
  while (Deaths() < 2) Step();
  for (int i = 0; i < 10; ++i) Step();  // the second is counted
  EXPECT_EQ(LostOver(job, 77), 2);
  Start();
  for (Machine& machine : machines) {
    machine.held.clear();  // nothing of it matters here
    Boot(&machine);
  }
  StepUntilEnd(job);
  EXPECT_EQ(Deaths(), 3);
  EXPECT_EQ(Status(job).counts().succeeded(), 599);
}

TEST_F(DispatcherPoison, SuspectsGoOutFewAtATimeBesideOtherWork) {
  const JobNumber job = NewJob(1000);
  const WorkerNumber dead = Connect("dead", 100);
  ASSERT_EQ(Plan().size(), 200u);
  dispatcher->OnStreamClosed(dead, clock.Now());
  clock.Advance(absl::Seconds(31));
  Tick();
  EXPECT_EQ(Status(job).counts().pending(), 1000);
  const WorkerNumber alive = Connect("alive", 100);
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 200u);
  const auto suspect = [](const RequestId& id) { return id.index < 200; };
  EXPECT_EQ(std::count_if(ids.begin(), ids.end(), suspect), kSuspectsPerWorker);
  // Its answers clear them, and the next go out.
  Do(AnswerAll(alive, ids));
  EXPECT_EQ(LostOver(job, ids[0].index), 0);
  const std::vector<RequestId> next = Plan();
  EXPECT_EQ(std::count_if(next.begin(), next.end(), suspect), kSuspectsPerWorker);
}

TEST_F(DispatcherPoison, AWorkerThatComesBackWasNoLoss) {
  const JobNumber job = NewJob(40);
  const WorkerNumber worker = Connect("w", 40);
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 40u);
  dispatcher->OnStreamClosed(worker, clock.Now());
  clock.Advance(absl::Minutes(5));
  Tick();
  EXPECT_EQ(LostOver(job, 0), 1);
  v1::Hello hello = HelloOf("w", "w-session");
  Hold(&hello, ids[0], false);
  ASSERT_TRUE(dispatcher->OnHello(hello, clock.Now(), clock.WallNow()).ok());
  dispatcher->OnReport(worker, ReportOf(40, 0), clock.Now());
  // All of the rest at once, as if nothing had been.
  EXPECT_EQ(Plan().size(), 39u);
}

TEST_F(DispatcherPoison, AnAnswerThatADeadProcessLeftBehindClearsItsRequest) {
  const JobNumber job = NewJob(16);
  const WorkerNumber dead = Connect("w", 16);
  const std::vector<RequestId> ids = Plan();
  ASSERT_EQ(ids.size(), 16u);
  dispatcher->OnStreamClosed(dead, clock.Now());
  v1::Hello hello = HelloOf("w", "next");
  for (const RequestId& id : ids) Hold(&hello, id, id.index < 10);
  const auto reply = dispatcher->OnHello(hello, clock.Now(), clock.WallNow());
  Round();
  for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(LostOver(job, i), i < 10 ? 0 : 1) << i;
  EXPECT_EQ(Status(job).counts().in_flight(), 10);
  EXPECT_EQ(Decision(Answered(reply->worker, ids[3])), ResultDecision::Kind::kRecord);
}

TEST_F(DispatcherPoison, AWorkerThatWasDrainingKilledNothing) {
  const JobNumber job = NewJob(16);
  const WorkerNumber worker = Connect("w", 16);
  Plan();
  dispatcher->OnDrain(worker, v1::Drain(), clock.Now());
  dispatcher->OnStreamClosed(worker, clock.Now());
  clock.Advance(absl::Seconds(31));
  Tick();
  EXPECT_EQ(Status(job).counts().pending(), 16);
  EXPECT_TRUE(disk.jobs.at(job).attempts.empty());
}

// The loss is decided by a commit; a worker that is heard of before it keeps what it holds.
TEST_F(DispatcherPoison, AWorkerThatIsHeardOfBeforeTheCommitKeepsItsLeases) {
  const JobNumber job = NewJob(16);
  const WorkerNumber worker = Connect("w", 16);
  Plan();
  clock.Advance(absl::Seconds(31));
  dispatcher->Tick(clock.Now());
  EXPECT_TRUE(dispatcher->HasInternalWork());
  dispatcher->OnReport(worker, ReportOf(16, 0), clock.Now());
  EXPECT_FALSE(dispatcher->HasInternalWork());
  EXPECT_TRUE(Round().plan.losses.empty());
  EXPECT_EQ(Status(job).counts().in_flight(), 16);
}

// A rack that loses its power again and again, whatever is being tried at the time.
TEST_F(DispatcherPoison, NobodysRequestFailsWhenAWholeFleetDies) {
  const JobNumber job = NewJob(8000);
  slots = 2;
  MakeFleet(4);
  for (int cut = 0; cut < 6; ++cut) {
    // The last ones while accused requests are tried.
    for (int i = 0; i < (cut < 2 ? 3 : 160); ++i) Step();
    clock.Advance(kStep);
    GrantAll();
    for (Machine& machine : machines) Kill(&machine);
  }
  while (machines[0].number == 0) Step();
  EXPECT_FALSE(disk.jobs.at(job).attempts.empty());
  StepUntilEnd(job);
  EXPECT_EQ(Status(job).counts().succeeded(), 8000);
}

// Whatever is wrong with such a machine, its requests are not to blame.
TEST_F(DispatcherPoison, AWorkerThatDiesYoungConvictsNobody) {
  const JobNumber job = NewJob(4000);
  slots = 8;
  MakeFleet(1);
  for (int i = 0; i < 600; ++i) {
    Step();
    if (i % 12 == 11) Kill(machines.data());
  }
  EXPECT_GT(Deaths(), 40);
  EXPECT_EQ(Status(job).counts().failed(), 0);
  EXPECT_GT(Status(job).counts().succeeded(), 1000);
  StepUntilEnd(job);
  EXPECT_EQ(Status(job).counts().succeeded(), 4000);
}

TEST_F(DispatcherPoison, WhatIsAccusedWaitsForAWorkerThatHasLivedAndSaysSo) {
  const JobNumber job = NewJob(1);
  for (const char* name : {"a", "b"}) {
    const WorkerNumber worker = Connect(name);
    ASSERT_EQ(Plan().size(), 1u);
    dispatcher->OnStreamClosed(worker, clock.Now());
    clock.Advance(absl::Seconds(31));
    Tick();
  }
  const WorkerNumber worker = Connect("c");
  EXPECT_TRUE(Plan().empty());
  EXPECT_NE(Status(job).waiting_for().find("tried alone"), std::string::npos);
  clock.Advance(absl::Seconds(30));
  dispatcher->OnReport(worker, ReportOf(8, 0), clock.Now());
  EXPECT_EQ(Plan().size(), 1u);
  EXPECT_EQ(Status(job).waiting_for(), "");
  // It gets nothing else, and three times as long to come back.
  const JobNumber other = NewJob(5);
  EXPECT_TRUE(Plan().empty());
  dispatcher->OnStreamClosed(worker, clock.Now());
  clock.Advance(absl::Seconds(90));
  Tick();
  EXPECT_EQ(Status(job).counts().in_flight(), 1);
  clock.Advance(absl::Seconds(1));
  Tick();
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(Status(job).failed_by_class().at(v1::ERROR_CLASS_WORKER_CRASHED), 1);
  EXPECT_EQ(Status(other).counts().pending(), 5);
}

// A server that dies breaks every connection: the requests that were with the one that killed it
// must not be charged with it to the end.
TEST_F(DispatcherPoison, ARequestThatKillsItsBackendFailsAlone) {
  for (const int32_t attempts_max : {0, 3, 2}) {
    JobCommand seal = Seal(++last_job, 60);
    seal.record.mutable_options()->set_max_attempts(attempts_max);
    ASSERT_TRUE(Run(seal).ok());
    const WorkerNumber worker = Connect("w", 64);
    int broken = 0;
    for (int i = 0; i < 1000 && !Terminal(State(last_job)); ++i) {
      clock.Advance(absl::Seconds(1));
      dispatcher->OnReport(worker, ReportOf(64, 0), clock.Now());
      const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
      for (const JobNumber job : plan.frontier_moved) ASSERT_TRUE(Run(Kind::kFrontier, job).ok());
      std::vector<ResultEvent> results;
      for (const Grant& grant : plan.grants) {
        const bool dies = std::any_of(grant.items.begin(), grant.items.end(),
                                      [](const auto& item) { return item.id.index == 7; });
        broken += dies ? 1 : 0;
        for (const Grant::Item& item : grant.items) {
          results.push_back(dies ? Failed(worker, item.id, item.attempt)
                                 : Answered(worker, item.id));
          if (dies) results.back().result.set_error_class(v1::ERROR_CLASS_CONNECTION_ERROR);
        }
      }
      Do(results);
    }
    EXPECT_EQ(State(last_job), v1::JOB_STATE_COMPLETED);
    EXPECT_EQ(broken, attempts_max == 0 ? 5 : attempts_max);
    EXPECT_EQ(Status(last_job).counts().succeeded(), 59) << attempts_max << " attempts";
    EXPECT_EQ(disk.jobs.at(last_job).outcomes.at(7).error_class(),
              v1::ERROR_CLASS_CONNECTION_ERROR);
  }
}

// The same where several workers call that server: what breaks are the connections of all of them.
TEST_F(DispatcherPoison, ARequestThatKillsAServerOfSeveralWorkersFailsAlone) {
  const JobNumber job = NewJob(60);
  std::vector<WorkerNumber> fleet;
  for (const std::string name : {"a", "b", "c"}) {
    fleet.push_back(Connect(name, 64));
  }
  for (int i = 0; i < 1000 && !Terminal(State(job)); ++i) {
    clock.Advance(absl::Seconds(1));
    v1::Report report = ReportOf(64, 0);
    report.mutable_backends(0)->mutable_info()->set_server("gpu7:8000");
    for (const WorkerNumber worker : fleet) dispatcher->OnReport(worker, report, clock.Now());
    const GrantPlan plan = dispatcher->PlanGrants(clock.Now());
    for (const JobNumber moved : plan.frontier_moved) ASSERT_TRUE(Run(Kind::kFrontier, moved).ok());
    bool dies = false;
    for (const Grant& grant : plan.grants) {
      for (const Grant::Item& item : grant.items) dies = dies || item.id.index == 7;
    }
    std::vector<ResultEvent> results;
    for (const Grant& grant : plan.grants) {
      for (const Grant::Item& item : grant.items) {
        results.push_back(dies ? Failed(grant.worker, item.id, item.attempt)
                               : Answered(grant.worker, item.id));
        if (dies) results.back().result.set_error_class(v1::ERROR_CLASS_CONNECTION_ERROR);
      }
    }
    Do(results);
  }
  EXPECT_EQ(State(job), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(Status(job).counts().succeeded(), 59);
}

// Two backends of one worker are two servers: what is tried at the one keeps nothing from the
// other.
TEST_F(DispatcherPoison, ServersAreTriedWithLoneRequestsBesideEachOther) {
  const JobNumber job = NewJob(4);
  const WorkerNumber first = Connect("first", 8);
  // All but the last two attempts of four requests end with their connections.
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<ResultEvent> broken;
    for (int tries = 0; tries < 100 && broken.size() < 4; ++tries) {
      clock.Advance(absl::Seconds(5));
      dispatcher->OnReport(first, ReportOf(8, 0), clock.Now());
      for (const RequestId& id : Plan()) {
        broken.push_back(Failed(first, id, attempt));
        broken.back().result.set_error_class(v1::ERROR_CLASS_CONNECTION_ERROR);
      }
    }
    Do(broken);
  }
  dispatcher->OnDrain(first, v1::Drain(), clock.Now());
  v1::Hello hello = HelloOf("second", "second-session");
  *hello.add_backends() = hello.backends(0);
  hello.mutable_backends(1)->set_name("c");
  const WorkerNumber second = dispatcher->OnHello(hello, clock.Now(), clock.WallNow())->worker;
  clock.Advance(absl::Minutes(2));
  v1::Report report = ReportOf(8, 0);
  *report.add_backends() = report.backends(0);
  report.mutable_backends(1)->mutable_info()->set_name("c");
  for (const bool shared : {false, true}) {
    for (v1::BackendReport& backend : *report.mutable_backends())
      backend.mutable_info()->set_server(shared ? "gpu7:8000" : "");
    dispatcher->OnReport(second, report, clock.Now());
    const std::vector<RequestId> ids = Plan();
    EXPECT_EQ(ids.size(), shared ? 1u : 2u);
    Do(AnswerAll(second, ids));
  }
  EXPECT_EQ(Status(job).counts().succeeded(), 3);
}

// A fleet that has other work to do keeps one worker free for the trial; the others go on.
TEST_F(DispatcherPoison, ABusyFleetTriesWithOneWorker) {
  const JobNumber job = NewJob(100000);
  poison = {3};
  MakeFleet(3);
  int steps = 0;
  for (; steps < 2000 && Status(job).counts().failed() == 0; ++steps) Step();
  EXPECT_EQ(Status(job).counts().failed(), 1);
  EXPECT_EQ(Deaths(), 3);
  // Three workers of 64 and more requests a second for most of that time.
  EXPECT_GT(Status(job).counts().succeeded(), steps * slots * 2);
}

}  // namespace
}  // namespace nightshift
