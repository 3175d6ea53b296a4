// The services over an in-process channel, with a whole coordinator behind them and workers that
// are driven by hand.
#include <algorithm>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nightshift/v1/jobs.grpc.pb.h"
#include "tests/coordinator/rpc/coordinator_fixture.h"
#include "tests/coordinator/rpc/fake_worker.h"

namespace nightshift {
namespace {

using ::testing::HasSubstr;
using Kind = v1::CoordinatorMessage::KindCase;

int CountLines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

class ServicesTest : public CoordinatorFixture {};

TEST_F(ServicesTest, SubmittedJobIsThereAndTheSameTokenFindsIt) {
  auto first = Submit(2500, "token-1");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->result(), v1::SubmitReply::CREATED);
  EXPECT_EQ(first->requests(), 2500);

  auto again = Submit(2500, "token-1");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->result(), v1::SubmitReply::FOUND);
  EXPECT_EQ(again->job().id(), first->job().id());

  auto found = client_->FindJob("token-1");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->id(), first->job().id());
  EXPECT_EQ(found->counts().total(), 2500);
  EXPECT_EQ(found->counts().pending(), 2500);
  EXPECT_TRUE(absl::IsNotFound(client_->FindJob("token-2").status()));
}

TEST_F(ServicesTest, SubmissionThatIsDroppedLeavesNothing) {
  {
    const auto stream = client_->Submit(v1::SubmitBegin());
    v1::SubmitRequests message;
    *message.add_requests() = Request(0);
    ASSERT_TRUE(stream->Write(std::move(message)).ok());
  }
  auto jobs = client_->ListAllJobs();
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  EXPECT_TRUE(jobs->empty());
}

TEST_F(ServicesTest, RequestsBeforeABeginningAreRefusedInWords) {
  grpc::ClientContext context;
  v1::SubmitReply reply;
  const auto stub = v1::JobService::NewStub(channel_);
  const auto writer = stub->Submit(&context, &reply);
  v1::SubmitMessage message;
  *message.mutable_requests()->add_requests() = Request(0);
  writer->Write(message);
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("first message"));
}

TEST_F(ServicesTest, ListJobsPagesFromTheNewest) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(SubmitJob(1));
  auto page = client_->ListJobs("", 2);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->jobs_size(), 2);
  EXPECT_TRUE(page->more());
  EXPECT_EQ(page->jobs(0).id(), ids[4]);
  page = client_->ListJobs(page->jobs(1).id(), 3);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->jobs_size(), 3);
  EXPECT_FALSE(page->more());
  EXPECT_EQ(page->jobs(2).id(), ids[0]);
}

TEST_F(ServicesTest, StatusesKeepTheirCodes) {
  EXPECT_TRUE(absl::IsNotFound(client_->GetJob("job_00000000").status()));
  const std::string job = SubmitJob(1);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(client_->Control(job, v1::ControlJobRequest::RETRY).status()))
      << "the job has not ended";
  EXPECT_TRUE(
      absl::IsInvalidArgument(client_->Control(job, v1::ControlJobRequest::UNSPECIFIED).status()));
}

TEST_F(ServicesTest, PauseResumeCancelAndDeleteAnswerWithTheNewState) {
  const std::string job = SubmitJob(3);
  auto status = client_->Control(job, v1::ControlJobRequest::PAUSE);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->state(), v1::JOB_STATE_PAUSED);
  EXPECT_EQ(status->reason(), v1::PAUSE_REASON_USER);
  status = client_->Control(job, v1::ControlJobRequest::RESUME);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_NE(status->state(), v1::JOB_STATE_PAUSED);
  ASSERT_TRUE(client_->Control(job, v1::ControlJobRequest::CANCEL).ok());
  const v1::JobStatus last =
      WatchUntil(job, [](const v1::JobStatus& s) { return s.state() == v1::JOB_STATE_CANCELLED; });
  EXPECT_EQ(last.counts().cancelled(), 3);
  ASSERT_TRUE(client_->Control(job, v1::ControlJobRequest::DELETE).ok());
  EXPECT_TRUE(absl::IsNotFound(client_->GetJob(job).status()));
}

TEST_F(ServicesTest, RequestsGoOutAndAnswersComeBackUnchanged) {
  const std::string job = SubmitJob(100);
  FakeWorker worker(channel_, "s1");
  ASSERT_TRUE(worker.Hello());
  EXPECT_GT(worker.Next(Kind::kWelcome).welcome().lease_ttl_ms(), 0);
  ASSERT_TRUE(worker.Report(64));
  int answered = 0;
  while (answered < 100) {
    const v1::CoordinatorMessage message = worker.Next(Kind::kLease);
    ASSERT_EQ(message.kind_case(), Kind::kLease);
    std::vector<v1::AttemptResult> results;
    for (const v1::LeasedRequest& request : message.lease().requests()) {
      EXPECT_EQ(request.custom_id(), absl::StrCat("r", request.key().index()));
      EXPECT_EQ(request.body(), Request(static_cast<int>(request.key().index())).body());
      results.push_back(
          worker.Answer(request, absl::StrCat("{\"answer\" : ", request.key().index(), "}")));
      ++answered;
    }
    ASSERT_TRUE(worker.Send(std::move(results)));
    ASSERT_TRUE(worker.Report(64));
  }
  const v1::JobStatus last =
      WatchUntil(job, [](const v1::JobStatus& s) { return s.state() == v1::JOB_STATE_COMPLETED; });
  EXPECT_EQ(last.counts().succeeded(), 100);
  const std::string results = ReadAll(job, v1::ReadOutputRequest::RESULTS);
  EXPECT_EQ(CountLines(results), 100);
  EXPECT_THAT(results, HasSubstr("\"body\":{\"answer\" : 42}"));
  EXPECT_EQ(ReadAll(job, v1::ReadOutputRequest::ERRORS), "");
  auto audit = client_->Audit("");
  ASSERT_TRUE(audit.ok()) << audit.status();
  EXPECT_TRUE(audit->agrees()) << audit->ShortDebugString();
}

TEST_F(ServicesTest, FollowingReaderGetsLinesAsTheyComeAndEndsWithTheJob) {
  const std::string job = SubmitJob(10);
  std::string followed;
  std::thread reader(
      [&] { followed = ReadAll(job, v1::ReadOutputRequest::RESULTS, /*follow=*/true); });
  FakeWorker worker(channel_, "s1");
  ASSERT_TRUE(worker.Hello());
  ASSERT_TRUE(worker.Report(1));
  for (int answered = 0; answered < 10;) {
    const v1::CoordinatorMessage message = worker.Next(Kind::kLease);
    for (const v1::LeasedRequest& request : message.lease().requests()) {
      ASSERT_TRUE(worker.Send({worker.Answer(request)}));
      ++answered;
    }
    ASSERT_TRUE(worker.Report(1));
  }
  reader.join();
  EXPECT_EQ(CountLines(followed), 10);
}

TEST_F(ServicesTest, FollowersThatGoAwayDoNotHoldUpAnything) {
  const std::string job = SubmitJob(1);
  v1::WatchJobRequest watch_request;
  watch_request.set_job(job);
  const auto watch = client_->Watch(watch_request);
  ASSERT_TRUE(watch->Next().ok());
  v1::ReadOutputRequest output_request;
  output_request.set_job(job);
  output_request.set_kind(v1::ReadOutputRequest::RESULTS);
  output_request.set_follow(true);
  const auto output = client_->ReadOutput(output_request);
  std::thread canceller([&] {
    watch->Cancel();
    output->Cancel();
  });
  EXPECT_TRUE(absl::IsCancelled(watch->Next().status()));
  EXPECT_TRUE(absl::IsCancelled(output->Next().status()));
  canceller.join();
}

// The dispatcher must not be told that the worker is gone when its old stream ends after the new
// one has begun, and what the worker holds must stay its own.
TEST_F(ServicesTest, NewStreamOfASessionReplacesTheOldOne) {
  const std::string job = SubmitJob(4);
  auto old_stream = std::make_unique<FakeWorker>(channel_, "s1");
  ASSERT_TRUE(old_stream->Hello());
  ASSERT_TRUE(old_stream->Report(4));
  std::vector<v1::LeasedRequest> leased;
  while (leased.size() < 4) {
    const v1::CoordinatorMessage message = old_stream->Next(Kind::kLease);
    for (const auto& request : message.lease().requests()) leased.push_back(request);
  }

  FakeWorker new_stream(channel_, "s1");
  std::vector<v1::HeldRequest> held;
  for (const v1::LeasedRequest& request : leased) {
    v1::HeldRequest& one = held.emplace_back();
    *one.mutable_key() = request.key();
    one.set_backend("b");
  }
  ASSERT_TRUE(new_stream.Hello(held));
  EXPECT_EQ(new_stream.Next(Kind::kWelcome).welcome().drop_size(), 0);
  // The old stream has been ended by the coordinator.
  EXPECT_FALSE(old_stream->Finish().ok());
  old_stream.reset();

  auto workers = client_->ListWorkers();
  ASSERT_TRUE(workers.ok()) << workers.status();
  ASSERT_EQ(workers->size(), 1u);
  EXPECT_EQ(workers->front().state(), "connected");
  EXPECT_EQ(workers->front().leased(), 4);

  std::vector<v1::AttemptResult> results;
  for (const v1::LeasedRequest& request : leased) results.push_back(new_stream.Answer(request));
  ASSERT_TRUE(new_stream.Send(std::move(results)));
  EXPECT_EQ(new_stream.AwaitAcknowledged(4), 4);
  WatchUntil(job, [](const v1::JobStatus& s) { return s.state() == v1::JOB_STATE_COMPLETED; });
}

TEST_F(ServicesTest, WorkerOfAnotherProtocolIsRefusedInWords) {
  FakeWorker worker(channel_, "s1");
  v1::WorkerMessage message;
  message.mutable_hello()->set_protocol("nightshift.v0");
  message.mutable_hello()->set_session("s1");
  ASSERT_TRUE(worker.Send(message));
  EXPECT_EQ(worker.Next(Kind::kRefuse).kind_case(), Kind::kRefuse);
  const grpc::Status status = worker.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("nightshift.v"));
}

TEST_F(ServicesTest, StreamThatDoesNotBeginWithAHelloIsRefused) {
  FakeWorker worker(channel_, "s1");
  ASSERT_TRUE(worker.Report(1));
  EXPECT_EQ(worker.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// A worker that stops reading must not make the coordinator's memory grow: beyond 8 MiB it gets no
// more, and what it was to get goes to others.
TEST_F(ServicesTest, WorkerThatDoesNotReadGetsNoMoreAndOthersGoOn) {
  v1::SubmitBegin begin;
  const auto stream = client_->Submit(begin);
  for (int i = 0; i < 60; ++i) {
    v1::SubmitRequests message;
    v1::SubmittedRequest& request = *message.add_requests();
    request = Request(i);
    request.set_body(absl::StrCat("{\"model\":\"m\",\"messages\":[],\"pad\":\"",
                                  std::string(size_t{1} << 20, 'x'), "\"}"));
    ASSERT_TRUE(stream->Write(std::move(message)).ok());
  }
  auto reply = stream->Seal({});
  ASSERT_TRUE(reply.ok()) << reply.status();

  FakeWorker deaf(channel_, "deaf");
  ASSERT_TRUE(deaf.Hello());
  ASSERT_TRUE(deaf.Report(30));
  FakeWorker good(channel_, "good");
  ASSERT_TRUE(good.Hello());
  ASSERT_TRUE(good.Report(60));
  int answered = 0;
  while (answered < 20) {
    const v1::CoordinatorMessage message = good.Next(Kind::kLease);
    ASSERT_EQ(message.kind_case(), Kind::kLease);
    std::vector<v1::AttemptResult> results;
    for (const auto& request : message.lease().requests()) results.push_back(good.Answer(request));
    answered += static_cast<int>(results.size());
    ASSERT_TRUE(good.Send(std::move(results)));
    ASSERT_TRUE(good.Report(60));
  }
  auto workers = client_->ListWorkers();
  ASSERT_TRUE(workers.ok());
  for (const v1::WorkerStatus& worker : *workers) {
    if (worker.session() == "deaf") {
      EXPECT_LE(worker.leased(), 30);
    }
  }
}

class TokenTest : public CoordinatorFixture {
 protected:
  std::string Token() const override { return "secret"; }
};

TEST_F(TokenTest, CallsWithoutTheTokenAreRefused) {
  EXPECT_EQ(SubmitJob(1).substr(0, 4), "job_");
  for (const char* token : {"", "secre", "secret1", "other"}) {
    JobClient client(channel_, token);
    EXPECT_TRUE(absl::IsUnauthenticated(client.ListAllJobs().status())) << token;
    EXPECT_TRUE(absl::IsUnauthenticated(client.Audit("").status())) << token;
    EXPECT_TRUE(absl::IsUnauthenticated(client.Watch({})->Next().status())) << token;
    EXPECT_TRUE(absl::IsUnauthenticated(client.ReadOutput({})->Next().status())) << token;
    EXPECT_TRUE(absl::IsUnauthenticated(client.Submit({})->Seal({}).status())) << token;
    FakeWorker worker(channel_, "s1", token);
    worker.Hello();
    EXPECT_EQ(worker.Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED) << token;
  }
  FakeWorker worker(channel_, "s1", "secret");
  ASSERT_TRUE(worker.Hello());
  EXPECT_EQ(worker.Next(Kind::kWelcome).kind_case(), Kind::kWelcome);
}

}  // namespace
}  // namespace nightshift
