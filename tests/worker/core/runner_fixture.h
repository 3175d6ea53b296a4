// A runner with ports that write down what it does, and a clock that stands still.
#ifndef NIGHTSHIFT_TESTS_WORKER_CORE_RUNNER_FIXTURE_H_
#define NIGHTSHIFT_TESTS_WORKER_CORE_RUNNER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "worker/core/runner.h"

namespace nightshift {

class RecordingCalls : public CallPort {
 public:
  void Start(CallRequest request) override { started.push_back(std::move(request)); }
  void Abort(CallId id) override { aborted.push_back(id); }

  std::vector<CallRequest> started;
  std::vector<CallId> aborted;
};

class RecordingLink : public LinkPort {
 public:
  void Send(v1::WorkerMessage message) override {
    sent.push_back(std::move(message));
    if (slow) ++backlog;
  }
  int Backlog() const override { return backlog; }
  void Reopen() override { ++reopened; }

  std::deque<v1::WorkerMessage> sent;
  bool slow = false;  // messages stay in the backlog until the test takes them out
  int backlog = 0;
  int reopened = 0;
};

inline CallOutcome Answer(CallId id) {
  CallOutcome outcome;
  outcome.id = id;
  outcome.transport = Transport::kComplete;
  outcome.http_status = 200;
  outcome.body = absl::StrCat(R"({"answer":)", id, "}");
  outcome.body_is_json = true;
  outcome.has_answer = true;
  outcome.finish_reason = "stop";
  outcome.usage.set_prompt_tokens(3);
  outcome.usage.set_completion_tokens(5);
  outcome.usage.set_known(true);
  return outcome;
}

inline CallOutcome HttpError(CallId id, int status, std::string message = "", std::string code = "",
                             std::string type = "") {
  CallOutcome outcome;
  outcome.id = id;
  outcome.transport = Transport::kComplete;
  outcome.http_status = status;
  outcome.body = R"({"error":{}})";
  outcome.body_is_json = true;
  outcome.error_message = std::move(message);
  outcome.error_code = std::move(code);
  outcome.error_type = std::move(type);
  return outcome;
}

inline CallOutcome Broken(CallId id, Transport transport, std::string detail = "") {
  CallOutcome outcome;
  outcome.id = id;
  outcome.transport = transport;
  outcome.transport_detail = std::move(detail);
  return outcome;
}

class RunnerTest : public testing::Test {
 protected:
  static constexpr uint64_t kJob = 7;

  // One backend "b" with room for `limit` calls, connected and welcomed.
  void Connect(int limit = 4) {
    Make(limit);
    LinkUp();
    Welcome();
    link_.sent.clear();
  }

  RunnerOptions Options(int limit) {
    RunnerOptions options;
    options.name = "host-1";
    options.session = "s1";
    options.version = "0.1.0";
    options.backends.push_back(Backend("b", NewFixedLimiter(limit)));
    return options;
  }
  static RunnerBackend Backend(const std::string& name, std::unique_ptr<Limiter> limiter) {
    RunnerBackend backend;
    backend.info.set_name(name);
    backend.info.set_state("ready");
    backend.limiter = std::move(limiter);
    return backend;
  }
  void Make(int limit = 4) { Make(Options(limit)); }
  void Make(RunnerOptions options) {
    runner_ = std::make_unique<Runner>(std::move(options), calls_, link_);
  }

  void LinkUp() { runner_->OnLinkUp(Now()); }
  void LinkDown() { runner_->OnLinkDown(Now()); }
  void Welcome(std::vector<uint64_t> drop = {}) {
    v1::CoordinatorMessage message;
    message.mutable_welcome()->set_lease_ttl_ms(30'000);
    message.mutable_welcome()->set_reconnect_grace_ms(8'000);
    for (const uint64_t index : drop) SetKey(message.mutable_welcome()->add_drop(), index);
    runner_->OnMessage(std::move(message), Now());
  }
  // Requests first … first + count - 1 for `backend`.
  void Lease(uint64_t first, int count, const std::string& backend = "b", int attempt = 0,
             int run = 1) {
    v1::CoordinatorMessage message;
    message.mutable_lease()->set_backend(backend);
    for (int i = 0; i < count; ++i) {
      v1::LeasedRequest& request = *message.mutable_lease()->add_requests();
      SetKey(request.mutable_key(), first + i);
      request.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
      request.set_body(absl::StrCat("body ", first + i));
      request.set_attempt(attempt);
      request.set_run(run);
    }
    runner_->OnMessage(std::move(message), Now());
  }
  void Acknowledge(std::vector<uint64_t> sequences) {
    v1::CoordinatorMessage message;
    for (const uint64_t sequence : sequences) {
      message.mutable_acknowledge()->add_sequences(sequence);
    }
    runner_->OnMessage(std::move(message), Now());
  }
  void Revoke(std::vector<uint64_t> indexes) {
    v1::CoordinatorMessage message;
    for (const uint64_t index : indexes) SetKey(message.mutable_revoke()->add_keys(), index);
    runner_->OnMessage(std::move(message), Now());
  }
  void Finish(CallOutcome outcome) { runner_->OnCallFinished(std::move(outcome), Now()); }

  // Moves time forward in the steps that the runner asks for.
  void Advance(absl::Duration d) {
    const MonotonicTime end = Now() + d;
    while (true) {
      const MonotonicTime next = runner_->OnTimer(Now());
      ASSERT_GT(next, Now()) << "the runner wants to be called at once, for ever";
      if (next > end) break;
      clock_.Advance(next - Now());
    }
    clock_.Advance(end - Now());
    runner_->OnTimer(Now());
  }

  static void SetKey(v1::RequestKey* key, uint64_t index) {
    key->set_job(kJob);
    key->set_index(index);
  }
  MonotonicTime Now() const { return clock_.Now(); }

  // The calls started, by their bodies.
  std::vector<std::string> Started() const {
    std::vector<std::string> bodies;
    for (const CallRequest& call : calls_.started) bodies.push_back(call.body);
    return bodies;
  }
  // All results sent, in order.
  std::vector<v1::AttemptResult> Results() const {
    std::vector<v1::AttemptResult> results;
    for (const v1::WorkerMessage& message : link_.sent) {
      for (const v1::AttemptResult& result : message.results().results()) results.push_back(result);
    }
    return results;
  }
  std::vector<uint64_t> ReturnedIndexes() const {
    std::vector<uint64_t> indexes;
    for (const v1::WorkerMessage& message : link_.sent) {
      for (const v1::RequestKey& key : message.returned().keys()) indexes.push_back(key.index());
    }
    return indexes;
  }
  std::vector<v1::Report> Reports() const {
    std::vector<v1::Report> reports;
    for (const v1::WorkerMessage& message : link_.sent) {
      if (message.has_report()) reports.push_back(message.report());
    }
    return reports;
  }
  v1::BackendReport LastReport() const {
    const std::vector<v1::Report> reports = Reports();
    return reports.empty() ? v1::BackendReport() : reports.back().backends(0);
  }

  FakeClock clock_;
  RecordingCalls calls_;
  RecordingLink link_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_WORKER_CORE_RUNNER_FIXTURE_H_
