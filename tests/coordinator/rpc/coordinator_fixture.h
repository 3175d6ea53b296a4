// A whole coordinator in the test's process, on a folder of its own, and short ways to use it.
#ifndef NIGHTSHIFT_TESTS_COORDINATOR_RPC_COORDINATOR_FIXTURE_H_
#define NIGHTSHIFT_TESTS_COORDINATOR_RPC_COORDINATOR_FIXTURE_H_

#include <grpcpp/grpcpp.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/rpc/job_client.h"
#include "coordinator/coordinator.h"
#include "gtest/gtest.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {

class CoordinatorFixture : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }

  virtual CoordinatorOptions Options() {
    CoordinatorOptions options;
    options.data_dir = folder_.path();
    if (!Token().empty()) {
      options.token_file = folder_ / "token";
      std::ofstream(options.token_file) << Token() << "\n";
    }
    return options;
  }
  // The one token that the coordinator takes; empty: it asks for none.
  virtual std::string Token() const { return ""; }

  void Start() {
    auto started = Coordinator::Start(Options());
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
    channel_ = coordinator_->InProcessChannel();
    client_ = std::make_unique<JobClient>(channel_, Token());
  }

  void Stop(absl::Duration grace = absl::Seconds(5)) {
    coordinator_->Shutdown(grace);
    client_.reset();
    channel_.reset();
    coordinator_.reset();
  }

  static v1::SubmittedRequest Request(int number) {
    v1::SubmittedRequest request;
    request.set_custom_id(absl::StrCat("r", number));
    request.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
    request.set_body(
        absl::StrCat("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"prompt ",
                     number, "\"}]}"));
    request.set_line(number + 1);
    request.set_model("m");
    return request;
  }

  // Submits requests r0, r1, … and returns the reply.
  absl::StatusOr<v1::SubmitReply> Submit(int requests, const std::string& token = "",
                                         const v1::JobOptions& options = {}) {
    v1::SubmitBegin begin;
    *begin.mutable_options() = options;
    const auto stream = client_->Submit(begin);
    for (int from = 0; from < requests; from += 1000) {
      v1::SubmitRequests message;
      for (int i = from; i < std::min(requests, from + 1000); ++i) {
        *message.add_requests() = Request(i);
      }
      if (absl::Status status = stream->Write(std::move(message)); !status.ok()) return status;
    }
    v1::SubmitSeal seal;
    seal.set_idempotency_token(token);
    return stream->Seal(seal);
  }

  // The id of a job of that many requests.
  std::string SubmitJob(int requests, const v1::JobOptions& options = {}) {
    auto reply = Submit(requests, "", options);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->job().id() : "";
  }

  // Follows a job until a status satisfies `done`, and returns that one.
  template <typename Predicate>
  v1::JobStatus WatchUntil(const std::string& job, Predicate done) {
    v1::WatchJobRequest request;
    request.set_job(job);
    request.set_interval_ms(20);
    const auto watch = client_->Watch(request);
    v1::JobStatus last;
    for (;;) {
      auto status = watch->Next();
      EXPECT_TRUE(status.ok()) << status.status();
      if (!status.ok() || !status->has_value()) return last;
      last = **status;
      if (done(last)) return last;
    }
  }

  // All lines of one of a job's files.
  std::string ReadAll(const std::string& job, v1::ReadOutputRequest::Kind kind,
                      bool follow = false) {
    v1::ReadOutputRequest request;
    request.set_job(job);
    request.set_kind(kind);
    request.set_follow(follow);
    const auto output = client_->ReadOutput(request);
    std::string lines;
    for (;;) {
      auto chunk = output->Next();
      EXPECT_TRUE(chunk.ok()) << chunk.status();
      if (!chunk.ok() || !chunk->has_value()) return lines;
      lines += (*chunk)->lines();
    }
  }

  TempFolder folder_;
  std::unique_ptr<Coordinator> coordinator_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<JobClient> client_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_COORDINATOR_RPC_COORDINATOR_FIXTURE_H_
