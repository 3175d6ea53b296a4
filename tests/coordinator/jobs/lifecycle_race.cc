#include "tests/coordinator/jobs/lifecycle_race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/core/job_state.h"
#include "coordinator/jobs/reopen.h"
#include "storage/keys.h"
#include "storage/record.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

using Kind = JobCommand::Kind;

// Watches what becomes durable: a job that has ended may change only into its next run, and one
// that is being cancelled only into one that is cancelled.
class EndingsStore final : public Store {
 public:
  explicit EndingsStore(Store& inner) : inner_(inner) {}

  absl::Status Commit(WriteSet writes) override {
    for (const WriteSet::Write& write : writes.writes()) {
      if (write.family != Family::kJobs) continue;
      MutexLock lock(&mutex_);
      const auto before = rows_.find(write.key);
      if (write.kind != WriteSet::Write::Kind::kPut) {
        if (before != rows_.end()) rows_.erase(before);
        continue;
      }
      v1::JobRecord now;
      EXPECT_TRUE(DecodeRecord(write.key, write.value, &now).ok());
      if (before != rows_.end() && JobHasEnded(before->second.state())) {
        EXPECT_GT(now.run(), before->second.run())
            << now.id() << " was " << JobStateInfo(before->second.state()).word << " and becomes "
            << JobStateInfo(now.state()).word;
      }
      if (before != rows_.end() && before->second.state() == v1::JOB_STATE_CANCELLING) {
        EXPECT_TRUE(now.state() == v1::JOB_STATE_CANCELLING ||
                    now.state() == v1::JOB_STATE_CANCELLED)
            << now.id() << " was cancelling and becomes " << JobStateInfo(now.state()).word;
      }
      if (JobHasEnded(now.state())) ++endings_[std::string(JobStateInfo(now.state()).word)];
      rows_[write.key] = std::move(now);
    }
    return inner_.Commit(std::move(writes));
  }
  absl::Status CheckRoom(size_t bytes) const override { return inner_.CheckRoom(bytes); }
  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const override {
    return inner_.Get(family, key);
  }
  std::unique_ptr<StoreIterator> Scan(Family family, absl::string_view begin, absl::string_view end,
                                      const ScanOptions& options) const override {
    return inner_.Scan(family, begin, end, options);
  }
  absl::Status Health() const override { return inner_.Health(); }

  std::map<std::string, int> endings() const {
    MutexLock lock(&mutex_);
    return endings_;
  }

 private:
  Store& inner_;
  mutable Mutex mutex_;
  std::map<std::string, v1::JobRecord> rows_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> endings_ ABSL_GUARDED_BY(mutex_);
};

class Race {
 public:
  Race(EndingsStore& store, JobWorld& world, uint64_t seed)
      : store_(store), world_(world), random_(seed) {}

  void Run() {
    const auto total = 1 + static_cast<int64_t>(random_.Below(25));
    v1::JobOptions options;
    if (random_.Chance(0.1)) options.set_stop_on_error_rate(0.3);
    if (random_.Chance(0.1)) options.set_budget_tokens(15 * total / 2 + 1);
    job_ = world_.SubmitJob(total, options);
    const auto leased = world_.Lease(total);
    ASSERT_TRUE(leased.ok()) << leased.status();
    ASSERT_EQ(static_cast<int64_t>(leased->size()), total);
    const auto last = 1 + random_.Below(std::min<uint64_t>(3, leased->size()));
    const std::vector<RequestId> first(leased->begin(), leased->end() - last);
    // These are on the disk, whatever happens next.
    ASSERT_TRUE(Deliver(first).ok());
    const std::set<std::string> safe = answered_;
    AllAtOnce({leased->end() - last, leased->end()});
    Finish();
    if (deleted_) {
      CheckNothingIsLeft();
    } else {
      CheckFiles(total, safe);
    }
  }

  bool deleted() const { return deleted_; }

 private:
  absl::Status Deliver(const std::vector<RequestId>& ids) {
    std::vector<v1::AttemptResult> results;
    for (const RequestId& id : ids) {
      const bool answered = random_.Chance(0.8);
      results.push_back(
          world_.Result(id, answered ? v1::AttemptResult::ANSWERED : v1::AttemptResult::REJECTED));
      if (answered) answered_.insert(absl::StrCat("r-", id.index));
    }
    return results.empty() ? absl::OkStatus() : world_.Deliver(std::move(results));
  }

  // The state may forbid a command; it never fails in another way.
  void Do(int what) {
    absl::Status status;
    switch (what) {
      case 0:
      case 1:
        status = world_.Control(job_, Kind::kCancel);
        break;
      case 2:
      case 3:
        status = world_.Control(job_, Kind::kPause);
        break;
      case 4:
      case 5:
        status = world_.Control(job_, Kind::kResume);
        break;
      case 6:
        status = world_.Control(job_, Kind::kExpire);
        break;
      case 7:
        status = world_.Control(job_, Kind::kStop);
        break;
      case 8:
      case 9:
        status = ReopenJob(store_, world_.committer(), world_.dispatcher(), job_, {});
        break;
      default:
        status = world_.Control(job_, Kind::kDelete);
        break;
    }
    EXPECT_TRUE(status.ok() || absl::IsFailedPrecondition(status) || absl::IsAborted(status) ||
                absl::IsNotFound(status))
        << status;
  }

  void AllAtOnce(const std::vector<RequestId>& last) {
    std::vector<std::vector<int>> commands(3);
    for (std::vector<int>& list : commands) {
      for (uint64_t n = 1 + random_.Below(3); n > 0; --n) {
        list.push_back(static_cast<int>(random_.Below(11)));
      }
    }
    std::atomic<int> ready{0};
    const int all = static_cast<int>(commands.size()) + 1;
    const auto wait_for_all = [&ready, all] {
      ++ready;
      while (ready < all) std::this_thread::yield();
    };
    std::vector<std::thread> people;
    people.reserve(commands.size());
    for (const std::vector<int>& list : commands) {
      people.emplace_back([&, list] {
        wait_for_all();
        for (const int what : list) Do(what);
      });
    }
    wait_for_all();
    EXPECT_TRUE(Deliver(last).ok());
    for (std::thread& person : people) person.join();
  }

  // Whatever the race has left undone.
  void Finish() {
    for (int i = 0; i < 100; ++i) {
      const auto status = world_.dispatcher().GetStatus(job_, world_.clock().Now());
      if (!status.ok()) {
        EXPECT_TRUE(absl::IsNotFound(status.status())) << status.status();
        deleted_ = true;
        return;
      }
      if (JobHasEnded(status->state())) return;
      if (status->state() == v1::JOB_STATE_PAUSED) {
        // A spent budget is a promise: such a job can only be cancelled.
        if (!world_.Control(job_, Kind::kResume).ok()) Do(0);
      } else if (status->state() == v1::JOB_STATE_CANCELLING) {
        std::this_thread::yield();
        --i;
      } else {
        world_.clock().Advance(absl::Hours(2));
        const auto leased = world_.Lease(1 << 20);
        ASSERT_TRUE(leased.ok()) << leased.status();
        ASSERT_TRUE(Deliver(*leased).ok());
      }
    }
    ADD_FAILURE() << "the job does not end: " << world_.Status(job_).ShortDebugString();
  }

  void CheckNothingIsLeft() {
    for (const Family family : kJobRowFamilies) {
      const auto row = store_.Scan(family, JobKey(job_), JobKey(job_ + 1), {});
      EXPECT_FALSE(row->Valid()) << "a deleted job has rows in " << FamilyName(family);
    }
    EXPECT_TRUE(absl::IsNotFound(store_.Get(Family::kJobs, JobKey(job_)).status()));
  }

  std::set<std::string> IdsOf(v1::ReadOutputRequest::Kind kind) {
    std::set<std::string> ids;
    for (const std::string& line : world_.Lines(job_, kind)) {
      const auto found = line.find("\"custom_id\":\"");
      const std::string id = line.substr(found + 13, line.find('"', found + 13) - found - 13);
      EXPECT_TRUE(ids.insert(id).second) << id << " is in the file twice";
    }
    return ids;
  }

  void CheckFiles(int64_t total, const std::set<std::string>& safe) {
    world_.ExpectAuditAgrees(job_);
    const v1::Counts counts = world_.Status(job_).counts();
    EXPECT_EQ(counts.succeeded() + counts.failed() + counts.cancelled() + counts.expired(), total);
    EXPECT_EQ(counts.pending() + counts.in_flight() + counts.retrying(), 0);
    const std::set<std::string> results = IdsOf(v1::ReadOutputRequest::RESULTS);
    const std::set<std::string> errors = IdsOf(v1::ReadOutputRequest::ERRORS);
    EXPECT_EQ(static_cast<int64_t>(results.size()), counts.succeeded());
    EXPECT_EQ(static_cast<int64_t>(errors.size()), total - counts.succeeded());
    for (const std::string& id : results) {
      EXPECT_EQ(errors.count(id), 0u) << id << " is in both files";
      EXPECT_EQ(answered_.count(id), 1u) << id << " succeeded without an answer";
    }
    for (const std::string& id : safe) {
      EXPECT_EQ(results.count(id), 1u) << "the answer of " << id << " was confirmed and is lost";
    }
  }

  EndingsStore& store_;
  JobWorld& world_;
  Random random_;
  JobNumber job_ = 0;
  std::set<std::string> answered_;
  bool deleted_ = false;
};

}  // namespace

std::map<std::string, int> RaceLifecycles(Store& store, int rounds) {
  SetLogLevel(LogLevel::kOff);
  EndingsStore watched(store);
  int deleted = 0;
  {
    JobWorld world(watched);
    uint64_t first = 0;
    const char* given = std::getenv("NIGHTSHIFT_SEED");
    if (given == nullptr || !absl::SimpleAtoi(given, &first)) first = Random::FromSystem().Next();
    for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
      const uint64_t seed = first + static_cast<uint64_t>(round);
      SCOPED_TRACE(absl::StrCat("NIGHTSHIFT_SEED=", seed));
      Race race(watched, world, seed);
      race.Run();
      if (race.deleted()) ++deleted;
    }
    world.dispatcher().CheckConsistent();
  }
  SetLogLevel(LogLevel::kInfo);
  std::map<std::string, int> endings = watched.endings();
  endings["deleted"] = deleted;
  return endings;
}

}  // namespace nightshift
