#include "coordinator/jobs/repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/jobs/audit.h"
#include "coordinator/jobs/recovery.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/record.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr JobNumber kJob = 1;

std::string Key(uint64_t index) { return RequestRowKey(kJob, index); }
std::string Base() { return ProgressKey(kJob, 0, 0); }

template <typename Message>
void Change(Store& store, Family family, const std::string& key,
            const std::function<void(Message&)>& change) {
  Message message;
  ASSERT_TRUE(DecodeRecord(key, *store.Get(family, key), &message).ok());
  change(message);
  WriteSet writes;
  writes.Put(family, key, EncodeRecord(key, message));
  ASSERT_TRUE(store.Commit(std::move(writes)).ok());
}

void Put(Store& store, Family family, const std::string& key, std::string value) {
  WriteSet writes;
  writes.Put(family, key, std::move(value));
  ASSERT_TRUE(store.Commit(std::move(writes)).ok());
}

void Delete(Store& store, Family family, const std::string& key) {
  WriteSet writes;
  writes.Delete(family, key);
  ASSERT_TRUE(store.Commit(std::move(writes)).ok());
}

void Flip(Store& store, Family family, const std::string& key) {
  std::string value = *store.Get(family, key);
  value.back() = static_cast<char>(value.back() ^ 4);
  Put(store, family, key, std::move(value));
}

// A job of 10: 0..4 succeeded, 5 rejected, 6 is being retried, the rest is pending; folded.
void MakeJob(Store& store) {
  JobWorld world(store);
  ASSERT_EQ(world.SubmitJob(10), kJob);
  ASSERT_EQ(world.Lease(10)->size(), 10u);
  ASSERT_TRUE(world.Answer({{kJob, 0}, {kJob, 1}, {kJob, 2}, {kJob, 3}, {kJob, 4}}).ok());
  ASSERT_TRUE(world
                  .Deliver({world.Result({kJob, 5}, v1::AttemptResult::REJECTED),
                            world.Result({kJob, 6}, v1::AttemptResult::RETRY)})
                  .ok());
}

std::string Findings(Store& store) {
  JobWorld world(store);
  return absl::StrJoin(AuditJob(store, world.dispatcher(), kJob).findings(), "\n");
}

struct Damage {
  const char* name;
  std::function<void(Store&)> make;
  const char* done;  // what the repair says
};

std::ostream& operator<<(std::ostream& out, const Damage& damage) { return out << damage.name; }

class RepairDamageTest : public testing::TestWithParam<Damage> {};

// All that only counts is made right, and the job ends with an outcome for each request.
TEST_P(RepairDamageTest, IsRepaired) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  MakeJob(*store);
  ASSERT_THAT(*RepairJobs(*store, ""), IsEmpty()) << "there was nothing to repair";
  GetParam().make(*store);
  const absl::StatusOr<std::vector<v1::JobRepair>> repairs = RepairJobs(*store, "");
  ASSERT_TRUE(repairs.ok()) << repairs.status();
  ASSERT_THAT(*repairs, SizeIs(1));
  EXPECT_THAT(absl::StrJoin(repairs->at(0).done(), "\n"), HasSubstr(GetParam().done));
  EXPECT_THAT(repairs->at(0).left(), IsEmpty());
  EXPECT_EQ(Findings(*store), "");
  EXPECT_THAT(*RepairJobs(*store, ""), IsEmpty()) << "it is repaired again";
  JobWorld world(*store);
  ASSERT_TRUE(world.FinishAll().ok());
  EXPECT_EQ(world.Status(kJob).counts().succeeded(), 9);
  EXPECT_EQ(world.Status(kJob).counts().failed(), 1);
  world.ExpectAuditAgrees(kJob);
}

const Damage kDamages[] = {
    {"BitMissing",
     [](Store& s) {
       Change<v1::ProgressBase>(s, Family::kProgress, Base(),
                                [](auto& b) { (*b.mutable_finished())[0] &= ~2; });
     },
     "6 requests are finished, 5 succeeded and 1 failed; it said 5"},
    {"BitTooMany",
     [](Store& s) {
       Change<v1::ProgressBase>(s, Family::kProgress, Base(),
                                [](auto& b) { (*b.mutable_finished())[0] |= '\x80'; });
     },
     "it said 7"},
    {"BitPastTheEnd",
     [](Store& s) {
       Change<v1::ProgressBase>(s, Family::kProgress, Base(),
                                [](auto& b) { b.mutable_finished()->append(1, '\x10'); });
     },
     "it could not be read"},
    {"BaseDamaged", [](Store& s) { Flip(s, Family::kProgress, Base()); }, "it could not be read"},
    {"BaseMissing", [](Store& s) { Delete(s, Family::kProgress, Base()); }, "it said 0"},
    {"DeltaCountsTwice",
     [](Store& s) {
       v1::ProgressDelta delta;
       delta.add_offsets(1);
       const std::string key = ProgressKey(kJob, 0, 5);
       Put(s, Family::kProgress, key, EncodeRecord(key, delta));
     },
     "finished already"},
    {"SumOfTokens",
     [](Store& s) {
       Change<v1::ProgressBase>(s, Family::kProgress, Base(),
                                [](auto& b) { b.mutable_sums()->set_completion_tokens(1); });
     },
     "chunk 0 counted anew"},
    {"ProgressPastTheEnd",
     [](Store& s) {
       const std::string key = ProgressKey(kJob, 1, 0);
       Put(s, Family::kProgress, key, EncodeRecord(key, v1::ProgressBase()));
     },
     "1 rows of progress and 0 of attempts past the job's 10 requests removed"},
    {"AttemptsPastTheEnd",
     [](Store& s) {
       Put(s, Family::kAttempts, Key(12), EncodeRecord(Key(12), v1::AttemptRecord()));
     },
     "0 rows of progress and 1 of attempts"},
    {"AttemptsOfAFinishedRequest",
     [](Store& s) { Put(s, Family::kAttempts, Key(1), EncodeRecord(Key(1), v1::AttemptRecord())); },
     "1 finished requests were still counted as being retried"},
    {"AttemptsDamaged", [](Store& s) { Flip(s, Family::kAttempts, Key(6)); },
     "the attempts of 1 unfinished requests could not be read"},
};

INSTANTIATE_TEST_SUITE_P(Kinds, RepairDamageTest, testing::ValuesIn(kDamages),
                         [](const auto& damage) { return std::string(damage.param.name); });

class RepairTest : public testing::Test {
 protected:
  RepairTest() { MakeJob(*store_); }

  std::string End(JobCommand::Kind kind) {
    JobWorld world(*store_);
    if (kind == JobCommand::Kind::kSeal) {
      EXPECT_TRUE(world.FinishAll().ok());
    } else {
      EXPECT_TRUE(world.Control(kJob, kind).ok());
    }
    return world.Status(kJob).id();
  }
  v1::JobRepair RepairOne(const std::string& job = "") {
    const absl::StatusOr<std::vector<v1::JobRepair>> repairs = RepairJobs(*store_, job);
    EXPECT_TRUE(repairs.ok()) << repairs.status();
    return repairs.ok() && repairs->size() == 1 ? repairs->at(0) : v1::JobRepair();
  }

  const std::unique_ptr<Store> store_ = NewMemoryStore();
};

TEST_F(RepairTest, RowsOfEndedJobsAreCountedAnew) {
  for (const JobCommand::Kind kind : {JobCommand::Kind::kExpire, JobCommand::Kind::kCancel}) {
    const std::unique_ptr<Store> store = NewMemoryStore();
    MakeJob(*store);
    {
      JobWorld world(*store);
      ASSERT_TRUE(world.Control(kJob, kind).ok());
    }
    ASSERT_EQ(Findings(*store), "");
    Change<v1::JobRecord>(*store, Family::kJobs, JobKey(kJob), [](auto& record) {
      record.mutable_final_sums()->set_succeeded(7);
      record.set_cancelled(1);
      record.set_expired(1);
    });
    ASSERT_NE(Findings(*store), "");
    const absl::StatusOr<std::vector<v1::JobRepair>> repairs = RepairJobs(*store, "");
    ASSERT_TRUE(repairs.ok()) << repairs.status();
    ASSERT_THAT(*repairs, SizeIs(1));
    EXPECT_THAT(repairs->at(0).done(0), HasSubstr("it said 7, 1, 1 and 1"));
    EXPECT_EQ(Findings(*store), "");
    JobWorld world(*store);
    const v1::Counts counts = world.Status(kJob).counts();
    EXPECT_EQ(kind == JobCommand::Kind::kExpire ? counts.expired() : counts.cancelled(), 4);
  }
}

// Its answer was paid for and may be there; nobody invents the outcome that is gone.
TEST_F(RepairTest, OutcomeThatIsLostIsRunAgain) {
  Delete(*store_, Family::kOutcomes, Key(2));
  EXPECT_THAT(RepairOne().done(0), HasSubstr("5 requests are finished, 4 succeeded"));
  EXPECT_EQ(Findings(*store_), "request 2 has an answer but no outcome");
  JobWorld world(*store_);
  ASSERT_TRUE(world.FinishAll().ok());
  EXPECT_EQ(world.Status(kJob).counts().succeeded(), 9);
  world.ExpectAuditAgrees(kJob);
}

TEST_F(RepairTest, ChunkWithAnOutcomeThatCannotBeReadIsLeftAlone) {
  Flip(*store_, Family::kOutcomes, Key(2));
  Change<v1::ProgressBase>(*store_, Family::kProgress, Base(),
                           [](auto& b) { b.mutable_sums()->set_succeeded(9); });
  const std::string before = *store_->Get(Family::kProgress, Base());
  const v1::JobRepair repair = RepairOne();
  EXPECT_THAT(repair.done(), IsEmpty());
  ASSERT_EQ(repair.left_size(), 1);
  EXPECT_THAT(repair.left(0),
              AllOf(HasSubstr("chunk 0 is left as it is"), HasSubstr("the outcome of request 2")));
  EXPECT_EQ(*store_->Get(Family::kProgress, Base()), before);
}

TEST_F(RepairTest, CompletedJobWithoutAnOutcomeIsNotCountedAway) {
  End(JobCommand::Kind::kSeal);
  Delete(*store_, Family::kOutcomes, Key(2));
  const v1::JobRepair repair = RepairOne();
  ASSERT_EQ(repair.left_size(), 1);
  EXPECT_THAT(repair.left(0), HasSubstr("1 requests have no outcome"));
  EXPECT_THAT(Findings(*store_), HasSubstr("the job is completed, but 1 requests have no outcome"));
}

TEST_F(RepairTest, OnlyTheJobThatIsNamed) {
  std::string other;
  {
    JobWorld world(*store_);
    const JobNumber job = world.SubmitJob(3);
    other = world.Status(job).id();
  }
  Delete(*store_, Family::kProgress, Base());
  EXPECT_THAT(*RepairJobs(*store_, other), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(RepairJobs(*store_, "job_zzzzzz").status()));
  EXPECT_EQ(RepairOne().done_size(), 1);
}

TEST_F(RepairTest, WorksWhereACoordinatorCannotStart) {
  Flip(*store_, Family::kProgress, Base());
  EXPECT_FALSE(LoadJobs(*store_).ok());
  EXPECT_EQ(RepairOne().done_size(), 1);
  EXPECT_TRUE(LoadJobs(*store_).ok());
}

TEST_F(RepairTest, DamagedJobRowIsSaid) {
  Flip(*store_, Family::kJobs, JobKey(kJob));
  EXPECT_TRUE(absl::IsDataLoss(RepairJobs(*store_, "").status()));
}

}  // namespace
}  // namespace nightshift
