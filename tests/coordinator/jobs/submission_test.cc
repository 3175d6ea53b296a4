#include "coordinator/jobs/submission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/recovery.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/record.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SubmissionTest : public testing::Test {
 protected:
  std::unique_ptr<Submission> Begin(bool skip_bad_lines = false) {
    v1::SubmitBegin begin;
    begin.set_skip_bad_lines(skip_bad_lines);
    absl::StatusOr<std::unique_ptr<Submission>> submission =
        Submission::Begin(*store_, world_->committer(), world_->dispatcher(), world_->clock(),
                          begin, testing::TempDir());
    EXPECT_TRUE(submission.ok()) << submission.status();
    return *std::move(submission);
  }
  v1::SubmitReply SubmitAll(v1::SubmitRequests requests, bool skip_bad_lines = false,
                            const std::string& token = "") {
    v1::SubmitBegin begin;
    begin.set_skip_bad_lines(skip_bad_lines);
    const auto reply = world_->Submit(std::move(requests), begin, token);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : v1::SubmitReply();
  }
  // Rows of all families but meta.
  size_t RowsInStore() const {
    size_t rows = 0;
    for (int i = 1; i < kFamilyCount; ++i) {
      for (const auto scan = store_->Scan(static_cast<Family>(i), "", ""); scan->Valid();
           scan->Next()) {
        ++rows;
      }
    }
    return rows;
  }
  v1::RequestRecord Row(JobNumber job, uint64_t index) const {
    const std::string key = RequestRowKey(job, index);
    v1::RequestRecord row;
    EXPECT_TRUE(DecodeRecord(key, *store_->Get(Family::kRequests, key), &row).ok());
    return row;
  }
  static v1::SubmitRequests Two() { return JobWorld::Requests(0, 2); }

  std::unique_ptr<Store> store_ = NewMemoryStore();
  std::unique_ptr<JobWorld> world_ = std::make_unique<JobWorld>(*store_);
};

TEST_F(SubmissionTest, RequestsKeepTheirBytesAndOrder) {
  v1::SubmitRequests requests;
  *requests.add_requests() = JobWorld::Request(0);
  *requests.add_requests() = JobWorld::Request(1);
  const std::string body =
      "{ \"b\":1e3,\"a\":0.10, \"n\":12345678901234567890 , \"u\":\"\\u00e9\" }";
  requests.mutable_requests(1)->set_body(body);
  requests.mutable_requests(1)->set_line(7);
  const v1::SubmitReply reply = SubmitAll(requests);
  ASSERT_EQ(reply.result(), v1::SubmitReply::CREATED);
  EXPECT_EQ(reply.requests(), 2);
  EXPECT_EQ(reply.job().state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(reply.job().counts().total(), 2);
  const JobNumber job = *world_->dispatcher().FindJob(reply.job().id());
  EXPECT_EQ(Row(job, 0).custom_id(), "r-0");
  EXPECT_EQ(Row(job, 1).body(), body);
  EXPECT_EQ(Row(job, 1).line(), 7);
  const v1::JobRecord record = *world_->dispatcher().GetRecord(job);
  EXPECT_EQ(record.run(), 1);
  EXPECT_THAT(record.models(), ElementsAre("m"));
  EXPECT_EQ(record.body_bytes(),
            static_cast<int64_t>(body.size() + JobWorld::Request(0).body().size()));
  world_->ExpectAuditAgrees(job);
}

TEST_F(SubmissionTest, DeadlineCountsFromTheSeal) {
  v1::SubmitBegin begin;
  begin.mutable_options()->set_deadline_ms(5000);
  auto submission = *Submission::Begin(*store_, world_->committer(), world_->dispatcher(),
                                       world_->clock(), begin, testing::TempDir());
  ASSERT_TRUE(submission->Add(Two()).ok());
  world_->clock().Advance(absl::Hours(1));
  const auto reply = submission->Seal({});
  ASSERT_TRUE(reply.ok());
  const int64_t now = absl::ToUnixMillis(world_->clock().WallNow());
  EXPECT_EQ(reply->job().created_at_ms(), now);
  EXPECT_EQ(reply->job().deadline_at_ms(), now + 5000);
}

TEST_F(SubmissionTest, ModelsAreListedOnceInOrderAndAtMost64) {
  v1::SubmitRequests requests;
  for (int i = 0; i < 140; ++i) {
    *requests.add_requests() = JobWorld::Request(i);
    requests.mutable_requests(i)->set_model(absl::StrCat("model-", i / 2));
  }
  const v1::SubmitReply reply = SubmitAll(requests);
  const v1::JobRecord record =
      *world_->dispatcher().GetRecord(*world_->dispatcher().FindJob(reply.job().id()));
  ASSERT_EQ(record.models_size(), 64);
  EXPECT_EQ(record.models(0), "model-0");
  EXPECT_EQ(record.models(63), "model-63");
}

TEST_F(SubmissionTest, EveryBadLineIsNamedAndNothingStays) {
  v1::SubmitRequests requests = JobWorld::Requests(0, 8);
  requests.mutable_requests(1)->mutable_bad()->set_line(2);
  requests.mutable_requests(1)->mutable_bad()->set_field("body.messages");
  requests.mutable_requests(1)->mutable_bad()->set_reason("expected a list, found a string");
  requests.mutable_requests(2)->set_custom_id("");
  requests.mutable_requests(3)->set_custom_id(std::string(513, 'x'));
  requests.mutable_requests(4)->set_endpoint(static_cast<v1::Endpoint>(99));
  requests.mutable_requests(5)->set_body("[1]");
  requests.mutable_requests(6)->set_body("{\"a\":}");
  const v1::SubmitReply reply = SubmitAll(requests);
  EXPECT_EQ(reply.result(), v1::SubmitReply::REFUSED);
  EXPECT_EQ(reply.bad_count(), 6);
  ASSERT_EQ(reply.bad_lines_size(), 6);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(reply.bad_lines(i).line(), i + 2);
  EXPECT_EQ(reply.bad_lines(0).reason(), "expected a list, found a string");
  EXPECT_EQ(reply.bad_lines(0).custom_id(), "r-1");
  EXPECT_EQ(reply.bad_lines(1).field(), "custom_id");
  EXPECT_EQ(reply.bad_lines(2).field(), "custom_id");
  EXPECT_EQ(reply.bad_lines(3).field(), "url");
  EXPECT_THAT(reply.bad_lines(4).reason(), HasSubstr("object"));
  EXPECT_THAT(reply.bad_lines(5).reason(), HasSubstr("not valid JSON"));
  EXPECT_EQ(RowsInStore(), 0u);
  EXPECT_TRUE(world_->dispatcher().ListJobs().empty());
}

TEST_F(SubmissionTest, CustomIdOf512BytesIsGood) {
  v1::SubmitRequests requests = Two();
  requests.mutable_requests(0)->set_custom_id(std::string(512, 'x'));
  EXPECT_EQ(SubmitAll(requests).result(), v1::SubmitReply::CREATED);
}

TEST_F(SubmissionTest, DuplicatesNameBothLines) {
  v1::SubmitRequests requests = JobWorld::Requests(0, 20);
  requests.mutable_requests(15)->set_custom_id("r-11");
  requests.mutable_requests(4)->set_custom_id("r-2");
  requests.mutable_requests(17)->set_custom_id("r-11");
  const v1::SubmitReply reply = SubmitAll(requests);
  EXPECT_EQ(reply.result(), v1::SubmitReply::REFUSED);
  ASSERT_EQ(reply.bad_lines_size(), 3);
  EXPECT_EQ(reply.bad_lines(0).line(), 5);
  EXPECT_EQ(reply.bad_lines(0).reason(), "same custom_id as line 3");
  EXPECT_EQ(reply.bad_lines(1).line(), 16);
  EXPECT_EQ(reply.bad_lines(1).reason(), "same custom_id as line 12");
  EXPECT_EQ(reply.bad_lines(1).custom_id(), "r-11");
  EXPECT_EQ(reply.bad_lines(2).line(), 18);
  EXPECT_EQ(reply.bad_lines(2).reason(), "same custom_id as line 12");
  EXPECT_EQ(RowsInStore(), 0u);
}

// The list is for a person; the count tells the truth.
TEST_F(SubmissionTest, ThousandBadLinesAreListedAndAllAreCounted) {
  auto submission = Begin();
  for (int part = 0; part < 3; ++part) {
    v1::SubmitRequests requests = JobWorld::Requests(part * 500, 500);
    for (auto& request : *requests.mutable_requests()) request.set_body("x");
    ASSERT_TRUE(submission->Add(requests).ok());
  }
  const auto reply = submission->Seal({});
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->bad_count(), 1500);
  ASSERT_EQ(reply->bad_lines_size(), kBadLinesListedMax);
  EXPECT_EQ(reply->bad_lines(0).line(), 1);
  EXPECT_EQ(reply->bad_lines(999).line(), 1000);
}

TEST_F(SubmissionTest, EmptyInputIsRefused) {
  const v1::SubmitReply reply = SubmitAll({});
  EXPECT_EQ(reply.result(), v1::SubmitReply::REFUSED);
  ASSERT_EQ(reply.bad_lines_size(), 1);
  EXPECT_EQ(reply.bad_lines(0).line(), 0);
  EXPECT_EQ(reply.bad_lines(0).reason(), "the input has no requests");
  EXPECT_EQ(RowsInStore(), 0u);
}

TEST_F(SubmissionTest, SkippedBadLinesAreFailedFromTheStart) {
  v1::SubmitRequests requests = JobWorld::Requests(0, 6);
  requests.mutable_requests(1)->set_body("nonsense");
  requests.mutable_requests(4)->set_custom_id("r-0");
  auto* bad = requests.mutable_requests(2)->mutable_bad();
  requests.mutable_requests(2)->clear_custom_id();
  bad->set_line(3);
  bad->set_reason("not JSON");
  const v1::SubmitReply reply = SubmitAll(requests, /*skip_bad_lines=*/true);
  EXPECT_EQ(reply.result(), v1::SubmitReply::CREATED);
  EXPECT_EQ(reply.bad_count(), 3);
  EXPECT_EQ(reply.bad_lines_size(), 3);
  EXPECT_EQ(reply.requests(), 6);
  EXPECT_EQ(reply.job().counts().failed(), 3);
  EXPECT_EQ(reply.job().counts().pending(), 3);
  const JobNumber job = *world_->dispatcher().FindJob(reply.job().id());
  world_->ExpectAuditAgrees(job);
  EXPECT_EQ(Row(job, 2).custom_id(), "request-3");
  EXPECT_EQ(Row(job, 4).custom_id(), "r-0");
  EXPECT_EQ(Row(job, 4).invalid_reason(), "custom_id: same custom_id as line 1");
  EXPECT_TRUE(Row(job, 4).body().empty());

  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_EQ(world_->Status(job).state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(world_->Status(job).counts().succeeded(), 3);
  world_->ExpectAuditAgrees(job);
  const auto errors = world_->Lines(job, v1::ReadOutputRequest::ERRORS);
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_THAT(errors[1], HasSubstr(R"("code":"invalid_request_line","message":"not JSON")"));
}

TEST_F(SubmissionTest, JobOfBadLinesAloneCompletesAtOnce) {
  v1::SubmitRequests requests = Two();
  for (auto& request : *requests.mutable_requests()) request.set_body("x");
  const v1::SubmitReply reply = SubmitAll(requests, /*skip_bad_lines=*/true);
  EXPECT_EQ(reply.result(), v1::SubmitReply::CREATED);
  EXPECT_EQ(reply.job().state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(reply.job().counts().failed(), 2);
  const JobNumber job = *world_->dispatcher().FindJob(reply.job().id());
  world_->ExpectAuditAgrees(job);
  world_.reset();
  world_ = std::make_unique<JobWorld>(*store_);
  EXPECT_EQ(world_->Status(job).counts().failed(), 2);
  world_->ExpectAuditAgrees(job);
}

TEST_F(SubmissionTest, SameTokenFindsTheFirstJob) {
  const v1::SubmitReply first = SubmitAll(Two(), false, "token-1");
  const size_t rows = RowsInStore();
  const v1::SubmitReply again = SubmitAll(JobWorld::Requests(0, 5), false, "token-1");
  EXPECT_EQ(again.result(), v1::SubmitReply::FOUND);
  EXPECT_EQ(again.job().id(), first.job().id());
  EXPECT_EQ(again.requests(), 2);
  EXPECT_EQ(RowsInStore(), rows);
  EXPECT_EQ(SubmitAll(Two(), false, "token-2").result(), v1::SubmitReply::CREATED);
  EXPECT_EQ(SubmitAll(Two()).result(), v1::SubmitReply::CREATED);
  EXPECT_EQ(SubmitAll(Two()).result(), v1::SubmitReply::CREATED);
}

TEST_F(SubmissionTest, TokenIsRememberedAcrossRestarts) {
  const v1::SubmitReply first = SubmitAll(Two(), false, "token-1");
  world_.reset();
  world_ = std::make_unique<JobWorld>(*store_);
  EXPECT_EQ(SubmitAll(Two(), false, "token-1").job().id(), first.job().id());
}

// The check in Seal and the making of the job are not one step: the loser is told of the winner.
TEST_F(SubmissionTest, RaceOfTheSameTokenMakesOneJob) {
  auto a = Begin();
  auto b = Begin();
  ASSERT_TRUE(a->Add(Two()).ok());
  ASSERT_TRUE(b->Add(Two()).ok());
  v1::SubmitSeal seal;
  seal.set_idempotency_token("t");
  absl::StatusOr<v1::SubmitReply> replies[2];
  std::thread other([&] { replies[1] = b->Seal(seal); });
  replies[0] = a->Seal(seal);
  other.join();
  ASSERT_TRUE(replies[0].ok() && replies[1].ok());
  EXPECT_EQ(replies[0]->job().id(), replies[1]->job().id());
  EXPECT_EQ(world_->dispatcher().ListJobs().size(), 1u);
  EXPECT_EQ(RowsInStore(), 1u + 2u);
}

TEST_F(SubmissionTest, AbandonedSubmissionLeavesNothing) {
  auto submission = Begin();
  ASSERT_TRUE(submission->Add(JobWorld::Requests(0, kStagedRowsMax + 500)).ok());
  EXPECT_GE(RowsInStore(), kStagedRowsMax);
  submission.reset();
  EXPECT_EQ(RowsInStore(), 0u);
}

// Half an input is none.
TEST_F(SubmissionTest, UnsealedRowsOfACrashAreDroppedAtStart) {
  // Not destroyed before the store is looked at: as if the process had died.
  auto lost = Begin();
  ASSERT_TRUE(lost->Add(JobWorld::Requests(0, kStagedRowsMax + 500)).ok());
  SubmitAll(Two());
  ASSERT_TRUE(DropUnsealedJobs(*store_).ok());
  EXPECT_EQ(RowsInStore(), 1u + 2u);
}

TEST_F(SubmissionTest, SealedSubmissionTakesNothingMore) {
  auto submission = Begin();
  ASSERT_TRUE(submission->Add(Two()).ok());
  ASSERT_TRUE(submission->Seal({}).ok());
  EXPECT_EQ(submission->Add(Two()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(submission->Seal({}).status().code(), absl::StatusCode::kFailedPrecondition);
  submission.reset();
  EXPECT_EQ(RowsInStore(), 1u + 2u);
}

TEST_F(SubmissionTest, OptionsThatMakeNoSenseAreRefusedAtOnce) {
  v1::SubmitBegin begin;
  begin.mutable_options()->set_stop_on_error_rate(1.5);
  EXPECT_EQ(Submission::Begin(*store_, world_->committer(), world_->dispatcher(), world_->clock(),
                              begin, testing::TempDir())
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RowsInStore(), 0u);
}

// And the committer hears of it at once, though it has nothing to write.
TEST_F(SubmissionTest, StoreFailureEndsTheSubmission) {
  world_.reset();
  StoppingStore stopping(*store_, 2);  // the number and the first row
  JobWorld world(stopping);
  auto submission = *Submission::Begin(stopping, world.committer(), world.dispatcher(),
                                       world.clock(), {}, testing::TempDir());
  EXPECT_EQ(submission->Add(JobWorld::Requests(0, kStagedRowsMax)).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(submission->Seal({}).status().code(), absl::StatusCode::kUnavailable);
  world.WaitUntilBroken();
  EXPECT_EQ(world.Control(1, JobCommand::Kind::kPause).code(), absl::StatusCode::kUnavailable);
}

// A job of gigabytes must not fill the disk that was nearly full when it had hardly begun.
TEST_F(SubmissionTest, DiskThatRunsLowMeanwhileEndsItAndLeavesNothing) {
  std::unique_ptr<Submission> submission = Begin();
  ASSERT_TRUE(submission->Add(Two()).ok());
  world_->dispatcher().HoldForDisk("the disk is nearly full");
  const absl::StatusOr<v1::SubmitReply> reply = submission->Seal({});
  EXPECT_TRUE(absl::IsResourceExhausted(reply.status())) << reply.status();
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("nearly full"));
  submission.reset();
  EXPECT_EQ(RowsInStore(), 0u);
}

}  // namespace
}  // namespace nightshift
