#include "coordinator/http/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "coordinator/core/job_state.h"
#include "proto/words.h"

namespace nightshift {
namespace {

using prometheus::Counter;
template <typename Metric>
using MetricFamily = prometheus::Family<Metric>;
using prometheus::Gauge;
using prometheus::Histogram;

constexpr double kMillisPerSecond = 1000;
constexpr char kOther[] = "other";
// The states of core/worker_state.h, so that a state without workers is told as 0.
constexpr const char* kWorkerStates[] = {"connected", "silent", "draining", "gone"};

const Histogram::BucketBoundaries kLatencySeconds = {0.05, 0.1, 0.25, 0.5, 1,   2.5, 5,
                                                     10,   30,  60,   120, 300, 600, 1800};
const Histogram::BucketBoundaries kCommitSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                    0.05,   0.1,   0.25,   0.5,   1,    5};
const Histogram::BucketBoundaries kLeaseSizes = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

// A counter that somebody else counts.
void RaiseTo(Counter& counter, double value) {
  if (value > counter.Value()) counter.Increment(value - counter.Value());
}

}  // namespace

struct Metrics::Impl {
  // Of one backend; the pointers are the registry's.
  struct Backend {
    std::map<std::string, Counter*> attempts;  // by result
    Histogram* latency;
    Histogram* first_token;
    Counter* prompt_tokens;
    Counter* completion_tokens;
    Counter* cost;
  };

  Impl();
  MetricFamily<Counter>& NewCounter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  MetricFamily<Gauge>& NewGauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  MetricFamily<Histogram>& NewHistogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }

  std::string LabelOf(const std::string& backend) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Backend& BackendOf(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void CountAttempt(const v1::AttemptResult& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void CountOutcome(const char* outcome, int64_t count);
  void ReadJobs(const Dispatcher& dispatcher, MonotonicTime now);
  void ReadWorkers(const Dispatcher& dispatcher, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  prometheus::Registry registry;
  MetricFamily<Counter>& requests;
  MetricFamily<Counter>& attempts;
  MetricFamily<Histogram>& latency;
  MetricFamily<Histogram>& first_token;
  MetricFamily<Counter>& tokens;
  MetricFamily<Counter>& cost;
  MetricFamily<Gauge>& limit;
  MetricFamily<Gauge>& in_flight;
  Histogram& lease_requests;
  Gauge& pending;
  Gauge& backlog;
  Counter& duplicates;
  Counter& lapsed;
  Histogram& commit_seconds;
  MetricFamily<Gauge>& workers;

  Mutex mutex;
  std::map<std::string, Backend> backends ABSL_GUARDED_BY(mutex);  // by label
  std::set<std::string> labels ABSL_GUARDED_BY(mutex);
};

Metrics::Impl::Impl()
    : requests(NewCounter("nightshift_requests_total", "Requests that have their outcome.")),
      attempts(NewCounter("nightshift_attempts_total",
                          "Calls to backends, by how they went; repeated reports count once.")),
      latency(NewHistogram("nightshift_request_latency_seconds",
                           "From the start of a call to its last byte.")),
      first_token(NewHistogram("nightshift_time_to_first_token_seconds",
                               "From the start of a call to its first token, where it is known.")),
      tokens(NewCounter("nightshift_tokens_total", "Tokens, as the backends count them.")),
      cost(NewCounter("nightshift_cost_usd_total", "Cost of calls, where a price is known.")),
      limit(NewGauge("nightshift_backend_concurrency_limit",
                     "Calls that workers may have in flight, found by themselves.")),
      in_flight(NewGauge("nightshift_backend_in_flight", "Calls in flight.")),
      lease_requests(
          NewHistogram("nightshift_lease_requests", "Requests of a lease.").Add({}, kLeaseSizes)),
      pending(NewGauge("nightshift_pending_requests",
                       "Requests of jobs that have not ended, neither finished nor leased.")
                  .Add({})),
      backlog(NewGauge("nightshift_backlog_seconds",
                       "Time to finish all that is unfinished, at the rate of the last minute.")
                  .Add({})),
      duplicates(NewCounter("nightshift_duplicate_results_total",
                            "Results for requests that had their outcome already; dropped.")
                     .Add({})),
      lapsed(NewCounter("nightshift_lapsed_leases_total",
                        "Leases lost because their worker showed no sign of life.")
                 .Add({})),
      commit_seconds(NewHistogram("nightshift_store_commit_seconds",
                                  "Time of a commit of the store, sync included.")
                         .Add({}, kCommitSeconds)),
      workers(NewGauge("nightshift_workers", "Workers, by state.")) {
  for (const char* outcome : {"succeeded", "failed", "cancelled", "expired"}) {
    CountOutcome(outcome, 0);
  }
}

std::string Metrics::Impl::LabelOf(const std::string& backend) {
  if (labels.contains(backend)) return backend;
  if (labels.size() >= kBackendLabelsMax) return kOther;
  labels.insert(backend);
  return backend;
}

Metrics::Impl::Backend& Metrics::Impl::BackendOf(const std::string& name) {
  const std::string label = LabelOf(name);
  const auto found = backends.find(label);
  if (found != backends.end()) return found->second;
  Backend& backend = backends[label];
  backend.latency = &latency.Add({{"backend", label}}, kLatencySeconds);
  backend.first_token = &first_token.Add({{"backend", label}}, kLatencySeconds);
  backend.prompt_tokens = &tokens.Add({{"backend", label}, {"direction", "prompt"}});
  backend.completion_tokens = &tokens.Add({{"backend", label}, {"direction", "completion"}});
  backend.cost = &cost.Add({{"backend", label}});
  return backend;
}

void Metrics::Impl::CountAttempt(const v1::AttemptResult& result) {
  Backend& backend = BackendOf(result.backend());
  const bool answered = result.kind() == v1::AttemptResult::ANSWERED;
  const std::string word = answered ? "answered" : ErrorClassWord(result.error_class());
  Counter*& attempt = backend.attempts[word];
  if (attempt == nullptr) {
    attempt = &attempts.Add({{"backend", LabelOf(result.backend())}, {"result", word}});
  }
  attempt->Increment();
  const v1::AttemptTiming& timing = result.timing();
  if (answered && result.has_timing() && timing.latency_ms() >= 0) {
    backend.latency->Observe(static_cast<double>(timing.latency_ms()) / kMillisPerSecond);
  }
  if (answered && result.has_timing() && timing.ttft_ms() >= 0) {
    backend.first_token->Observe(static_cast<double>(timing.ttft_ms()) / kMillisPerSecond);
  }
  const v1::Usage& usage = result.usage();
  if (usage.known()) {
    backend.prompt_tokens->Increment(static_cast<double>(usage.prompt_tokens()));
    backend.completion_tokens->Increment(static_cast<double>(usage.completion_tokens()));
  }
  if (usage.cost_known()) backend.cost->Increment(usage.cost_usd());
}

void Metrics::Impl::CountOutcome(const char* outcome, int64_t count) {
  requests.Add({{"outcome", outcome}}).Increment(static_cast<double>(count));
}

void Metrics::Impl::ReadJobs(const Dispatcher& dispatcher, MonotonicTime now) {
  int64_t waiting = 0;
  int64_t unfinished = 0;
  double rate = 0;
  for (const Dispatcher::JobHead& head : dispatcher.ListHeads()) {
    if (head.ended) continue;
    const absl::StatusOr<v1::JobStatus> status = dispatcher.GetStatus(head.job, now);
    if (!status.ok() || JobStateInfo(status->state()).terminal) continue;
    const v1::Counts& counts = status->counts();
    waiting += counts.pending() + counts.retrying();
    unfinished += counts.pending() + counts.retrying() + counts.in_flight();
    rate += status->requests_per_second();
  }
  pending.Set(static_cast<double>(waiting));
  // Without a rate there is no end in sight.
  backlog.Set(unfinished == 0 ? 0
              : rate > 0      ? static_cast<double>(unfinished) / rate
                              : std::numeric_limits<double>::infinity());
}

void Metrics::Impl::ReadWorkers(const Dispatcher& dispatcher, MonotonicTime now) {
  std::map<std::string, int> by_state;
  for (const char* state : kWorkerStates) by_state[state] = 0;
  std::map<std::string, std::pair<int64_t, int64_t>> by_backend;
  for (const std::string& label : labels) by_backend[label] = {0, 0};
  for (const v1::WorkerStatus& worker : dispatcher.ListWorkers(now)) {
    ++by_state[worker.state()];
    if (worker.state() == "gone") continue;
    for (const v1::WorkerBackendStatus& backend : worker.backends()) {
      auto& [limits, flying] = by_backend[LabelOf(backend.name())];
      limits += backend.limit();
      flying += backend.in_flight();
    }
  }
  for (const auto& [state, count] : by_state) workers.Add({{"state", state}}).Set(count);
  for (const auto& [label, figures] : by_backend) {
    limit.Add({{"backend", label}}).Set(static_cast<double>(figures.first));
    in_flight.Add({{"backend", label}}).Set(static_cast<double>(figures.second));
  }
}

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::OnCommit(absl::Span<const ResultEvent> results, const CommitPlan& plan) {
  MutexLock lock(&impl_->mutex);
  int64_t succeeded = 0;
  int64_t failed = 0;
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    const ResultDecision& decision = plan.decisions[i];
    const bool recorded = decision.kind == ResultDecision::Kind::kRecord;
    if (!recorded && decision.kind != ResultDecision::Kind::kRetry) continue;
    impl_->CountAttempt(results[i].result);
    if (recorded && decision.outcome.kind() == v1::OUTCOME_SUCCEEDED) ++succeeded;
    if (recorded && decision.outcome.kind() == v1::OUTCOME_FAILED) ++failed;
  }
  for (const ResultDecision& loss : plan.losses) {
    if (loss.kind == ResultDecision::Kind::kRecord) ++failed;
  }
  for (const JobCommand& command : plan.commands) {
    failed += static_cast<int64_t>(command.invalid.size());
  }
  impl_->CountOutcome("succeeded", succeeded);
  impl_->CountOutcome("failed", failed);
  for (const CommitPlan::JobWrite& write : plan.job_writes) {
    if (write.erase || !JobStateInfo(write.record.state()).terminal) continue;
    impl_->CountOutcome("cancelled", write.record.cancelled());
    impl_->CountOutcome("expired", write.record.expired());
  }
}

void Metrics::OnStoreCommit(absl::Duration took) {
  impl_->commit_seconds.Observe(absl::ToDoubleSeconds(took));
}

void Metrics::OnLease(int requests) { impl_->lease_requests.Observe(requests); }

std::string Metrics::Render(const Dispatcher& dispatcher, MonotonicTime now) {
  RaiseTo(impl_->duplicates, static_cast<double>(dispatcher.duplicate_results()));
  RaiseTo(impl_->lapsed, static_cast<double>(dispatcher.lapsed_leases()));
  impl_->ReadJobs(dispatcher, now);
  {
    MutexLock lock(&impl_->mutex);
    impl_->ReadWorkers(dispatcher, now);
  }
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace nightshift
