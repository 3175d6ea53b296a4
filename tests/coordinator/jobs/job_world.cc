#include "tests/coordinator/jobs/job_world.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "coordinator/jobs/audit.h"
#include "coordinator/jobs/recovery.h"

namespace nightshift {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

}  // namespace

absl::Status StoppingStore::Commit(WriteSet writes) {
  MutexLock lock(&mutex_);
  if (left_ == 0) {
    stopped_ = true;
    return absl::UnavailableError("the machine has stopped");
  }
  const absl::Status status = inner_.Commit(std::move(writes));
  // Ones that were refused have written nothing.
  if (status.ok()) {
    --left_;
    ++commits_;
  }
  return status;
}

absl::Status StoppingStore::Health() const {
  MutexLock lock(&mutex_);
  return stopped_ ? absl::UnavailableError("the machine has stopped") : inner_.Health();
}

int64_t StoppingStore::commits() const {
  MutexLock lock(&mutex_);
  return commits_;
}

JobWorld::JobWorld(Store& store, Options options) : store_(store), dispatcher_(options.dispatcher) {
  // A store that has stopped cannot be cleaned up; what is in it can be loaded all the same.
  const absl::Status dropped = DropUnsealedJobs(store_);
  absl::StatusOr<std::vector<LoadedJob>> jobs = LoadJobs(store_);
  NIGHTSHIFT_CHECK(jobs.ok(), jobs.status().ToString());
  dispatcher_.Load(*std::move(jobs), clock_.Now());
  // Before there is a committer, whose thread may be the first to want it.
  dispatcher_.SetWakeUp([this] {
    if (made_ && dispatcher_.HasInternalWork()) committer_->Nudge();
  });
  committer_ = std::make_unique<Committer>(
      options.committer, store_, dispatcher_, clock_,
      [this](const Outgoing& message) { OnMessage(message); },
      [this](const absl::Status&) {
        MutexLock lock(&mutex_);
        ++broken_;
        changed_.SignalAll();
      });
  made_ = true;
  if (dispatcher_.HasInternalWork()) committer_->Nudge();
  v1::Hello hello;
  hello.set_protocol("nightshift.v1");
  hello.set_name("worker-1");
  hello.set_session("session-1");
  hello.add_backends()->set_name("backend-1");
  hello.mutable_backends(0)->set_state("ready");
  const auto reply = dispatcher_.OnHello(hello, clock_.Now(), clock_.WallNow());
  NIGHTSHIFT_CHECK(reply.ok(), reply.status().ToString());
  worker_ = reply->worker;
}

JobWorld::~JobWorld() { committer_->Shutdown(); }

void JobWorld::OnMessage(const Outgoing& message) {
  MutexLock lock(&mutex_);
  for (const uint64_t sequence : message.message.acknowledge().sequences()) {
    EXPECT_TRUE(acknowledged_.insert(sequence).second) << "acknowledged twice: " << sequence;
  }
  messages_.push_back(message.message);
  changed_.SignalAll();
}

int64_t JobWorld::broken_count() const {
  MutexLock lock(&mutex_);
  return broken_;
}

void JobWorld::WaitUntilBroken() {
  MutexLock lock(&mutex_);
  while (broken_ == 0) {
    NIGHTSHIFT_CHECK(changed_.WaitFor(&mutex_, kPatience), "nobody noticed");
  }
}

std::set<uint64_t> JobWorld::acknowledged() const {
  MutexLock lock(&mutex_);
  return acknowledged_;
}

std::vector<v1::CoordinatorMessage> JobWorld::messages() const {
  MutexLock lock(&mutex_);
  return messages_;
}

v1::SubmittedRequest JobWorld::Request(int64_t n) {
  v1::SubmittedRequest request;
  request.set_custom_id(absl::StrCat("r-", n));
  request.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
  request.set_body(absl::StrCat(R"({"model":"m","messages":[],"n":)", n, "}"));
  request.set_line(n + 1);
  request.set_model("m");
  return request;
}

v1::SubmitRequests JobWorld::Requests(int64_t first, int64_t count) {
  v1::SubmitRequests requests;
  for (int64_t n = first; n < first + count; ++n) *requests.add_requests() = Request(n);
  return requests;
}

absl::StatusOr<v1::SubmitReply> JobWorld::Submit(v1::SubmitRequests requests,
                                                 const v1::SubmitBegin& begin,
                                                 const std::string& token) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Submission> submission,
      Submission::Begin(store_, *committer_, dispatcher_, clock_, begin, testing::TempDir()));
  RETURN_IF_ERROR(submission->Add(std::move(requests)));
  v1::SubmitSeal seal;
  seal.set_idempotency_token(token);
  return submission->Seal(seal);
}

JobNumber JobWorld::SubmitJob(int64_t count, const v1::JobOptions& options) {
  v1::SubmitBegin begin;
  *begin.mutable_options() = options;
  const absl::StatusOr<v1::SubmitReply> reply = Submit(Requests(0, count), begin, "");
  NIGHTSHIFT_CHECK(reply.ok(), reply.status().ToString());
  NIGHTSHIFT_CHECK(reply->result() == v1::SubmitReply::CREATED, reply->ShortDebugString());
  return *dispatcher_.FindJob(reply->job().id());
}

absl::Status JobWorld::Control(JobNumber job, JobCommand::Kind kind) {
  JobCommand command;
  command.kind = kind;
  command.job = job;
  return committer_->Execute(std::move(command));
}

absl::StatusOr<std::vector<RequestId>> JobWorld::Lease(int64_t count) {
  const auto report = [this](int64_t limit) {
    v1::Report message;
    v1::BackendReport& backend = *message.add_backends();
    backend.mutable_info()->set_name("backend-1");
    backend.mutable_info()->set_state("ready");
    backend.set_limit(static_cast<int32_t>(limit));
    dispatcher_.OnReport(worker_, message, clock_.Now());
  };
  report(1 << 20);
  std::vector<RequestId> ids;
  for (bool more = true; more;) {
    GrantPlan plan = dispatcher_.PlanGrants(clock_.Now());
    for (const JobNumber job : plan.frontier_moved) {
      RETURN_IF_ERROR(Control(job, JobCommand::Kind::kFrontier));
    }
    more = !plan.grants.empty() && static_cast<int64_t>(ids.size()) < count;
    for (const Grant& grant : plan.grants) {
      std::vector<RequestId> back;
      for (const Grant::Item& item : grant.items) {
        (static_cast<int64_t>(ids.size()) < count ? ids : back).push_back(item.id);
        attempts_[item.id] = item.attempt;
      }
      dispatcher_.Ungrant(worker_, back, clock_.Now());
    }
  }
  report(0);
  return ids;
}

std::string JobWorld::Body(RequestId id) {
  return absl::StrCat(R"({"job":)", id.job, R"(,"index":)", id.index, "}");
}

v1::AttemptResult JobWorld::Result(RequestId id, v1::AttemptResult::Kind kind) {
  v1::AttemptResult result;
  result.mutable_key()->set_job(id.job);
  result.mutable_key()->set_index(id.index);
  result.set_sequence(++sequence_);
  result.set_attempt(attempts_[id]);
  result.set_backend("backend-1");
  result.set_kind(kind);
  result.set_charged(kind == v1::AttemptResult::RETRY);
  result.mutable_timing()->set_ttft_ms(-1);
  result.mutable_timing()->set_latency_ms(20);
  result.mutable_timing()->set_started_unix_ms(absl::ToUnixMillis(clock_.WallNow()));
  if (kind == v1::AttemptResult::ANSWERED) {
    result.set_http_status(200);
    result.set_request_id(absl::StrCat("req-", id.index));
    result.set_body(Body(id));
    result.mutable_usage()->set_known(true);
    result.mutable_usage()->set_prompt_tokens(10);
    result.mutable_usage()->set_completion_tokens(5);
    result.mutable_usage()->set_cost_known(true);
    result.mutable_usage()->set_cost_usd(0.001);
    result.set_finish_reason("stop");
  } else if (kind == v1::AttemptResult::REJECTED) {
    result.set_http_status(400);
    result.set_error_class(v1::ERROR_CLASS_INVALID_REQUEST);
    result.set_body(R"({"error":{"message":"no"}})");
  } else {
    result.set_error_class(v1::ERROR_CLASS_TIMEOUT);
    result.set_error_code("request_timeout");
    result.set_error_message("no answer in time");
  }
  return result;
}

absl::Status JobWorld::Deliver(std::vector<v1::AttemptResult> results) {
  v1::ResultBatch batch;
  std::vector<uint64_t> sequences;
  for (v1::AttemptResult& result : results) {
    sequences.push_back(result.sequence());
    *batch.add_results() = std::move(result);
  }
  committer_->AddResults(worker_, std::move(batch));
  MutexLock lock(&mutex_);
  for (const uint64_t sequence : sequences) {
    while (acknowledged_.count(sequence) == 0) {
      if (broken_ > 0) return absl::UnavailableError("the committer is broken");
      if (!changed_.WaitFor(&mutex_, kPatience)) {
        return absl::DeadlineExceededError(absl::StrCat("result ", sequence, " is not confirmed"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status JobWorld::Answer(const std::vector<RequestId>& ids) {
  std::vector<v1::AttemptResult> results;
  for (const RequestId& id : ids) results.push_back(Result(id, v1::AttemptResult::ANSWERED));
  return Deliver(std::move(results));
}

absl::Status JobWorld::FinishAll() {
  for (;;) {
    // Past every retry's wait.
    clock_.Advance(absl::Hours(2));
    ASSIGN_OR_RETURN(const std::vector<RequestId> ids, Lease(1 << 20));
    if (ids.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(Answer(ids));
  }
}

v1::JobStatus JobWorld::Status(JobNumber job) {
  const absl::StatusOr<v1::JobStatus> status = dispatcher_.GetStatus(job, clock_.Now());
  NIGHTSHIFT_CHECK(status.ok(), status.status().ToString());
  return *status;
}

std::vector<std::string> JobWorld::Lines(JobNumber job, v1::ReadOutputRequest::Kind kind) {
  v1::ReadOutputRequest request;
  request.set_job(Status(job).id());
  request.set_kind(kind);
  absl::StatusOr<std::unique_ptr<OutputReader>> reader =
      OutputReader::Create(store_, dispatcher_, request);
  NIGHTSHIFT_CHECK(reader.ok(), reader.status().ToString());
  absl::StatusOr<std::vector<std::string>> lines = ReadLines(**reader, 64 << 10);
  NIGHTSHIFT_CHECK(lines.ok(), lines.status().ToString());
  return *std::move(lines);
}

void JobWorld::ExpectAuditAgrees(JobNumber job) {
  const v1::JobAudit audit = AuditJob(store_, dispatcher_, job);
  EXPECT_TRUE(audit.agrees()) << audit.id() << ": " << absl::StrJoin(audit.findings(), "\n");
}

absl::StatusOr<std::vector<std::string>> ReadLines(OutputReader& reader, size_t bytes_max,
                                                   std::string* cursor) {
  std::vector<std::string> lines;
  for (;;) {
    ASSIGN_OR_RETURN(const v1::OutputChunk chunk, reader.Next(bytes_max));
    if (cursor != nullptr) *cursor = chunk.cursor();
    if (chunk.count() == 0) {
      EXPECT_TRUE(chunk.lines().empty());
      return lines;
    }
    std::vector<std::string> more = absl::StrSplit(chunk.lines(), '\n');
    EXPECT_TRUE(more.back().empty()) << "a chunk ends within a line";
    more.pop_back();
    EXPECT_EQ(static_cast<int64_t>(more.size()), chunk.count());
    lines.insert(lines.end(), more.begin(), more.end());
  }
}

}  // namespace nightshift
