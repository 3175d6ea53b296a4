// Power cuts at random moments under the coordinator's own writers: submissions and the committer
// on the store that people use. What anyone was told must be true afterwards, all counts must
// agree, and every job must still end.
//
// NIGHTSHIFT_POWER_CUTS (default 10) is how often, NIGHTSHIFT_SEED what replays a run (the work and
// the moments; not the threads).
#include <gtest/gtest.h>
#include <stdlib.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/jobs/reopen.h"
#include "storage/rocksdb_internal.h"
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

JobWorld::Options WorldOptions() {
  JobWorld::Options options;
  options.committer.deltas_per_chunk_max = 3;
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

 private:
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

  absl::Status Command(uint64_t dice) {
    const size_t at = random_.Below(jobs_.size());
    const JobNumber job = jobs_[at];
    if (dice < 5) return Tolerate(world_.Control(job, JobCommand::Kind::kPause));
    if (dice < 15) return Tolerate(world_.Control(job, JobCommand::Kind::kResume));
    if (dice < 18) return Tolerate(world_.Control(job, JobCommand::Kind::kCancel));
    if (dice < 24) {
      return Tolerate(ReopenJob(world_.store(), world_.committer(), world_.dispatcher(), job, {}));
    }
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

std::unique_ptr<Store> Open(const std::string& path, LossyDisk& disk) {
  RocksDbStoreOptions options;
  options.path = path;
  options.write_buffer_bytes = size_t{256} << 10;
  RocksDbDisk under;
  under.env = disk.env();
  absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksDbStoreOn(options, under);
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

}  // namespace
}  // namespace nightshift
