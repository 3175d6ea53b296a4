// What a request costs under the dispatcher's lock. Run by hand in an optimized build:
// dispatcher_bench [REQUESTS] [BACKENDS]
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "coordinator/core/dispatcher.h"

namespace {

using namespace nightshift;

constexpr size_t kBatch = 512;

// CPU time of this thread, seconds: other programs on the machine do not count.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

int Run(int64_t total, int backends) {
  Clock& clock = Clock::Real();
  Dispatcher dispatcher{DispatcherOptions{}};
  std::vector<absl::Status> refused;

  JobCommand seal;
  seal.kind = JobCommand::Kind::kSeal;
  seal.job = 1;
  seal.record.set_id("job_bench0000000");
  seal.record.set_total(total);
  seal.record.add_models("m");
  const std::vector<JobCommand> seals = {seal};
  dispatcher.Apply(dispatcher.Prepare({}, seals, &refused, clock.Now(), clock.WallNow()),
                   clock.Now(), clock.WallNow());

  v1::Hello hello;
  hello.set_protocol("nightshift.v1");
  hello.set_name("w");
  hello.set_session("s");
  v1::Report report;
  for (int i = 0; i < backends; ++i) {
    const std::string name = "backend-" + std::to_string(i);
    v1::BackendReport* figures = report.add_backends();
    figures->mutable_info()->set_name(name);
    figures->mutable_info()->add_models("m");
    figures->set_limit(256);
    figures->set_requests_per_second(200);
    *hello.add_backends() = figures->info();
  }
  const WorkerNumber worker = dispatcher.OnHello(hello, clock.Now(), clock.WallNow())->worker;
  dispatcher.OnReport(worker, report, clock.Now());

  double granting = 0, committing = 0;
  int64_t granted = 0, plans = 0, commits = 0;
  std::vector<ResultEvent> results;
  std::vector<JobCommand> frontier(1);
  frontier[0].kind = JobCommand::Kind::kFrontier;
  frontier[0].job = 1;
  while (granted < total) {
    double from = CpuSeconds();
    const GrantPlan plan = dispatcher.PlanGrants(clock.Now());
    granting += CpuSeconds() - from;
    ++plans;
    results.clear();
    for (const Grant& grant : plan.grants) {
      for (const Grant::Item& item : grant.items) {
        ResultEvent& event = results.emplace_back();
        event.worker = worker;
        event.result.mutable_key()->set_job(item.id.job);
        event.result.mutable_key()->set_index(item.id.index);
        event.result.set_kind(v1::AttemptResult::ANSWERED);
        event.result.set_backend(grant.backend);
        event.result.set_http_status(200);
        event.result.set_request_id("req-0123456789abcdef");
        event.result.set_finish_reason("stop");
        event.result.mutable_timing()->set_latency_ms(100);
        event.result.mutable_usage()->set_completion_tokens(100);
      }
    }
    granted += static_cast<int64_t>(results.size());
    if (results.empty()) {
      std::fprintf(stderr, "no grant after %lld\n", static_cast<long long>(granted));
      return 1;
    }
    // In batches such as the committer makes while a sync runs.
    const absl::Span<const ResultEvent> all(results);
    for (size_t at = 0; at < all.size(); at += kBatch) {
      from = CpuSeconds();
      {
        const CommitPlan commit = dispatcher.Prepare(all.subspan(at, kBatch), frontier, &refused,
                                                     clock.Now(), clock.WallNow());
        dispatcher.Apply(commit, clock.Now(), clock.WallNow());
      }
      committing += CpuSeconds() - from;
      ++commits;
    }
  }
  const auto n = static_cast<double>(total);
  std::printf(
      "%lld requests, %d backends: grant %.0f ns, commit %.0f ns per request; "
      "%lld plans, %lld commits; state %d\n",
      static_cast<long long>(total), backends, granting / n * 1e9, committing / n * 1e9,
      static_cast<long long>(plans), static_cast<long long>(commits),
      static_cast<int>(dispatcher.GetRecord(1)->state()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return Run(argc > 1 ? std::atoll(argv[1]) : 1'000'000, argc > 2 ? std::atoi(argv[2]) : 8);
}
