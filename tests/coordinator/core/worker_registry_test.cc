#include "coordinator/core/worker_registry.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nightshift {
namespace {

MonotonicTime At(int64_t seconds) { return MonotonicTime{seconds * 1'000'000'000}; }

class WorkerRegistryTest : public ::testing::Test {
 protected:
  v1::Hello Hello(const std::string& name, const std::string& session) {
    v1::Hello hello;
    hello.set_protocol("nightshift.v1");
    hello.set_name(name);
    hello.set_session(session);
    hello.add_backends()->set_name("b");
    return hello;
  }
  Worker* Connect(const std::string& name, const std::string& session, int64_t now = 0) {
    return *registry_.Hello(Hello(name, session), At(now), absl::UnixEpoch());
  }
  v1::Report Report(int32_t limit) {
    v1::Report report;
    report.add_backends()->mutable_info()->set_name("b");
    report.mutable_backends(0)->set_limit(limit);
    return report;
  }

  WorkerRegistry registry_;
};

TEST_F(WorkerRegistryTest, TheSameSessionIsTheSameWorker) {
  Worker* first = Connect("w", "s");
  const WorkerNumber number = first->number;
  registry_.StreamClosed(first, At(0));
  EXPECT_EQ(first->state, WorkerState::kSilent);
  EXPECT_EQ(Connect("w", "s")->number, number);
  EXPECT_EQ(first->state, WorkerState::kConnected);
  EXPECT_NE(Connect("w", "other")->number, number);
}

TEST_F(WorkerRegistryTest, RefusesWhatItDoesNotUnderstand) {
  v1::Hello hello = Hello("w", "s");
  hello.set_protocol("nightshift.v2");
  EXPECT_EQ(registry_.Hello(hello, At(0), absl::UnixEpoch()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(registry_.Hello(Hello("", "s"), At(0), absl::UnixEpoch()).ok());
  EXPECT_FALSE(registry_.Hello(Hello("w", ""), At(0), absl::UnixEpoch()).ok());
  hello = Hello("w", "s");
  for (int i = 0; i < kBackendsPerWorkerMax; ++i) hello.add_backends()->set_name("x");
  EXPECT_FALSE(registry_.Hello(hello, At(0), absl::UnixEpoch()).ok());
  EXPECT_TRUE(registry_.all().empty());
}

TEST_F(WorkerRegistryTest, QuietWorkersBecomeSilentAndComeBackWithAnyMessage) {
  Worker* worker = Connect("w", "s");
  EXPECT_FALSE(registry_.Sweep(At(5)));
  EXPECT_TRUE(registry_.Sweep(At(6)));
  EXPECT_EQ(worker->state, WorkerState::kSilent);
  EXPECT_TRUE(registry_.Report(worker, Report(4), At(7)));
  EXPECT_EQ(worker->state, WorkerState::kConnected);
}

TEST_F(WorkerRegistryTest, AMessageFromAClosedStreamDoesNotMakeItConnected) {
  Worker* worker = Connect("w", "s");
  registry_.StreamClosed(worker, At(0));
  registry_.Heard(worker, At(1));
  EXPECT_EQ(worker->state, WorkerState::kSilent);
}

TEST_F(WorkerRegistryTest, ADrainingWorkerStaysSoUntilANewHello) {
  Worker* worker = Connect("w", "s");
  registry_.Drain(worker, At(1));
  registry_.Report(worker, Report(4), At(2));
  EXPECT_EQ(worker->state, WorkerState::kDraining);
  registry_.Gone(worker, At(40));
  registry_.Heard(worker, At(41));
  EXPECT_EQ(worker->state, WorkerState::kDraining);
  Connect("w", "s", 42);
  EXPECT_EQ(worker->state, WorkerState::kConnected);
}

TEST_F(WorkerRegistryTest, OverdueAfterTheTimeToLive) {
  Worker* worker = Connect("w", "s");
  const auto overdue = [this](int seconds) {
    return registry_.Overdue(At(seconds), absl::Seconds(30), absl::Seconds(8)).size();
  };
  EXPECT_EQ(overdue(30), 0u);
  EXPECT_EQ(overdue(31), 1u);
  registry_.Gone(worker, At(31));
  EXPECT_EQ(overdue(99), 0u);
}

TEST_F(WorkerRegistryTest, WithoutAStreamOverdueAfterTheGraceForReconnecting) {
  Worker* worker = Connect("w", "s");
  const auto overdue = [this](int seconds) {
    return registry_.Overdue(At(seconds), absl::Seconds(30), absl::Seconds(8)).size();
  };
  registry_.StreamClosed(worker, At(5));
  // What was under way on the old stream does not make up for it.
  registry_.Heard(worker, At(6));
  EXPECT_EQ(overdue(13), 0u);
  EXPECT_EQ(overdue(14), 1u);
  Connect("w", "s", 14);
  EXPECT_EQ(overdue(30), 0u) << "it is back";
}

TEST_F(WorkerRegistryTest, GoneWorkersAreForgottenAfterTenMinutes) {
  Worker* worker = Connect("w", "s");
  const WorkerNumber number = worker->number;
  registry_.StreamClosed(worker, At(0));
  registry_.Gone(worker, At(31));
  registry_.Sweep(At(31 + 600));
  EXPECT_NE(registry_.Find(number), nullptr);
  EXPECT_TRUE(registry_.Sweep(At(31 + 601)));
  EXPECT_EQ(registry_.Find(number), nullptr);
  EXPECT_NE(Connect("w", "s", 700)->number, number);
}

TEST_F(WorkerRegistryTest, AnOpenStreamKeepsEvenAGoneWorkerKnown) {
  Worker* worker = Connect("w", "s");
  registry_.Gone(worker, At(31));
  registry_.Sweep(At(5000));
  ASSERT_EQ(registry_.Find(worker->number), worker);
  registry_.Report(worker, Report(4), At(5001));
  EXPECT_EQ(worker->state, WorkerState::kConnected);
}

TEST_F(WorkerRegistryTest, PredecessorsHaveTheNameAndNoStream) {
  Worker* old = Connect("w", "old");
  Connect("v", "v");
  Worker* now = Connect("w", "new");
  EXPECT_TRUE(registry_.Predecessors(*now).empty());
  registry_.StreamClosed(old, At(0));
  EXPECT_EQ(registry_.Predecessors(*now), std::vector<Worker*>{old});
}

TEST_F(WorkerRegistryTest, ARateThatIsNoNumberIsNotKnown) {
  Worker* worker = Connect("w", "s");
  for (const double rate : {std::nan(""), HUGE_VAL, -3.0}) {
    v1::Report report = Report(4);
    report.mutable_backends(0)->set_requests_per_second(rate);
    registry_.Report(worker, report, At(1));
    EXPECT_EQ(worker->backends[0].requests_per_second, 0);
  }
}

TEST_F(WorkerRegistryTest, NewModelsAreAskedForAgain) {
  ModelSets sets;
  const int set = sets.Intern({"m"});
  Worker* worker = Connect("w", "s");
  v1::Report report = Report(4);
  report.mutable_backends(0)->mutable_info()->add_models("other");
  registry_.Report(worker, report, At(1));
  EXPECT_FALSE(registry_.Serves(&worker->backends[0], sets, set));
  report.mutable_backends(0)->mutable_info()->add_models("m");
  EXPECT_TRUE(registry_.Report(worker, report, At(2)));
  EXPECT_TRUE(registry_.Serves(&worker->backends[0], sets, set));
  EXPECT_FALSE(registry_.Report(worker, report, At(3)));
}

}  // namespace
}  // namespace nightshift
