#include "coordinator/jobs/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/record.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

using ::testing::HasSubstr;

constexpr JobNumber kJob = 1;

// One kind of damage to the rows of a job, and the words it must be found with.
struct Damage {
  const char* name;
  std::function<void(Store&, WriteSet&)> make;
  const char* finding;
};

std::ostream& operator<<(std::ostream& out, const Damage& damage) { return out << damage.name; }

template <typename Message>
void Change(Store& store, WriteSet& writes, Family family, const std::string& key,
            const std::function<void(Message&)>& change) {
  Message message;
  ASSERT_TRUE(DecodeRecord(key, *store.Get(family, key), &message).ok());
  change(message);
  writes.Put(family, key, EncodeRecord(key, message));
}

void Flip(Store& store, WriteSet& writes, Family family, const std::string& key) {
  std::string value = *store.Get(family, key);
  value.back() = static_cast<char>(value.back() ^ 4);
  writes.Put(family, key, value);
}

std::string Key(uint64_t index) { return RequestRowKey(kJob, index); }

// A job of 10: 0..4 succeeded, 5 rejected with a body, 6 is being retried, the rest is pending.
void MakeRunningJob(JobWorld& world) {
  ASSERT_EQ(world.SubmitJob(10), kJob);
  ASSERT_EQ(world.Lease(10)->size(), 10u);
  ASSERT_TRUE(world.Answer({{kJob, 0}, {kJob, 1}, {kJob, 2}, {kJob, 3}, {kJob, 4}}).ok());
  ASSERT_TRUE(world
                  .Deliver({world.Result({kJob, 5}, v1::AttemptResult::REJECTED),
                            world.Result({kJob, 6}, v1::AttemptResult::RETRY)})
                  .ok());
}

class AuditDamageTest : public testing::TestWithParam<Damage> {};

TEST_P(AuditDamageTest, IsFound) {
  const std::unique_ptr<Store> store = NewMemoryStore();
  {
    // Folded at its end, so that there is a base row.
    JobWorld world(*store);
    MakeRunningJob(world);
  }
  JobWorld world(*store);
  const v1::JobAudit before = AuditJob(*store, world.dispatcher(), kJob);
  ASSERT_TRUE(before.agrees()) << absl::StrJoin(before.findings(), "\n");
  WriteSet writes;
  GetParam().make(*store, writes);
  ASSERT_TRUE(store->Commit(std::move(writes)).ok());
  const v1::JobAudit after = AuditJob(*store, world.dispatcher(), kJob);
  EXPECT_FALSE(after.agrees());
  EXPECT_THAT(absl::StrJoin(after.findings(), "\n"), HasSubstr(GetParam().finding));
}

const Damage kDamages[] = {
    {"RequestRowMissing", [](Store&, WriteSet& w) { w.Delete(Family::kRequests, Key(8)); },
     "request 8 has no row"},
    {"RequestRowDamaged", [](Store& s, WriteSet& w) { Flip(s, w, Family::kRequests, Key(8)); },
     "request 8: "},
    {"RequestRowUnderAnotherKey",
     [](Store& s, WriteSet& w) {
       w.Put(Family::kRequests, Key(8), *s.Get(Family::kRequests, Key(7)));
     },
     "checksum"},
    {"RequestRowPastTheEnd",
     [](Store&, WriteSet& w) {
       w.Put(Family::kRequests, Key(10), EncodeRecord(Key(10), v1::RequestRecord()));
     },
     "has a row for request 10"},
    {"RequestWithoutBody",
     [](Store& s, WriteSet& w) {
       Change<v1::RequestRecord>(s, w, Family::kRequests, Key(8), [](auto& r) { r.clear_body(); });
     },
     "request 8 has no body"},
    {"RequestWithoutEndpoint",
     [](Store& s, WriteSet& w) {
       Change<v1::RequestRecord>(s, w, Family::kRequests, Key(8),
                                 [](auto& r) { r.clear_endpoint(); });
     },
     "request 8 has no endpoint"},
    {"RequestWithoutCustomId",
     [](Store& s, WriteSet& w) {
       Change<v1::RequestRecord>(s, w, Family::kRequests, Key(8),
                                 [](auto& r) { r.clear_custom_id(); });
     },
     "request 8 has no custom_id"},
    {"OutcomeMissing", [](Store&, WriteSet& w) { w.Delete(Family::kOutcomes, Key(2)); },
     "request 2 is marked as finished but has no outcome"},
    {"OutcomeDamaged", [](Store& s, WriteSet& w) { Flip(s, w, Family::kOutcomes, Key(2)); },
     "the outcome of request 2"},
    {"OutcomeWithoutBit",
     [](Store& s, WriteSet& w) {
       v1::OutcomeRecord outcome;
       ASSERT_TRUE(DecodeRecord(Key(2), *s.Get(Family::kOutcomes, Key(2)), &outcome).ok());
       outcome.set_body_size(0);
       w.Put(Family::kOutcomes, Key(9), EncodeRecord(Key(9), outcome));
     },
     "request 9 has an outcome but is not marked as finished"},
    {"OutcomeOfUnknownKind",
     [](Store& s, WriteSet& w) {
       Change<v1::OutcomeRecord>(s, w, Family::kOutcomes, Key(2),
                                 [](auto& o) { o.set_kind(v1::OUTCOME_UNSPECIFIED); });
     },
     "request 2 has an outcome of an unknown kind"},
    {"OutcomeSaysUnusableLine",
     [](Store& s, WriteSet& w) {
       Change<v1::OutcomeRecord>(s, w, Family::kOutcomes, Key(5),
                                 [](auto& o) { o.set_error_code("invalid_request_line"); });
     },
     "request 5 is said to be an input line that cannot be used"},
    {"UnusableLineWithAnotherOutcome",
     [](Store& s, WriteSet& w) {
       Change<v1::RequestRecord>(s, w, Family::kRequests, Key(2),
                                 [](auto& r) { r.set_invalid_reason("bad"); });
     },
     "request 2 is an input line that cannot be used, but its outcome is another"},
    {"UnusableLineWithoutOutcome",
     [](Store& s, WriteSet& w) {
       Change<v1::RequestRecord>(s, w, Family::kRequests, Key(8),
                                 [](auto& r) { r.set_invalid_reason("bad"); });
     },
     "request 8 is an input line that cannot be used, but has no outcome"},
    {"OutcomePastTheEnd",
     [](Store&, WriteSet& w) {
       w.Put(Family::kOutcomes, Key(11), EncodeRecord(Key(11), v1::OutcomeRecord()));
     },
     "family outcomes has a row for request 11"},
    {"AnswerMissing", [](Store&, WriteSet& w) { w.Delete(Family::kResponses, Key(3)); },
     "request 3 has an outcome with an answer of"},
    {"AnswerDamaged", [](Store& s, WriteSet& w) { Flip(s, w, Family::kResponses, Key(3)); },
     "the answer of request 3"},
    {"AnswerOfAnotherSize",
     [](Store&, WriteSet& w) { w.Put(Family::kResponses, Key(3), EncodeBytes(Key(3), "{}")); },
     "request 3 has an answer of 2 bytes where its outcome says"},
    {"AnswerWithoutOutcome",
     [](Store&, WriteSet& w) { w.Put(Family::kResponses, Key(9), EncodeBytes(Key(9), "{}")); },
     "request 9 has an answer but no outcome"},
    {"AnswerNobodyMentions",
     [](Store& s, WriteSet& w) {
       Change<v1::OutcomeRecord>(s, w, Family::kOutcomes, Key(3),
                                 [](auto& o) { o.set_body_size(0); });
     },
     "request 3 has an answer although its outcome has none"},
    {"AnswerPastTheEnd",
     [](Store&, WriteSet& w) { w.Put(Family::kResponses, Key(10), EncodeBytes(Key(10), "{}")); },
     "family responses has a row for request 10"},
    {"BitMissing",
     [](Store& s, WriteSet& w) {
       Change<v1::ProgressBase>(s, w, Family::kProgress, ProgressKey(kJob, 0, 0),
                                [](auto& b) { (*b.mutable_finished())[0] &= ~2; });
     },
     "request 1 has an outcome but is not marked as finished"},
    {"BitTooMany",
     [](Store& s, WriteSet& w) {
       Change<v1::ProgressBase>(s, w, Family::kProgress, ProgressKey(kJob, 0, 0),
                                [](auto& b) { (*b.mutable_finished())[0] |= '\x80'; });
     },
     "request 7 is marked as finished but has no outcome"},
    {"BitPastTheEnd",
     [](Store& s, WriteSet& w) {
       Change<v1::ProgressBase>(s, w, Family::kProgress, ProgressKey(kJob, 0, 0),
                                [](auto& b) { b.mutable_finished()->append(1, '\x10'); });
     },
     "past the end of the job"},
    {"ProgressDamaged",
     [](Store& s, WriteSet& w) { Flip(s, w, Family::kProgress, ProgressKey(kJob, 0, 0)); },
     "progress: "},
    {"ProgressMissing",
     [](Store&, WriteSet& w) { w.Delete(Family::kProgress, ProgressKey(kJob, 0, 0)); },
     "in the coordinator's memory, but not in its store"},
    {"DeltaCountsTwice",
     [](Store&, WriteSet& w) {
       v1::ProgressDelta delta;
       delta.add_offsets(1);
       const std::string key = ProgressKey(kJob, 0, 5);
       w.Put(Family::kProgress, key, EncodeRecord(key, delta));
     },
     "finished already"},
    {"ProgressPastTheEnd",
     [](Store&, WriteSet& w) {
       const std::string key = ProgressKey(kJob, 1, 0);
       w.Put(Family::kProgress, key, EncodeRecord(key, v1::ProgressBase()));
     },
     "progress has a row past the end"},
    {"SumOfSuccesses",
     [](Store& s, WriteSet& w) {
       Change<v1::ProgressBase>(s, w, Family::kProgress, ProgressKey(kJob, 0, 0),
                                [](auto& b) { b.mutable_sums()->set_succeeded(6); });
     },
     "the sums kept (6 succeeded"},
    {"SumOfTokens",
     [](Store& s, WriteSet& w) {
       Change<v1::ProgressBase>(s, w, Family::kProgress, ProgressKey(kJob, 0, 0),
                                [](auto& b) { b.mutable_sums()->set_completion_tokens(1); });
     },
     "are not those of its outcomes"},
    {"SumOfClasses",
     [](Store& s, WriteSet& w) {
       Change<v1::ProgressBase>(s, w, Family::kProgress, ProgressKey(kJob, 0, 0), [](auto& b) {
         (*b.mutable_sums()->mutable_failed_by_class())[v1::ERROR_CLASS_AUTH] = 1;
       });
     },
     "2 with a class"},
    {"SumOfCost",
     [](Store& s, WriteSet& w) {
       Change<v1::ProgressBase>(s, w, Family::kProgress, ProgressKey(kJob, 0, 0),
                                [](auto& b) { b.mutable_sums()->set_cost_usd(3); });
     },
     "$3"},
    {"AttemptsOfAFinishedRequest",
     [](Store&, WriteSet& w) {
       w.Put(Family::kAttempts, Key(1), EncodeRecord(Key(1), v1::AttemptRecord()));
     },
     "request 1 has its outcome but is still counted as being retried"},
    {"AttemptsDamaged", [](Store& s, WriteSet& w) { Flip(s, w, Family::kAttempts, Key(6)); },
     "the attempts of request 6"},
    {"AttemptsPastTheEnd",
     [](Store&, WriteSet& w) {
       w.Put(Family::kAttempts, Key(12), EncodeRecord(Key(12), v1::AttemptRecord()));
     },
     "family attempts has a row for request 12"},
    {"JobRowDamaged", [](Store& s, WriteSet& w) { Flip(s, w, Family::kJobs, JobKey(kJob)); },
     "the job's row"},
    {"JobRowMissing", [](Store&, WriteSet& w) { w.Delete(Family::kJobs, JobKey(kJob)); },
     "the job's row"},
    {"EventDamaged",
     [](Store&, WriteSet& w) { w.Put(Family::kEvents, EventKey(kJob, 1), "12345678x"); },
     "events: "},
    {"KeyOfAnotherLength",
     [](Store&, WriteSet& w) { w.Put(Family::kOutcomes, Key(9) + "x", "1234567890"); },
     "key has another length"},
};

INSTANTIATE_TEST_SUITE_P(Kinds, AuditDamageTest, testing::ValuesIn(kDamages),
                         [](const auto& damage) { return std::string(damage.param.name); });

class AuditTest : public testing::Test {
 protected:
  std::unique_ptr<Store> store_ = NewMemoryStore();
  std::unique_ptr<JobWorld> world_ = std::make_unique<JobWorld>(*store_);

  void ChangeJobRow(const std::function<void(v1::JobRecord&)>& change) {
    WriteSet writes;
    Change<v1::JobRecord>(*store_, writes, Family::kJobs, JobKey(kJob), change);
    ASSERT_TRUE(store_->Commit(std::move(writes)).ok());
  }
  std::string Findings() {
    const v1::JobAudit audit = AuditJob(*store_, world_->dispatcher(), kJob);
    EXPECT_EQ(audit.agrees(), audit.findings().empty());
    return absl::StrJoin(audit.findings(), "\n");
  }
};

TEST_F(AuditTest, CountsAreThoseOfTheRows) {
  MakeRunningJob(*world_);
  const v1::JobAudit audit = AuditJob(*store_, world_->dispatcher(), kJob);
  EXPECT_TRUE(audit.agrees());
  EXPECT_EQ(audit.id(), world_->Status(kJob).id());
  EXPECT_EQ(audit.counts().total(), 10);
  EXPECT_EQ(audit.counts().succeeded(), 5);
  EXPECT_EQ(audit.counts().failed(), 1);
  EXPECT_EQ(audit.counts().pending(), 4);
}

TEST_F(AuditTest, RowOfAnEndedJobIsCompared) {
  MakeRunningJob(*world_);
  ASSERT_TRUE(world_->Answer({{kJob, 7}, {kJob, 8}, {kJob, 9}}).ok());
  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_EQ(Findings(), "");
  ChangeJobRow([](v1::JobRecord& record) { record.mutable_final_sums()->set_succeeded(7); });
  EXPECT_THAT(Findings(), HasSubstr("the job's row says 7 succeeded"));
  ChangeJobRow([](v1::JobRecord& record) {
    record.mutable_final_sums()->set_succeeded(9);
    record.set_cancelled(1);
  });
  EXPECT_THAT(Findings(), HasSubstr("the job's row says 1 cancelled"));
}

TEST_F(AuditTest, CompletedJobHasEveryOutcome) {
  MakeRunningJob(*world_);
  ASSERT_TRUE(world_->Control(kJob, JobCommand::Kind::kExpire).ok());
  const v1::JobAudit audit = AuditJob(*store_, world_->dispatcher(), kJob);
  EXPECT_TRUE(audit.agrees()) << absl::StrJoin(audit.findings(), "\n");
  EXPECT_EQ(audit.counts().expired(), 4);
  ChangeJobRow([](v1::JobRecord& record) { record.set_state(v1::JOB_STATE_COMPLETED); });
  EXPECT_THAT(Findings(), HasSubstr("the job is completed, but 4 requests have no outcome"));
}

TEST_F(AuditTest, CountersOfTheCoordinatorAreCompared) {
  MakeRunningJob(*world_);
  // Another coordinator's memory, from before the last results.
  const std::unique_ptr<Store> older = NewMemoryStore();
  JobWorld behind(*older);
  ASSERT_EQ(behind.SubmitJob(10), kJob);
  const v1::JobAudit audit = AuditJob(*store_, behind.dispatcher(), kJob);
  EXPECT_FALSE(audit.agrees());
  EXPECT_THAT(absl::StrJoin(audit.findings(), "\n"), HasSubstr("are behind its store"));
  const v1::JobAudit ahead = AuditJob(*older, world_->dispatcher(), kJob);
  EXPECT_THAT(absl::StrJoin(ahead.findings(), "\n"), HasSubstr("are ahead of its store"));
}

TEST_F(AuditTest, ManyFindingsAreCutAndCounted) {
  ASSERT_EQ(world_->SubmitJob(500), kJob);
  WriteSet writes;
  writes.DeleteRange(Family::kRequests, JobKey(kJob), JobKey(kJob + 1));
  ASSERT_TRUE(store_->Commit(std::move(writes)).ok());
  const v1::JobAudit audit = AuditJob(*store_, world_->dispatcher(), kJob);
  ASSERT_EQ(audit.findings_size(), 100);
  EXPECT_EQ(audit.findings(99), "and 401 more findings");
}

// The audit runs beside the work and must not take a commit under way for damage.
TEST_F(AuditTest, AgreesWhileResultsCome) {
  JobWorld::Options options;
  options.committer.deltas_per_chunk_max = 2;
  world_.reset();
  world_ = std::make_unique<JobWorld>(*store_, options);
  ASSERT_EQ(world_->SubmitJob(2000), kJob);
  const std::vector<RequestId> ids = *world_->Lease(2000);
  std::atomic<bool> done{false};
  std::thread work([&] {
    for (const RequestId& id : ids) ASSERT_TRUE(world_->Answer({id}).ok());
    done = true;
  });
  int audits = 0;
  do {
    EXPECT_EQ(Findings(), "");
    ++audits;
  } while (!done);
  work.join();
  EXPECT_EQ(Findings(), "");
  EXPECT_GT(audits, 1);
}

}  // namespace
}  // namespace nightshift
