// How fast jobs go in, results are committed and lines come out, on RocksDB. Run by hand:
//   coordinator_bench [REQUESTS] [FOLDER]
// Wall time and the CPU of the whole process (RocksDB's threads included) per request.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "coordinator/commit/committer.h"
#include "coordinator/jobs/audit.h"
#include "coordinator/jobs/output_reader.h"
#include "coordinator/jobs/recovery.h"
#include "coordinator/jobs/submission.h"
#include "storage/rocksdb_store.h"
#include "tests/storage/temp_folder.h"

namespace nightshift {
namespace {

constexpr int64_t kRequestsPerMessage = 500;
constexpr int kResultsPerMessage = 64;
// What a few workers keep until it is acknowledged.
constexpr int64_t kUnacknowledgedMax = 8192;
constexpr size_t kAnswerBytes = 800;

class Stopwatch {
 public:
  explicit Stopwatch(const char* what, int64_t items)
      : what_(what), items_(items), wall_(std::chrono::steady_clock::now()), cpu_(Cpu()) {}
  ~Stopwatch() {
    const double wall =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_).count();
    const auto items = static_cast<double>(items_);
    std::printf("%-22s %10.0f /s  %6.2f us wall  %6.2f us CPU each (%.2f s)\n", what_, items / wall,
                wall / items * 1e6, (Cpu() - cpu_) / items * 1e6, wall);
    std::fflush(stdout);
  }

 private:
  static double Cpu() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }

  const char* const what_;
  const int64_t items_;
  const std::chrono::steady_clock::time_point wall_;
  const double cpu_;
};

void Check(const absl::Status& status) { NIGHTSHIFT_CHECK(status.ok(), status.ToString()); }

v1::SubmitRequests MakeRequests(int64_t first, int64_t count) {
  v1::SubmitRequests requests;
  for (int64_t n = first; n < first + count; ++n) {
    v1::SubmittedRequest& request = *requests.add_requests();
    request.set_custom_id(absl::StrCat("request-", n));
    request.set_endpoint(v1::ENDPOINT_CHAT_COMPLETIONS);
    request.set_body(absl::StrCat(
        R"({"model":"llama-3.3-70b","messages":[{"role":"system","content":"You answer briefly )",
        R"(and to the point."},{"role":"user","content":"What is interesting about number )", n,
        R"( and why would anyone want to know about it?"}],"max_tokens":256,"temperature":0.2})"));
    request.set_line(n + 1);
    request.set_model("llama-3.3-70b");
  }
  return requests;
}

class Bench {
 public:
  Bench(Store& store, int64_t total)
      : store_(store),
        total_(total),
        dispatcher_(DispatcherOptions{.reclaim_grace = absl::ZeroDuration()}),
        committer_(
            {}, store, dispatcher_, Clock::Real(), [this](const Outgoing& m) { OnMessage(m); },
            [](const absl::Status& status) { Check(status); }) {}

  void Run() {
    Submit();
    Lease();
    Commit();
    Read(v1::ReadOutputRequest::RESULTS, "read results");
    Read(v1::ReadOutputRequest::ERRORS, "read errors (none)");
    committer_.Shutdown();
    {
      const Stopwatch watch("recovery", total_);
      Check(LoadJobs(store_).status());
    }
    const Stopwatch watch("audit", total_);
    NIGHTSHIFT_CHECK(AuditJob(store_, dispatcher_, job_).agrees(), "the audit does not agree");
  }

 private:
  void Submit() {
    std::vector<v1::SubmitRequests> messages;
    for (int64_t n = 0; n < total_; n += kRequestsPerMessage) {
      messages.push_back(MakeRequests(n, std::min(kRequestsPerMessage, total_ - n)));
    }
    const Stopwatch watch("submit", total_);
    auto submission = Submission::Begin(store_, committer_, dispatcher_, Clock::Real(), {}, "/tmp");
    Check(submission.status());
    for (v1::SubmitRequests& message : messages) Check((*submission)->Add(std::move(message)));
    const auto reply = (*submission)->Seal({});
    Check(reply.status());
    job_ = *dispatcher_.FindJob(reply->job().id());
  }

  void Lease() {
    v1::Hello hello;
    hello.set_protocol("nightshift.v1");
    hello.set_name("worker");
    hello.set_session("session");
    hello.add_backends()->set_name("gpu-1");
    const auto reply = dispatcher_.OnHello(hello, Clock::Real().Now(), Clock::Real().WallNow());
    Check(reply.status());
    worker_ = reply->worker;
    v1::Report report;
    report.add_backends()->mutable_info()->set_name("gpu-1");
    report.mutable_backends(0)->set_limit(1 << 30);
    dispatcher_.OnReport(worker_, report, Clock::Real().Now());
    const Stopwatch watch("lease (in memory)", total_);
    for (;;) {
      const GrantPlan plan = dispatcher_.PlanGrants(Clock::Real().Now());
      if (plan.grants.empty()) break;
      for (const Grant& grant : plan.grants) {
        for (const Grant::Item& item : grant.items) ids_.push_back(item.id);
      }
    }
    NIGHTSHIFT_CHECK(static_cast<int64_t>(ids_.size()) == total_, "not everything was leased");
  }

  void Commit() {
    std::vector<v1::ResultBatch> batches;
    const std::string filler(kAnswerBytes, 'a');
    for (const RequestId& id : ids_) {
      if (batches.empty() || batches.back().results_size() == kResultsPerMessage) {
        batches.emplace_back();
      }
      v1::AttemptResult& result = *batches.back().add_results();
      result.mutable_key()->set_job(id.job);
      result.mutable_key()->set_index(id.index);
      result.set_sequence(++sequence_);
      result.set_backend("gpu-1");
      result.set_kind(v1::AttemptResult::ANSWERED);
      result.set_http_status(200);
      result.set_request_id(absl::StrCat("chatcmpl-", id.index));
      result.set_body(
          absl::StrCat(R"({"id":"chatcmpl-)", id.index, R"(","content":")", filler, R"("})"));
      result.mutable_timing()->set_started_unix_ms(1790000000000);
      result.mutable_timing()->set_ttft_ms(-1);
      result.mutable_timing()->set_latency_ms(812);
      result.mutable_usage()->set_known(true);
      result.mutable_usage()->set_prompt_tokens(40);
      result.mutable_usage()->set_completion_tokens(200);
      result.set_finish_reason("stop");
    }
    const Stopwatch watch("commit", total_);
    int64_t sent = 0;
    for (v1::ResultBatch& batch : batches) {
      sent += batch.results_size();
      committer_.AddResults(worker_, std::move(batch));
      WaitFor(sent - kUnacknowledgedMax);
    }
    WaitFor(total_);
    std::printf("  %lld acknowledgements: %.0f results per commit\n",
                static_cast<long long>(messages_), static_cast<double>(total_) / messages_);
  }

  void OnMessage(const Outgoing& message) {
    MutexLock lock(&mutex_);
    acknowledged_ += message.message.acknowledge().sequences_size();
    ++messages_;
    changed_.SignalAll();
  }
  void WaitFor(int64_t count) {
    MutexLock lock(&mutex_);
    while (acknowledged_ < count) changed_.Wait(&mutex_);
  }

  void Read(v1::ReadOutputRequest::Kind kind, const char* what) {
    v1::ReadOutputRequest request;
    request.set_job(dispatcher_.GetStatus(job_, Clock::Real().Now())->id());
    request.set_kind(kind);
    const Stopwatch watch(what, total_);
    auto reader = OutputReader::Create(store_, dispatcher_, request);
    Check(reader.status());
    size_t bytes = 0;
    while (!(*reader)->AtEnd()) {
      const auto chunk = (*reader)->Next(size_t{1} << 20);
      Check(chunk.status());
      bytes += chunk->lines().size();
    }
    std::printf("  %.1f MB\n", static_cast<double>(bytes) / 1e6);
  }

  Store& store_;
  const int64_t total_;
  Dispatcher dispatcher_;
  Mutex mutex_;
  CondVar changed_;
  int64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t messages_ = 0;
  JobNumber job_ = 0;
  WorkerNumber worker_ = 0;
  uint64_t sequence_ = 0;
  std::vector<RequestId> ids_;
  // Last: its thread uses what is above.
  Committer committer_;
};

}  // namespace
}  // namespace nightshift

int main(int argc, char** argv) {
  const int64_t total = argc > 1 ? std::atoll(argv[1]) : 200000;
  const nightshift::TempFolder temporary;
  nightshift::RocksDbStoreOptions options;
  options.path = argc > 2 ? argv[2] : temporary / "db";
  auto store = nightshift::OpenRocksDbStore(options);
  nightshift::Check(store.status());
  nightshift::Bench(**store, total).Run();
}
