// Power cuts at random moments under the coordinator's own writers: submissions and the committer
// on the store that people use. What anyone was told must be true afterwards, all counts must
// agree, and every job must still end. Once at any moment of a day, and once in the middle of each
// thing that is written.
//
// NIGHTSHIFT_POWER_CUTS (default 10) is how often (in the second test: in all five together),
// NIGHTSHIFT_SEED what replays a run (the work and the moments; not the threads).
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/jobs/reopen.h"
#include "storage/backup.h"
#include "storage/rocksdb_internal.h"
#include "storage/schema.h"
#include "tests/coordinator/jobs/crash_scenario.h"
#include "tests/coordinator/jobs/job_world.h"
#include "tests/storage/lossy_disk.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

constexpr int kStepsMax = 60;
// About what it takes to make a store, and what a day takes that is not cut.
constexpr uint64_t kOperationsOfOpening = 150;
constexpr uint64_t kOperationsPerDay = 900;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  uint64_t value = 0;
  const char* const text = getenv(name);
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// With the power gone nobody hears an answer any more.
class PoweredStore final : public Store {
 public:
  PoweredStore(Store& inner, const LossyDisk& disk) : inner_(inner), disk_(disk) {}

  absl::Status Commit(WriteSet writes) override {
    RETURN_IF_ERROR(inner_.Commit(std::move(writes)));
    return Health();
  }
  absl::Status CheckRoom(size_t bytes) const override { return inner_.CheckRoom(bytes); }
  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const override {
    return inner_.Get(family, key);
  }
  std::unique_ptr<StoreIterator> Scan(Family family, absl::string_view begin, absl::string_view end,
                                      const ScanOptions& options = {}) const override {
    return inner_.Scan(family, begin, end, options);
  }
  absl::Status Health() const override {
    return disk_.off() ? absl::UnavailableError("the power has gone") : inner_.Health();
  }

 private:
  Store& inner_;
  const LossyDisk& disk_;
};

JobWorld::Options WorldOptions(int deltas_per_chunk_max = 3) {
  JobWorld::Options options;
  options.committer.deltas_per_chunk_max = deltas_per_chunk_max;
  return options;
}

// Whatever people and workers may do, in any order, until the power goes.
class Day {
 public:
  Day(JobWorld& world, uint64_t seed, Confirmed* confirmed)
      : world_(world), random_(seed), confirmed_(*confirmed) {}

  absl::Status Run() {
    for (int step = 0; step < kStepsMax; ++step) {
      const uint64_t dice = random_.Below(100);
      if (dice < 20 || jobs_.empty()) {
        RETURN_IF_ERROR(Submit());
      } else if (dice < 70) {
        RETURN_IF_ERROR(Answer());
      } else {
        RETURN_IF_ERROR(Command(dice - 70));
      }
    }
    world_.committer().Shutdown();
    return absl::OkStatus();
  }

  absl::Status Submit() {
    v1::SubmitRequests requests =
        JobWorld::Requests(0, static_cast<int64_t>(1 + random_.Below(40)));
    for (v1::SubmittedRequest& request : *requests.mutable_requests()) {
      // Bodies of all sizes, so that memory tables fill and are flushed.
      request.set_body(
          absl::StrCat(R"({"model":"m","x":")", std::string(random_.Below(4000), 'x'), R"("})"));
    }
    v1::SubmitBegin begin;
    begin.set_skip_bad_lines(random_.Chance(0.3));
    if (begin.skip_bad_lines()) {
      requests
          .mutable_requests(
              static_cast<int>(random_.Below(static_cast<uint64_t>(requests.requests_size()))))
          ->set_body("[]");
    }
    ASSIGN_OR_RETURN(const v1::SubmitReply reply, world_.Submit(std::move(requests), begin, ""));
    confirmed_.jobs.insert(reply.job().id());
    ASSIGN_OR_RETURN(const JobNumber job, world_.dispatcher().FindJob(reply.job().id()));
    jobs_.push_back(job);
    return absl::OkStatus();
  }

  absl::Status Answer() {
    world_.clock().Advance(absl::Hours(2));  // retries are due
    ASSIGN_OR_RETURN(const std::vector<RequestId> ids,
                     world_.Lease(static_cast<int64_t>(1 + random_.Below(30))));
    std::vector<v1::AttemptResult> results;
    std::vector<RequestId> answered;
    for (const RequestId& id : ids) {
      const uint64_t dice = random_.Below(10);
      const v1::AttemptResult::Kind kind = dice == 0   ? v1::AttemptResult::REJECTED
                                           : dice == 1 ? v1::AttemptResult::RETRY
                                                       : v1::AttemptResult::ANSWERED;
      results.push_back(world_.Result(id, kind));
      if (kind == v1::AttemptResult::ANSWERED) answered.push_back(id);
    }
    RETURN_IF_ERROR(world_.Deliver(std::move(results)));
    confirmed_.answered.insert(answered.begin(), answered.end());
    return absl::OkStatus();
  }

  // Ends a job, so that it can be deleted.
  absl::Status Cancel() {
    return Tolerate(world_.Control(jobs_.back(), JobCommand::Kind::kCancel));
  }

  absl::Status Delete() { return DeleteAt(random_.Below(jobs_.size())); }

  bool has_jobs() const { return !jobs_.empty(); }

 private:
  absl::Status Command(uint64_t dice) {
    const size_t at = random_.Below(jobs_.size());
    const JobNumber job = jobs_[at];
    if (dice < 5) return Tolerate(world_.Control(job, JobCommand::Kind::kPause));
    if (dice < 15) return Tolerate(world_.Control(job, JobCommand::Kind::kResume));
    if (dice < 18) return Tolerate(world_.Control(job, JobCommand::Kind::kCancel));
    if (dice < 24) {
      return Tolerate(ReopenJob(world_.store(), world_.committer(), world_.dispatcher(), job, {}));
    }
    return DeleteAt(at);
  }

  absl::Status DeleteAt(size_t at) {
    const JobNumber job = jobs_[at];
    const std::string id = world_.Status(job).id();
    confirmed_.maybe_gone.insert(id);
    const absl::Status status = world_.Control(job, JobCommand::Kind::kDelete);
    if (status.ok()) {
      confirmed_.gone.insert(id);
      jobs_.erase(jobs_.begin() + static_cast<ptrdiff_t>(at));
    } else if (absl::IsFailedPrecondition(status)) {
      confirmed_.maybe_gone.erase(id);  // refused: it has not ended
    }
    return Tolerate(status);
  }

  // A command may be refused in the state that the job is in.
  static absl::Status Tolerate(const absl::Status& status) {
    return absl::IsFailedPrecondition(status) ? absl::OkStatus() : status;
  }

  JobWorld& world_;
  Random random_;
  Confirmed& confirmed_;
  std::vector<JobNumber> jobs_;
};

std::unique_ptr<DiskStore> Open(const std::string& path, LossyDisk& disk) {
  RocksDbStoreOptions options;
  options.path = path;
  options.write_buffer_bytes = size_t{256} << 10;
  RocksDbDisk under;
  under.env = disk.env();
  absl::StatusOr<std::unique_ptr<DiskStore>> store = OpenRocksDbStoreOn(options, under);
  NIGHTSHIFT_CHECK(store.ok(), store.status().ToString());
  return *std::move(store);
}

TEST(PowerCutTest, WhatAnyoneWasToldIsTrueAfterwards) {
  const uint64_t seed = FromEnvironment("NIGHTSHIFT_SEED", Random::FromSystem().Next() >> 32);
  const auto cuts = static_cast<int>(FromEnvironment("NIGHTSHIFT_POWER_CUTS", 10));
  Random random(seed);
  size_t jobs = 0;
  size_t answered = 0;
  for (int cut = 0; cut < cuts && !testing::Test::HasFailure(); ++cut) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", cut " << cut);
    const TempFolder folder;
    LossyDiskOptions options;
    options.seed = random.Next();
    // Not while a new store is being made: that is cut by the store's own test.
    options.cut_at = static_cast<int64_t>(kOperationsOfOpening + random.Below(kOperationsPerDay));
    Confirmed confirmed;
    LossyDisk disk(folder.path(), options);
    {
      const std::unique_ptr<Store> store = Open(folder.path(), disk);
      PoweredStore powered(*store, disk);
      JobWorld world(powered, WorldOptions());
      const absl::Status status = Day(world, random.Next(), &confirmed).Run();
      ASSERT_TRUE(status.ok() || disk.off()) << status;
      disk.Cut();
      world.committer().Shutdown();
    }
    jobs += confirmed.jobs.size();
    answered += confirmed.answered.size();
    disk.Restore();
    LossyDisk after(folder.path(), LossyDiskOptions());
    const std::unique_ptr<Store> store = Open(folder.path(), after);
    CheckAfterCrash(*store, confirmed);
  }
  std::cout << "seed " << seed << ": " << cuts << " cuts, " << jobs << " jobs and " << answered
            << " answers confirmed\n";
  EXPECT_GT(answered, static_cast<size_t>(cuts)) << "hardly anything was at stake";
}

// What is being written when the power goes.
enum class Phase { kSubmit, kCommit, kFold, kBackup, kDelete };

const char* NameOf(Phase phase) {
  switch (phase) {
    case Phase::kSubmit:
      return "Submit";
    case Phase::kCommit:
      return "Commit";
    case Phase::kFold:
      return "Fold";
    case Phase::kBackup:
      return "Backup";
    case Phase::kDelete:
      return "Delete";
  }
  return "";
}

constexpr int kJobsBefore = 12;

class PowerCutPhaseTest : public testing::TestWithParam<Phase> {
 protected:
  // About what one such write takes.
  uint64_t Operations() const {
    switch (GetParam()) {
      case Phase::kSubmit:
        return 12;
      case Phase::kBackup:
        return 110;
      default:
        return 8;
    }
  }
  // Folds are part of the commits that would add one delta too many.
  int DeltasMax() const { return GetParam() == Phase::kFold ? 1 : 1000; }

  absl::Status Prepare(Day& day) {
    for (int i = 0; i < kJobsBefore; ++i) {
      RETURN_IF_ERROR(day.Submit());
      if (GetParam() == Phase::kDelete) RETURN_IF_ERROR(day.Cancel());
    }
    return day.Answer();
  }

  // Again and again, until the power goes or there is nothing left to do.
  absl::Status Write(Day& day, DiskStore& store, const LossyDisk& disk) {
    for (int i = 0; i < kStepsMax && !disk.off() && day.has_jobs(); ++i) {
      switch (GetParam()) {
        case Phase::kSubmit:
          RETURN_IF_ERROR(day.Submit());
          break;
        case Phase::kCommit:
        case Phase::kFold:
          RETURN_IF_ERROR(day.Answer());
          break;
        case Phase::kBackup:
          RETURN_IF_ERROR(Backup(day, store, disk));
          break;
        case Phase::kDelete:
          RETURN_IF_ERROR(day.Delete());
          break;
      }
    }
    return absl::OkStatus();
  }

  // Work goes on beside it.
  absl::Status Backup(Day& day, DiskStore& store, const LossyDisk& disk) {
    const Confirmed before = confirmed_;
    absl::StatusOr<StoreBackup> made;
    std::thread making([&] {
      BackupOptions options;
      options.folder = folder_ / "backups";
      made = store.CreateBackup(options);
    });
    const absl::Status answered = day.Answer();
    making.join();
    RETURN_IF_ERROR(answered);
    if (disk.off()) return absl::OkStatus();
    RETURN_IF_ERROR(made.status());
    at_backup_ = before;
    return absl::OkStatus();
  }

  void CheckNewestBackup() {
    const absl::StatusOr<StoreBackup> restored =
        RestoreBackup(folder_ / "backups", 0, folder_ / "restored");
    if (absl::IsNotFound(restored.status()) && !at_backup_.has_value()) return;
    ASSERT_TRUE(restored.ok()) << restored.status();
    LossyDisk disk(folder_.path(), LossyDiskOptions());
    const std::unique_ptr<Store> store = Open(folder_ / "restored", disk);
    // One that was not confirmed has at least what was before it.
    CheckAfterCrash(*store, at_backup_.value_or(Confirmed()));
  }

  const TempFolder folder_;
  Confirmed confirmed_;
  std::optional<Confirmed> at_backup_;  // what was confirmed before the newest confirmed backup
};

TEST_P(PowerCutPhaseTest, IsCutAnywhereAndLosesNothing) {
  const uint64_t seed = FromEnvironment("NIGHTSHIFT_SEED", Random::FromSystem().Next() >> 32);
  const auto cuts = static_cast<int>((FromEnvironment("NIGHTSHIFT_POWER_CUTS", 10) + 4) / 5);
  Random random(seed);
  for (int cut = 0; cut < cuts && !testing::Test::HasFailure(); ++cut) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", cut " << cut);
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
    confirmed_ = Confirmed();
    at_backup_.reset();
    LossyDiskOptions options;
    options.seed = random.Next();
    LossyDisk disk(folder_.path(), options);
    {
      const std::unique_ptr<DiskStore> store = Open(folder_ / "store", disk);
      ASSERT_TRUE(PrepareSchema(*store).ok());
      PoweredStore powered(*store, disk);
      JobWorld world(powered, WorldOptions(DeltasMax()));
      Day day(world, random.Next(), &confirmed_);
      ASSERT_TRUE(Prepare(day).ok());
      disk.CutIn(static_cast<int64_t>(1 + random.Below(Operations())));
      const absl::Status status = Write(day, *store, disk);
      ASSERT_TRUE(status.ok() || disk.off()) << status;
      disk.Cut();
      world.committer().Shutdown();
    }
    disk.Restore();
    {
      LossyDisk after(folder_.path(), LossyDiskOptions());
      const std::unique_ptr<Store> store = Open(folder_ / "store", after);
      CheckAfterCrash(*store, confirmed_);
    }
    if (GetParam() == Phase::kBackup) CheckNewestBackup();
  }
  std::cout << "seed " << seed << ": " << cuts << " cuts\n";
}

INSTANTIATE_TEST_SUITE_P(Phases, PowerCutPhaseTest,
                         testing::Values(Phase::kSubmit, Phase::kCommit, Phase::kFold,
                                         Phase::kBackup, Phase::kDelete),
                         [](const auto& phase) { return std::string(NameOf(phase.param)); });

}  // namespace
}  // namespace nightshift
