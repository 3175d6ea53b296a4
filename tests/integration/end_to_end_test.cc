// Coordinator, worker and client as they are, in one process, against a small HTTP server.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "client/rpc/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/rpc/coordinator_fixture.h"
#include "tests/integration/answering_server.h"
#include "tests/storage/temp_folder.h"
#include "worker/worker.h"

namespace nightshift {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

class EndToEndTest : public CoordinatorFixture {
 protected:
  CoordinatorOptions Options() override {
    CoordinatorOptions options = CoordinatorFixture::Options();
    options.grpc_address = address_;
    return options;
  }
  void TearDown() override {
    worker_.reset();
    server_.SetOpen(true);
  }

  WorkerOptions Backend(const std::string& url) {
    WorkerOptions options;
    options.name = "w";
    options.channel = channel_;
    // Well below the server's threads, each of which a kept connection holds.
    options.concurrency = 16;
    BackendSpec& spec = options.backends.emplace_back();
    spec.name = "b";
    spec.kind = "openai";
    spec.base_url = url;
    return options;
  }
  void StartWorker(WorkerOptions options) {
    auto started = Worker::Start(std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    worker_ = *std::move(started);
  }
  void StartWorker() { StartWorker(Backend(server_.url())); }

  v1::JobStatus AwaitEnd(const std::string& job) {
    return WatchUntil(job, [](const v1::JobStatus& s) { return s.finished_at_ms() != 0; });
  }

  // Every request has its own answer, once, and the books agree.
  void ExpectWhole(const std::string& job, int requests) {
    const v1::JobStatus last = AwaitEnd(job);
    EXPECT_EQ(last.state(), v1::JOB_STATE_COMPLETED) << last.ShortDebugString();
    EXPECT_EQ(last.counts().succeeded(), requests);
    const std::string results = ReadAll(job, v1::ReadOutputRequest::RESULTS);
    EXPECT_EQ(std::count(results.begin(), results.end(), '\n'), requests);
    size_t at = 0;
    for (int i = 0; i < requests; ++i) {
      const size_t end = results.find('\n', at);
      const std::string line = results.substr(at, end - at);
      ASSERT_THAT(line, HasSubstr(absl::StrCat("\"custom_id\":\"r", i, "\"")));
      ASSERT_THAT(line, HasSubstr(absl::StrCat("answer to prompt ", i, "\"")));
      at = end + 1;
    }
    auto audit = client_->Audit(job);
    ASSERT_TRUE(audit.ok()) << audit.status();
    EXPECT_TRUE(audit->agrees()) << audit->ShortDebugString();
  }

  std::string address_;
  AnsweringServer server_;
  std::unique_ptr<Worker> worker_;
};

TEST_F(EndToEndTest, ThousandRequestsAreEachCalledOnceAndAnswered) {
  StartWorker();
  const std::string job = SubmitJob(1000);
  ExpectWhole(job, 1000);
  EXPECT_THAT(server_.calls(), SizeIs(1000));
  EXPECT_THAT(server_.calls(), Each(Pair(testing::_, 1)));
  EXPECT_EQ(worker_->in_flight(), 0);
}

TEST_F(EndToEndTest, WorkOfAWorkerThatGoesIsDoneByTheNext) {
  const std::string job = SubmitJob(500);
  StartWorker();
  server_.AwaitAnswered(50);
  worker_.reset();
  StartWorker();
  ExpectWhole(job, 500);
}

TEST_F(EndToEndTest, DrainFinishesWhatIsInFlightAndHandsBackTheRest) {
  const std::string job = SubmitJob(500);
  server_.SetOpen(false);
  StartWorker();
  server_.AwaitArrived(1);
  std::thread opener([&] { server_.SetOpen(true); });
  EXPECT_TRUE(worker_->Drain(absl::Seconds(20)));
  opener.join();
  const int arrived = server_.arrived();
  auto status = client_->GetJob(job);
  ASSERT_TRUE(status.ok()) << status.status();
  // What was called is recorded, and nobody holds anything.
  EXPECT_EQ(status->counts().succeeded(), arrived);
  EXPECT_EQ(status->counts().in_flight(), 0);
  worker_.reset();
  StartWorker();
  ExpectWhole(job, 500);
  EXPECT_THAT(server_.calls(), Each(Pair(testing::_, 1)));
}

TEST_F(EndToEndTest, AbortEndsADrainThatWouldTakeLong) {
  SubmitJob(10);
  server_.SetOpen(false);
  StartWorker();
  server_.AwaitArrived(1);
  std::thread aborter([&] { worker_->Abort(); });
  EXPECT_FALSE(worker_->Drain(absl::Minutes(10)));
  aborter.join();
}

TEST_F(EndToEndTest, BackendThatIsNotThereYetTakesNoLeases) {
  // A port that is free, since whoever had it is gone.
  const int port = std::make_unique<AnsweringServer>()->port();
  const std::string job = SubmitJob(20);
  StartWorker(Backend(absl::StrCat("http://127.0.0.1:", port)));
  // It has asked, and says why it does nothing.
  for (bool said = false; !said; std::this_thread::yield()) {
    auto workers = client_->ListWorkers();
    ASSERT_TRUE(workers.ok()) << workers.status();
    for (const v1::WorkerStatus& worker : *workers) {
      EXPECT_EQ(worker.leased(), 0);
      said |= worker.backends_size() == 1 && worker.backends(0).state() == "broken";
    }
  }
  AnsweringServer there(port);
  ExpectWhole(job, 20);
}

TEST_F(EndToEndTest, WorkerWithNothingToDoIsIdle) {
  StartWorker();
  const std::string job = SubmitJob(5);
  ExpectWhole(job, 5);
  while (worker_->IdleFor() == absl::ZeroDuration()) std::this_thread::yield();
  server_.SetOpen(false);
  SubmitJob(1);
  server_.AwaitArrived(6);
  // The backend may know of the call before the loop's round that started it has ended.
  while (worker_->IdleFor() != absl::ZeroDuration()) std::this_thread::yield();
}

class NetworkTest : public EndToEndTest {
 protected:
  NetworkTest() { address_ = "127.0.0.1:0"; }
};

// The worker lives on while the coordinator is away: what it was calling is answered meanwhile, and
// nothing is called a second time.
TEST_F(NetworkTest, CoordinatorRestartCostsNoSecondCall) {
  const std::string job = SubmitJob(200);
  const std::string address = coordinator_->grpc_address();
  server_.SetOpen(false);
  WorkerOptions options = Backend(server_.url());
  options.channel = NewCoordinatorChannel(address);
  StartWorker(std::move(options));
  server_.AwaitArrived(10);
  Stop();
  server_.SetOpen(true);
  server_.AwaitAnswered(10);
  address_ = address;  // where the worker looks for it
  Start();
  ExpectWhole(job, 200);
  EXPECT_THAT(server_.calls(), SizeIs(200));
  EXPECT_THAT(server_.calls(), Each(Pair(testing::_, 1)));
}

// The worker ends while the coordinator is away: its answers wait in the spool for the next one.
TEST_F(NetworkTest, AnswersLeftInTheSpoolAreDeliveredByTheNextWorker) {
  const TempFolder spool;
  const std::string job = SubmitJob(16);
  const std::string address = coordinator_->grpc_address();
  server_.SetOpen(false);
  WorkerOptions options = Backend(server_.url());
  options.channel = NewCoordinatorChannel(address);
  options.spool_dir = spool.path();
  StartWorker(options);
  server_.AwaitArrived(16);
  Stop();
  server_.SetOpen(true);
  while (worker_->leftovers().undelivered < 16) std::this_thread::yield();
  while (!worker_->leftovers().spooled) std::this_thread::yield();
  EXPECT_FALSE(worker_->Drain(absl::ZeroDuration()));
  EXPECT_EQ(worker_->leftovers().undelivered, 16);
  EXPECT_EQ(worker_->leftovers().unanswered, 0);
  EXPECT_TRUE(worker_->leftovers().spooled);
  worker_.reset();
  address_ = address;
  Start();
  options.name = "next";
  StartWorker(std::move(options));
  EXPECT_EQ(worker_->left_before(), 16);
  ExpectWhole(job, 16);
  EXPECT_THAT(server_.calls(), SizeIs(16));
  EXPECT_THAT(server_.calls(), Each(Pair(testing::_, 1)));
}

TEST_F(EndToEndTest, TwoWorkersDoNotShareASpool) {
  const TempFolder spool;
  WorkerOptions options = Backend(server_.url());
  options.spool_dir = spool.path();
  StartWorker(options);
  options.name = "second";
  EXPECT_TRUE(absl::IsFailedPrecondition(Worker::Start(std::move(options)).status()));
}

class TokenEndToEndTest : public EndToEndTest {
 protected:
  std::string Token() const override { return "secret"; }
};

TEST_F(TokenEndToEndTest, OnlyAWorkerWithTheTokenGetsWork) {
  const std::string job = SubmitJob(3);
  WorkerOptions wrong = Backend(server_.url());
  wrong.name = "wrong";
  wrong.token = "guess";
  auto intruder = Worker::Start(std::move(wrong));
  ASSERT_TRUE(intruder.ok()) << intruder.status();
  WorkerOptions right = Backend(server_.url());
  right.name = "right";
  right.token = "secret";
  StartWorker(std::move(right));
  ExpectWhole(job, 3);
  auto workers = client_->ListWorkers();
  ASSERT_TRUE(workers.ok()) << workers.status();
  ASSERT_THAT(*workers, SizeIs(1));
  EXPECT_EQ(workers->front().name(), "right");
}

}  // namespace
}  // namespace nightshift
