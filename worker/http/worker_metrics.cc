#include "worker/http/worker_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>

#include "proto/words.h"

namespace nightshift {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

constexpr double kMillisPerSecond = 1000;
const Histogram::BucketBoundaries kLatencySeconds = {0.05, 0.1, 0.25, 0.5, 1,   2.5, 5,
                                                     10,   30,  60,   120, 300, 600, 1800};

prometheus::Family<Counter>& NewCounter(prometheus::Registry& registry, const char* name,
                                        const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
prometheus::Family<Gauge>& NewGauge(prometheus::Registry& registry, const char* name,
                                    const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
prometheus::Family<Histogram>& NewHistogram(prometheus::Registry& registry, const char* name,
                                            const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

// The library's own locks are enough: nothing here belongs together.
struct WorkerMetrics::Impl {
  // What each answer counts on; the pointers are the registry's.
  struct Backend {
    Counter* answered;
    Histogram* latency;
    Histogram* first_token;
    Counter* prompt_tokens;
    Counter* completion_tokens;
    Counter* cost;
  };
  Backend& BackendOf(const std::string& name);

  prometheus::Registry registry;
  prometheus::Family<Counter>& attempts =
      NewCounter(registry, "nightshift_attempts_total",
                 "Attempts that have ended, by how: answered, or why not.");
  prometheus::Family<Histogram>& latency =
      NewHistogram(registry, "nightshift_request_latency_seconds",
                   "From the start of an answered call to its last byte.");
  prometheus::Family<Histogram>& first_token =
      NewHistogram(registry, "nightshift_time_to_first_token_seconds",
                   "From the start of a call to its first token, where it was streamed or told.");
  prometheus::Family<Counter>& tokens =
      NewCounter(registry, "nightshift_tokens_total", "Tokens, as the backends count them.");
  prometheus::Family<Counter>& cost =
      NewCounter(registry, "nightshift_cost_usd_total", "Cost of calls, where a price is known.");
  prometheus::Family<Gauge>& limit =
      NewGauge(registry, "nightshift_backend_concurrency_limit", "Calls that may be in flight.");
  prometheus::Family<Gauge>& in_flight =
      NewGauge(registry, "nightshift_backend_in_flight", "Calls in flight.");
  prometheus::Family<Gauge>& buffered = NewGauge(registry, "nightshift_backend_buffered",
                                                 "Requests that are leased and not started.");
  Gauge& outbox = NewGauge(registry, "nightshift_outbox_requests",
                           "Results that the coordinator has not recorded.")
                      .Add({});
  std::map<std::string, Backend> backends;  // of the counting thread
  Gauge& connected = NewGauge(registry, "nightshift_worker_connected",
                              "1 while the coordinator has let this worker in.")
                         .Add({});
};

WorkerMetrics::WorkerMetrics() : impl_(std::make_unique<Impl>()) {}
WorkerMetrics::~WorkerMetrics() = default;

void WorkerMetrics::OnConnected(bool connected) { impl_->connected.Set(connected ? 1 : 0); }

void WorkerMetrics::OnReport(const v1::Report& report) {
  for (const v1::BackendReport& backend : report.backends()) {
    const prometheus::Labels label = {{"backend", backend.info().name()}};
    impl_->limit.Add(label).Set(backend.limit());
    impl_->in_flight.Add(label).Set(backend.in_flight());
    impl_->buffered.Add(label).Set(backend.buffered());
  }
  impl_->outbox.Set(static_cast<double>(report.outbox_requests()));
}

WorkerMetrics::Impl::Backend& WorkerMetrics::Impl::BackendOf(const std::string& name) {
  const auto found = backends.find(name);
  if (found != backends.end()) return found->second;
  Backend& backend = backends[name];
  backend.latency = &latency.Add({{"backend", name}}, kLatencySeconds);
  backend.first_token = &first_token.Add({{"backend", name}}, kLatencySeconds);
  backend.prompt_tokens = &tokens.Add({{"backend", name}, {"direction", "prompt"}});
  backend.completion_tokens = &tokens.Add({{"backend", name}, {"direction", "completion"}});
  backend.cost = &cost.Add({{"backend", name}});
  backend.answered = &attempts.Add({{"backend", name}, {"result", "answered"}});
  return backend;
}

void WorkerMetrics::OnResult(const v1::AttemptResult& result) {
  Impl::Backend& backend = impl_->BackendOf(result.backend());
  const bool answered = result.kind() == v1::AttemptResult::ANSWERED;
  if (answered) {
    backend.answered->Increment();
  } else {
    impl_->attempts
        .Add({{"backend", result.backend()},
              {"result", std::string(ErrorClassWord(result.error_class()))}})
        .Increment();
  }
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

std::string WorkerMetrics::Render() {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace nightshift
