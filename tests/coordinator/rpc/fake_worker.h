// A worker for tests of the coordinator: one stream, driven by hand.
#ifndef NIGHTSHIFT_TESTS_COORDINATOR_RPC_FAKE_WORKER_H_
#define NIGHTSHIFT_TESTS_COORDINATOR_RPC_FAKE_WORKER_H_

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nightshift/v1/worker.grpc.pb.h"

namespace nightshift {

class FakeWorker {
 public:
  FakeWorker(const std::shared_ptr<grpc::Channel>& channel, std::string session,
             const std::string& token = "")
      : session_(std::move(session)), stub_(v1::WorkerService::NewStub(channel)) {
    if (!token.empty()) context_.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    stream_ = stub_->Connect(&context_);
  }
  ~FakeWorker() {
    context_.TryCancel();
    v1::CoordinatorMessage ignored;
    while (stream_->Read(&ignored)) {
    }
    if (!finished_) stream_->Finish();
  }

  bool Hello(const std::vector<v1::HeldRequest>& held = {}) {
    v1::WorkerMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_protocol("nightshift.v1");
    hello.set_name("fake");
    hello.set_session(session_);
    hello.set_version("0");
    v1::BackendInfo& backend = *hello.add_backends();
    backend.set_name("b");
    backend.set_kind("openai");
    backend.set_state("ready");
    for (const v1::HeldRequest& one : held) *hello.add_held() = one;
    return stream_->Write(message);
  }

  bool Report(int limit, int in_flight = 0, int buffered = 0, double rate = 0) {
    v1::WorkerMessage message;
    v1::BackendReport& report = *message.mutable_report()->add_backends();
    report.mutable_info()->set_name("b");
    report.mutable_info()->set_kind("openai");
    report.mutable_info()->set_state("ready");
    report.set_limit(limit);
    report.set_in_flight(in_flight);
    report.set_buffered(buffered);
    report.set_requests_per_second(rate);
    return stream_->Write(message);
  }

  // A result of the kind that most are: an answer with this body.
  v1::AttemptResult Answer(const v1::LeasedRequest& request, std::string body = "{\"a\":1}") {
    v1::AttemptResult result;
    *result.mutable_key() = request.key();
    result.set_sequence(++sequence_);
    result.set_backend("b");
    result.set_kind(v1::AttemptResult::ANSWERED);
    result.set_charged(true);
    result.set_http_status(200);
    result.set_body(std::move(body));
    return result;
  }

  bool Send(std::vector<v1::AttemptResult> results) {
    v1::WorkerMessage message;
    for (v1::AttemptResult& one : results) {
      *message.mutable_results()->add_results() = std::move(one);
    }
    return stream_->Write(message);
  }
  bool Send(const v1::WorkerMessage& message) { return stream_->Write(message); }

  // False when the stream has ended.
  bool Read(v1::CoordinatorMessage* message) { return stream_->Read(message); }

  // The next message of that kind; others are passed over. Fails the process's patience, not the
  // test, if it never comes: ctest's timeout ends it.
  v1::CoordinatorMessage Next(v1::CoordinatorMessage::KindCase kind) {
    v1::CoordinatorMessage message;
    while (Read(&message)) {
      if (message.kind_case() == kind) return message;
    }
    return {};
  }

  // Reads until `count` results have been acknowledged, or the stream ends.
  int AwaitAcknowledged(int count) {
    int seen = 0;
    v1::CoordinatorMessage message;
    while (seen < count && Read(&message)) seen += message.acknowledge().sequences_size();
    return seen;
  }

  grpc::Status Finish() {
    v1::CoordinatorMessage ignored;
    while (stream_->Read(&ignored)) {
    }
    finished_ = true;
    return stream_->Finish();
  }
  void WritesDone() { stream_->WritesDone(); }

 private:
  const std::string session_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> stream_;
  uint64_t sequence_ = 0;
  bool finished_ = false;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_COORDINATOR_RPC_FAKE_WORKER_H_
