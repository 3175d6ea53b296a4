// The coordinator put together: how it starts, what a restart keeps, how it ends.
#include "coordinator/coordinator.h"

#include <grpcpp/grpcpp.h>

#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "client/rpc/channel.h"
#include "coordinator/backup_folder.h"
#include "coordinator/repair_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/keys.h"
#include "storage/rocksdb_store.h"
#include "tests/coordinator/rpc/coordinator_fixture.h"
#include "tests/coordinator/rpc/fake_worker.h"

namespace nightshift {
namespace {

using ::testing::HasSubstr;
using Kind = v1::CoordinatorMessage::KindCase;

class CoordinatorTest : public CoordinatorFixture {
 protected:
  CoordinatorOptions Options() override {
    CoordinatorOptions options = CoordinatorFixture::Options();
    options.grpc_address = "127.0.0.1:0";
    return options;
  }

  // Reads leases until `count` requests have come.
  static std::vector<v1::LeasedRequest> Lease(FakeWorker& worker, size_t count) {
    std::vector<v1::LeasedRequest> leased;
    while (leased.size() < count) {
      const v1::CoordinatorMessage message = worker.Next(Kind::kLease);
      if (message.kind_case() != Kind::kLease) break;
      for (const auto& request : message.lease().requests()) leased.push_back(request);
    }
    return leased;
  }

  static std::vector<v1::HeldRequest> Held(const std::vector<v1::LeasedRequest>& leased,
                                           bool answered) {
    std::vector<v1::HeldRequest> held;
    for (const v1::LeasedRequest& request : leased) {
      v1::HeldRequest& one = held.emplace_back();
      *one.mutable_key() = request.key();
      one.set_backend("b");
      one.set_answered(answered);
    }
    return held;
  }
};

TEST_F(CoordinatorTest, ServesOnTheNetworkAsInProcess) {
  ASSERT_THAT(coordinator_->grpc_address(), HasSubstr("127.0.0.1:"));
  const std::string job = SubmitJob(3);
  const auto channel = NewCoordinatorChannel(coordinator_->grpc_address());
  ASSERT_TRUE(WaitForCoordinator(*channel, coordinator_->grpc_address(), absl::Seconds(10)).ok());
  JobClient client(channel, "");
  auto status = client.GetJob(job);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->counts().total(), 3);
}

TEST_F(CoordinatorTest, TakenPortIsToldFromAnAddressOfAnotherMachine) {
  TempFolder other;
  CoordinatorOptions options;
  options.data_dir = other.path();
  options.grpc_address = coordinator_->grpc_address();
  const auto second = Coordinator::Start(options);
  ASSERT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  EXPECT_THAT(second.status().message(), HasSubstr(options.grpc_address));
  options.grpc_address = "192.0.2.1:7440";  // of nobody
  const auto elsewhere = Coordinator::Start(options);
  ASSERT_TRUE(absl::IsInvalidArgument(elsewhere.status())) << elsewhere.status();
  EXPECT_THAT(elsewhere.status().message(), HasSubstr(options.grpc_address));
}

TEST_F(CoordinatorTest, FolderInUseIsAPrecondition) {
  CoordinatorOptions options;
  options.data_dir = folder_.path();
  const auto second = Coordinator::Start(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
}

TEST_F(CoordinatorTest, NobodyThereIsUnavailableAndNamed) {
  const std::string address = coordinator_->grpc_address();
  Stop();
  const auto channel = NewCoordinatorChannel(address);
  const absl::Status status = WaitForCoordinator(*channel, address, absl::Milliseconds(300));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr(address));
}

TEST_F(CoordinatorTest, BackupGoesWhereAClientOfThisMachineSays) {
  SubmitJob(3);
  TempFolder outside;
  v1::CreateBackupRequest request;
  for (const std::string name : {"in-process", "network"}) {
    const auto channel = name == "network" ? NewCoordinatorChannel(coordinator_->grpc_address())
                                           : coordinator_->InProcessChannel();
    JobClient client(channel, "");
    request.set_folder(outside / name);
    const auto made = client.CreateBackup(request);
    ASSERT_TRUE(made.ok()) << name << ": " << made.status();
    EXPECT_EQ(made->folder(), outside / name);
    EXPECT_EQ(made->backup().number(), 1);
    EXPECT_EQ(made->backup().jobs(), 1);
    EXPECT_EQ(made->backup().unfinished_jobs(), 1);
    v1::ListBackupsRequest list;
    list.set_folder(outside / name);
    const auto listed = client.ListBackups(list);
    ASSERT_TRUE(listed.ok()) << listed.status();
    ASSERT_EQ(listed->backups_size(), 1);
    EXPECT_EQ(listed->backups(0).store(), made->backup().store());
  }
  request.set_folder(folder_ / "backups");
  EXPECT_TRUE(absl::IsInvalidArgument(client_->CreateBackup(request).status()));
}

TEST_F(CoordinatorTest, RestoredFolderServesTheSameJobsUnderAnotherStoreId) {
  const std::string job = SubmitJob(3);
  TempFolder outside;
  v1::CreateBackupRequest request;
  request.set_folder(outside / "backups");
  const auto made = client_->CreateBackup(request);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto restored = RestoreDataDir(request.folder(), 0, outside / "data");
  ASSERT_TRUE(restored.ok()) << restored.status();
  CoordinatorOptions options;
  options.data_dir = outside / "data";
  const auto copy = Coordinator::Start(options);
  ASSERT_TRUE(copy.ok()) << copy.status();
  JobClient client((*copy)->InProcessChannel(), "");
  EXPECT_TRUE(client.Audit("")->agrees());
  EXPECT_EQ(client.GetJob(job)->counts().pending(), 3);
  request.set_folder(outside / "again");
  EXPECT_NE(client.CreateBackup(request)->backup().store(), made->backup().store());
  EXPECT_TRUE(
      absl::IsAlreadyExists(RestoreDataDir(outside / "again", 0, outside / "data").status()));
}

TEST_F(CoordinatorTest, DamagedCountersAreRepairedWhereItCannotStart) {
  const std::string job = SubmitJob(3);
  EXPECT_TRUE(absl::IsFailedPrecondition(RepairDataDir(folder_.path(), "").status()))
      << "beside a coordinator that runs";
  Stop();
  {
    RocksDbStoreOptions options;
    options.path = folder_ / "store";
    const auto store = OpenRocksDbStore(options);
    ASSERT_TRUE(store.ok()) << store.status();
    WriteSet writes;
    writes.Put(Family::kProgress, ProgressKey(1, 0, 0), "no record of ours");
    ASSERT_TRUE((*store)->Commit(std::move(writes)).ok());
  }
  EXPECT_TRUE(absl::IsDataLoss(Coordinator::Start(Options()).status()));
  const auto repairs = RepairDataDir(folder_.path(), "");
  ASSERT_TRUE(repairs.ok()) << repairs.status();
  ASSERT_EQ(repairs->size(), 1u);
  EXPECT_EQ(repairs->at(0).id(), job);
  Start();
  EXPECT_TRUE(client_->Audit("")->agrees());
}

TEST_F(CoordinatorTest, RestartKnowsItsJobs) {
  const std::string running = SubmitJob(5);
  const std::string ended = SubmitJob(1);
  ASSERT_TRUE(client_->Control(ended, v1::ControlJobRequest::CANCEL).ok());
  WatchUntil(ended, [](const v1::JobStatus& s) { return s.state() == v1::JOB_STATE_CANCELLED; });
  Stop();
  Start();
  EXPECT_EQ(coordinator_->jobs_loaded(), 2);
  EXPECT_EQ(coordinator_->jobs_resumed(), 1);
  auto status = client_->GetJob(running);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->counts().pending(), 5);
  status = client_->GetJob(ended);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->state(), v1::JOB_STATE_CANCELLED);
}

// What a living worker holds or has answered costs no second call when the coordinator restarts.
TEST_F(CoordinatorTest, RestartTakesTheAnswersThatALivingWorkerHolds) {
  const std::string job = SubmitJob(20);
  std::vector<v1::LeasedRequest> leased;
  {
    FakeWorker worker(channel_, "s1");
    ASSERT_TRUE(worker.Hello());
    ASSERT_TRUE(worker.Report(20));
    leased = Lease(worker, 20);
    ASSERT_EQ(leased.size(), 20u);
    Stop();
    EXPECT_FALSE(worker.Finish().ok());
  }
  Start();
  FakeWorker worker(channel_, "s1");
  // Ten were answered meanwhile, ten are still being called.
  std::vector<v1::LeasedRequest> answered(leased.begin(), leased.begin() + 10);
  std::vector<v1::LeasedRequest> calling(leased.begin() + 10, leased.end());
  std::vector<v1::HeldRequest> held = Held(answered, true);
  for (const v1::HeldRequest& one : Held(calling, false)) held.push_back(one);
  ASSERT_TRUE(worker.Hello(held));
  EXPECT_EQ(worker.Next(Kind::kWelcome).welcome().drop_size(), 0);
  ASSERT_TRUE(worker.Report(20, 10));
  for (const auto& half : {answered, calling}) {
    std::vector<v1::AttemptResult> results;
    for (const v1::LeasedRequest& request : half) results.push_back(worker.Answer(request));
    ASSERT_TRUE(worker.Send(std::move(results)));
    v1::CoordinatorMessage message;
    for (int acknowledged = 0; acknowledged < 10;) {
      ASSERT_TRUE(worker.Read(&message));
      ASSERT_NE(message.kind_case(), Kind::kLease) << "something was leased a second time";
      acknowledged += message.acknowledge().sequences_size();
    }
  }
  const v1::JobStatus last =
      WatchUntil(job, [](const v1::JobStatus& s) { return s.state() == v1::JOB_STATE_COMPLETED; });
  EXPECT_EQ(last.counts().succeeded(), 20);
}

// What arrived before the end is committed and acknowledged, though the coordinator is going.
TEST_F(CoordinatorTest, ShutdownCommitsWhatHasArrived) {
  const std::string job = SubmitJob(50);
  FakeWorker worker(channel_, "s1");
  ASSERT_TRUE(worker.Hello());
  ASSERT_TRUE(worker.Report(50));
  const std::vector<v1::LeasedRequest> leased = Lease(worker, 50);
  std::vector<v1::AttemptResult> results;
  for (const v1::LeasedRequest& request : leased) results.push_back(worker.Answer(request));
  ASSERT_TRUE(worker.Send(std::move(results)));
  int acknowledged = 0;
  std::thread reader([&] { acknowledged = worker.AwaitAcknowledged(50); });
  Stop();
  reader.join();
  Start();
  auto status = client_->GetJob(job);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_GE(status->counts().succeeded(), acknowledged) << "acknowledged, but not kept";
}

// Clients and workers that neither read nor write must not keep it from ending.
TEST_F(CoordinatorTest, ShutdownEndsInTimeWhateverHangs) {
  const std::string job = SubmitJob(2000);
  FakeWorker silent_worker(channel_, "s1");
  ASSERT_TRUE(silent_worker.Hello());
  ASSERT_TRUE(silent_worker.Report(1000));
  v1::WatchJobRequest watch_request;
  watch_request.set_job(job);
  const auto silent_watch = client_->Watch(watch_request);
  const auto silent_submission = client_->Submit({});
  v1::ReadOutputRequest output_request;
  output_request.set_job(job);
  output_request.set_kind(v1::ReadOutputRequest::ERRORS);
  output_request.set_follow(true);
  const auto silent_follower = client_->ReadOutput(output_request);
  ASSERT_TRUE(client_->GetJob(job).ok());

  const MonotonicTime before = Clock::Real().Now();
  coordinator_->Shutdown(absl::Milliseconds(500));
  EXPECT_LT(Clock::Real().Now() - before, absl::Seconds(5));
  EXPECT_TRUE(absl::IsUnavailable(client_->GetJob(job).status()));
  EXPECT_FALSE(silent_follower->Next().ok());
}

TEST_F(CoordinatorTest, ShutdownFromTwoThreadsIsOne) {
  std::thread other([&] { coordinator_->Shutdown(absl::Seconds(1)); });
  coordinator_->Shutdown(absl::Seconds(1));
  other.join();
}

}  // namespace
}  // namespace nightshift
