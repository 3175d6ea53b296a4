#include "coordinator/jobs/output_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/reopen.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kResults = v1::ReadOutputRequest::RESULTS;
constexpr auto kErrors = v1::ReadOutputRequest::ERRORS;

class OutputReaderTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<OutputReader>> Open(v1::ReadOutputRequest request) {
    request.set_job(world_->Status(job_).id());
    return OutputReader::Create(*store_, world_->dispatcher(), request);
  }
  static v1::ReadOutputRequest Of(v1::ReadOutputRequest::Kind kind, const std::string& cursor = "",
                                  bool follow = false) {
    v1::ReadOutputRequest request;
    request.set_kind(kind);
    request.set_cursor(cursor);
    request.set_follow(follow);
    return request;
  }
  std::vector<std::string> Read(const v1::ReadOutputRequest& request,
                                std::string* cursor = nullptr) {
    auto reader = Open(request);
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (!reader.ok()) return {};
    auto lines = ReadLines(**reader, 1 << 16, cursor);
    EXPECT_TRUE(lines.ok()) << lines.status();
    EXPECT_TRUE((*reader)->AtEnd() || request.follow());
    return Ids(*std::move(lines));
  }
  // The custom ids of lines.
  static std::vector<std::string> Ids(const std::vector<std::string>& lines) {
    std::vector<std::string> ids;
    for (const std::string& line : lines) {
      const size_t begin = line.find("\"custom_id\":\"") + 13;
      ids.push_back(line.substr(begin, line.find('"', begin) - begin));
    }
    return ids;
  }
  void Answer(const std::vector<uint64_t>& indexes,
              v1::AttemptResult::Kind kind = v1::AttemptResult::ANSWERED) {
    std::vector<v1::AttemptResult> results;
    for (const uint64_t index : indexes) results.push_back(world_->Result({job_, index}, kind));
    const absl::Status status = world_->Deliver(std::move(results));
    EXPECT_TRUE(status.ok()) << status;
  }
  void Submit(int64_t count) {
    job_ = world_->SubmitJob(count);
    ASSERT_EQ(world_->Lease(count)->size(), static_cast<size_t>(count));
  }
  // The state that follows may take another round.
  void Cancel() {
    ASSERT_TRUE(world_->Control(job_, JobCommand::Kind::kCancel).ok());
    while (world_->Status(job_).state() == v1::JOB_STATE_CANCELLING) {
      (void)world_->Control(job_, JobCommand::Kind::kCancel);
    }
  }
  void Restart() {
    world_.reset();
    world_ = std::make_unique<JobWorld>(*store_);
  }

  std::unique_ptr<Store> store_ = NewMemoryStore();
  std::unique_ptr<JobWorld> world_ = std::make_unique<JobWorld>(*store_);
  JobNumber job_ = 0;
};

// What writes a results file while the job runs: no line before its turn, none twice.
TEST_F(OutputReaderTest, FollowingInOrderWaitsForTheFirstUnfinished) {
  Submit(5);
  v1::ReadOutputRequest request = Of(kResults, "", /*follow=*/true);
  request.set_in_order(true);
  auto reader = Open(request);
  ASSERT_TRUE(reader.ok());
  const auto more = [&] {
    auto lines = ReadLines(**reader, 1 << 16, nullptr);
    EXPECT_TRUE(lines.ok()) << lines.status();
    return Ids(*std::move(lines));
  };
  EXPECT_THAT(more(), IsEmpty());
  Answer({1, 3});
  EXPECT_THAT(more(), IsEmpty());
  Answer({0});
  EXPECT_THAT(more(), ElementsAre("r-0", "r-1"));
  EXPECT_FALSE((*reader)->AtEnd());
  Answer({2}, v1::AttemptResult::REJECTED);
  EXPECT_THAT(more(), ElementsAre("r-3"));
  Answer({4});
  EXPECT_THAT(more(), ElementsAre("r-4"));
  EXPECT_TRUE((*reader)->AtEnd());
}

TEST_F(OutputReaderTest, EachRequestIsInOneFileInInputOrder) {
  Submit(6);
  Answer({4, 0});
  Answer({3, 1}, v1::AttemptResult::REJECTED);
  Answer({5, 2});
  EXPECT_THAT(Read(Of(kResults)), ElementsAre("r-0", "r-2", "r-4", "r-5"));
  EXPECT_THAT(Read(Of(kErrors)), ElementsAre("r-1", "r-3"));
}

TEST_F(OutputReaderTest, AnswersAreThoseOfTheirRequests) {
  Submit(50);
  for (uint64_t index = 50; index-- > 0;) Answer({index});
  const std::vector<std::string> lines = world_->Lines(job_, kResults);
  ASSERT_EQ(lines.size(), 50u);
  for (uint64_t index = 0; index < 50; ++index) {
    EXPECT_THAT(lines[index], HasSubstr(absl::StrCat("\"custom_id\":\"r-", index, "\"")));
    EXPECT_THAT(lines[index], HasSubstr(JobWorld::Body({job_, index})));
    EXPECT_THAT(lines[index], HasSubstr(absl::StrCat("\"request_id\":\"req-", index, "\"")));
  }
}

TEST_F(OutputReaderTest, ChunksHoldAboutWhatIsAskedForAndAtLeastOneLine) {
  Submit(10);
  Answer({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  auto reader = *Open(Of(kResults));
  EXPECT_EQ(reader->Next(1)->count(), 1);
  EXPECT_EQ(reader->Next(0)->count(), 1);
  const auto chunk = reader->Next(1000);
  EXPECT_GE(chunk->count(), 2);
  EXPECT_LE(chunk->lines().size(), 1600u);
  EXPECT_FALSE(reader->AtEnd());
  EXPECT_EQ(reader->Next(1 << 20)->count(), 8 - chunk->count());
  EXPECT_TRUE(reader->AtEnd());
  EXPECT_EQ(reader->Next(1 << 20)->count(), 0);
}

TEST_F(OutputReaderTest, RunningJobShowsWhatIsThereSoFar) {
  Submit(6);
  EXPECT_THAT(Read(Of(kResults)), IsEmpty());
  Answer({4, 2});
  EXPECT_THAT(Read(Of(kResults)), ElementsAre("r-2", "r-4"));
  EXPECT_THAT(Read(Of(kErrors)), IsEmpty());
}

// A second read takes up what has finished behind the first one's back, and nothing twice.
TEST_F(OutputReaderTest, CursorOfARunningJobLeavesOutNothing) {
  Submit(8);
  Answer({4, 2});
  std::string cursor;
  EXPECT_THAT(Read(Of(kResults), &cursor), ElementsAre("r-2", "r-4"));
  Answer({0, 6, 3});
  Answer({1}, v1::AttemptResult::REJECTED);
  EXPECT_THAT(Read(Of(kResults, cursor), &cursor), ElementsAre("r-0", "r-3", "r-6"));
  Restart();
  EXPECT_THAT(Read(Of(kResults, cursor), &cursor), IsEmpty());
  ASSERT_TRUE(world_->FinishAll().ok());
  EXPECT_THAT(Read(Of(kResults, cursor), &cursor), ElementsAre("r-5", "r-7"));
  EXPECT_THAT(Read(Of(kResults, cursor)), IsEmpty());
}

TEST_F(OutputReaderTest, CursorResumesAtEveryLineAndAfterARestart) {
  Submit(9);
  Answer({0, 1, 2, 3, 4, 5, 6, 7, 8});
  std::vector<std::string> cursors;
  {
    auto reader = *Open(Of(kResults));
    while (!reader->AtEnd()) cursors.push_back(reader->Next(1)->cursor());
  }
  Restart();
  const std::vector<std::string> all = Read(Of(kResults));
  ASSERT_GE(cursors.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(Read(Of(kResults, cursors[i])),
              std::vector<std::string>(all.begin() + static_cast<ptrdiff_t>(i) + 1, all.end()));
  }
}

TEST_F(OutputReaderTest, UnrunRequestsOfAnEndedJobAreErrors) {
  Submit(5);
  Answer({3});
  EXPECT_THAT(Read(Of(kErrors)), IsEmpty());
  Cancel();
  EXPECT_THAT(Read(Of(kResults)), ElementsAre("r-3"));
  EXPECT_THAT(Read(Of(kErrors)), ElementsAre("r-0", "r-1", "r-2", "r-4"));
  EXPECT_THAT(world_->Lines(job_, kErrors)[0], HasSubstr("batch_cancelled"));
  Restart();
  EXPECT_THAT(Read(Of(kErrors)), ElementsAre("r-0", "r-1", "r-2", "r-4"));
}

TEST_F(OutputReaderTest, ExpiredAndStoppedJobsSaySo) {
  for (const auto& [kind, code] : {std::pair{JobCommand::Kind::kExpire, "batch_expired"},
                                   std::pair{JobCommand::Kind::kStop, "job_stopped"}}) {
    Submit(2);
    Answer({0});
    JobCommand command;
    command.kind = kind;
    command.job = job_;
    command.detail = "because";
    ASSERT_TRUE(world_->committer().Execute(command).ok());
    const std::vector<std::string> lines = world_->Lines(job_, kErrors);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_THAT(lines[0], HasSubstr(absl::StrCat("\"code\":\"", code, "\"")));
  }
}

TEST_F(OutputReaderTest, ClassesAndLimitNarrowTheLines) {
  Submit(6);
  Answer({0, 3}, v1::AttemptResult::REJECTED);
  v1::AttemptResult timeout = world_->Result({job_, 1}, v1::AttemptResult::REJECTED);
  timeout.set_error_class(v1::ERROR_CLASS_TIMEOUT);
  ASSERT_TRUE(world_->Deliver({timeout}).ok());
  Answer({2});
  Cancel();
  v1::ReadOutputRequest request = Of(kErrors);
  request.add_classes(v1::ERROR_CLASS_TIMEOUT);
  EXPECT_THAT(Read(request), ElementsAre("r-1"));
  request.add_classes(v1::ERROR_CLASS_CANCELLED);
  EXPECT_THAT(Read(request), ElementsAre("r-1", "r-4", "r-5"));
  request.set_limit(2);
  std::string cursor;
  EXPECT_THAT(Read(request, &cursor), ElementsAre("r-1", "r-4"));
  request.set_cursor(cursor);
  EXPECT_THAT(Read(request), ElementsAre("r-5"));
}

TEST_F(OutputReaderTest, FollowingGivesLinesAsRequestsFinishAndEndsWithTheJob) {
  Submit(6);
  Answer({5});
  auto reader = *Open(Of(kResults, "", true));
  auto errors = *Open(Of(kErrors, "", true));
  EXPECT_THAT(Ids(*ReadLines(*reader, 1 << 16)), ElementsAre("r-5"));
  EXPECT_THAT(*ReadLines(*reader, 1 << 16), IsEmpty());
  EXPECT_FALSE(reader->AtEnd());
  const uint64_t changes = world_->dispatcher().ChangeCount(job_);
  Answer({2, 4});
  EXPECT_NE(world_->dispatcher().ChangeCount(job_), changes);
  Answer({1}, v1::AttemptResult::REJECTED);
  EXPECT_THAT(Ids(*ReadLines(*reader, 1)), ElementsAre("r-2", "r-4"));
  EXPECT_THAT(Ids(*ReadLines(*errors, 1)), ElementsAre("r-1"));
  Cancel();
  EXPECT_THAT(*ReadLines(*reader, 1 << 16), IsEmpty());
  EXPECT_TRUE(reader->AtEnd());
  EXPECT_THAT(Ids(*ReadLines(*errors, 1 << 16)), ElementsAre("r-0", "r-3"));
  EXPECT_TRUE(errors->AtEnd());
}

TEST_F(OutputReaderTest, FollowingResumesByCursor) {
  Submit(6);
  Answer({5, 1});
  std::string cursor;
  EXPECT_THAT(Read(Of(kResults, "", true), &cursor), ElementsAre("r-1", "r-5"));
  Answer({0, 3});
  Restart();
  EXPECT_THAT(Read(Of(kResults, cursor, true), &cursor), ElementsAre("r-0", "r-3"));
  Answer({2, 4});
  EXPECT_THAT(Read(Of(kResults, cursor, true)), ElementsAre("r-2", "r-4"));
  // And the other kind of reading takes it up as well.
  EXPECT_THAT(Read(Of(kResults, cursor)), ElementsAre("r-2", "r-4"));
}

TEST_F(OutputReaderTest, CursorOfAnEarlierRunIsRefused) {
  Submit(3);
  Answer({0});
  Answer({1, 2}, v1::AttemptResult::REJECTED);
  std::string cursor;
  Read(Of(kErrors), &cursor);
  auto open_reader = *Open(Of(kErrors));
  ASSERT_TRUE(ReopenJob(*store_, world_->committer(), world_->dispatcher(), job_, {}).ok());
  EXPECT_EQ(Open(Of(kErrors, cursor)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(open_reader->Next(100).status().code(), absl::StatusCode::kAborted);
}

TEST_F(OutputReaderTest, WhatCannotBeReadIsRefused) {
  Submit(3);
  EXPECT_EQ(Open(Of(kResults, "garbage")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Open(v1::ReadOutputRequest()).status().code(), absl::StatusCode::kInvalidArgument);
  v1::ReadOutputRequest unknown = Of(kResults);
  unknown.set_job("job_000000");
  EXPECT_EQ(OutputReader::Create(*store_, world_->dispatcher(), unknown).status().code(),
            absl::StatusCode::kNotFound);
  auto reader = *Open(Of(kResults));
  Answer({0, 1, 2});
  ASSERT_TRUE(world_->Control(job_, JobCommand::Kind::kDelete).ok());
  EXPECT_EQ(reader->Next(100).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(OutputReaderTest, MissingAnswerIsDataLossAndNotALine) {
  Submit(2);
  Answer({0, 1});
  WriteSet writes;
  writes.Delete(Family::kResponses, RequestRowKey(job_, 1));
  ASSERT_TRUE(store_->Commit(std::move(writes)).ok());
  auto reader = *Open(Of(kResults));
  const absl::Status status = ReadLines(*reader, 1 << 16).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.ToString(), HasSubstr("nightshift audit"));
}

// An ended job knows how many of its requests have no outcome: one more is damage, and neither a
// line that says "cancelled" nor a line that is left out.
TEST_F(OutputReaderTest, MissingOutcomeIsDataLossAndNotALine) {
  Submit(3);
  Answer({0, 2});
  Cancel();
  EXPECT_EQ(Read(Of(kErrors)).size(), 1u);
  WriteSet writes;
  writes.Delete(Family::kOutcomes, RequestRowKey(job_, 2));
  ASSERT_TRUE(store_->Commit(std::move(writes)).ok());
  for (const auto kind : {kResults, kErrors}) {
    auto reader = *Open(Of(kind));
    const absl::Status status = ReadLines(*reader, 1 << 16).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(status.ToString(), HasSubstr("request 2"));
  }
}

// Chunks without a line for this file are passed over by their sums; the others are not.
TEST_F(OutputReaderTest, FewErrorsInManyRequests) {
  constexpr int64_t kTotal = kChunkRequests + 500;
  Submit(kTotal);
  const std::vector<uint64_t> failed = {kChunkRequests, kChunkRequests + 7};
  Answer(failed, v1::AttemptResult::REJECTED);
  std::vector<uint64_t> rest;
  for (uint64_t index = 0; index < kTotal; ++index) {
    if (std::find(failed.begin(), failed.end(), index) == failed.end()) rest.push_back(index);
  }
  Answer(rest);
  EXPECT_EQ(world_->Status(job_).state(), v1::JOB_STATE_COMPLETED);
  std::vector<std::string> expected;
  for (const uint64_t index : failed) expected.push_back(absl::StrCat("r-", index));
  std::string cursor;
  EXPECT_EQ(Read(Of(kErrors), &cursor), expected);
  EXPECT_LT(cursor.size(), 32u);
  EXPECT_EQ(Read(Of(kResults)).size(), rest.size());
}

}  // namespace
}  // namespace nightshift
