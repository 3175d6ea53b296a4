#include "client/sim/sim_service.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace nightshift {
namespace {

constexpr absl::string_view kJsonType = "application/json";

SimError InvalidRequest(absl::string_view message, absl::string_view param = "",
                        absl::string_view code = "invalid_request_error") {
  return {400, std::string(message), "invalid_request_error", std::string(param), std::string(code),
          {}};
}

SimError TooMany(absl::string_view message, absl::string_view type, absl::string_view param,
                 absl::string_view code) {
  return {429, std::string(message), std::string(type), std::string(param), std::string(code), {}};
}

SimError Scripted(int status) {
  return {status, "scripted fault", status == 429 ? "too_many_requests_error" : "server_error",
          "",     "scripted",       {}};
}

}  // namespace

SimService::SimService(const SimServerOptions& options, std::unique_ptr<CallLog> log, Clock& clock)
    : options_(options),
      log_(std::move(log)),
      clock_(clock),
      started_(clock.Now()),
      gpu_(options.profile == SimProfile::kGpu
               ? std::make_unique<GpuRunner>(options.gpu, options.seed, clock)
               : nullptr),
      producer_(options_, gpu_.get(), clock),
      quota_(options.cerebras, clock.Now()) {}

SimService::~SimService() = default;

void SimService::Flush() {
  if (log_ != nullptr) log_->Flush();
}

SimStats SimService::GetStats() {
  MutexLock lock(&mutex_);
  return stats_;
}

void SimService::Handle(const HttpCall& call, HttpExchange& exchange) {
  const bool post = call.method == "POST";
  const std::optional<Endpoint> endpoint = EndpointFromPath(call.path);
  if (post && endpoint.has_value()) {
    HandlePost(*endpoint, call, exchange);
  } else if (call.method == "GET") {
    HandleGet(call, exchange);
  } else if (call.method == "HEAD") {
    exchange.Answer(200, "text/plain", "");
  } else {
    AnswerUnknownPath(call, exchange);
  }
}

void SimService::AnswerUnknownPath(const HttpCall& call, HttpExchange& exchange) const {
  const SimError error = {
      404, absl::StrCat("unknown path ", call.path), "not_found_error", "", "not_found", {}};
  exchange.Answer(404, kJsonType, RenderError(options_.profile, error));
}

void SimService::HandleGet(const HttpCall& call, HttpExchange& exchange) {
  if (call.path == "/sim/stats") {
    exchange.Answer(200, kJsonType, StatsJson());
  } else if (const std::optional<SimError> refusal = CheckAccess(call)) {
    exchange.Answer(refusal->status, kJsonType, RenderError(options_.profile, *refusal));
  } else if (call.path == "/health" || call.path == "/v1/health/ready") {
    exchange.Answer(200, kJsonType, "{\"status\":\"ok\"}");
  } else if (call.path == "/v1/models" || call.path == "/public/v1/models") {
    const std::vector<std::string> any = {"sim"};
    exchange.Answer(
        200, kJsonType,
        RenderModels(options_.models.empty() ? any : options_.models, options_.context_tokens));
  } else if (call.path == "/v1/tcp_warming") {
    exchange.Answer(200, kJsonType, "{}");
  } else if (call.path == "/metrics" && gpu_ != nullptr) {
    exchange.Answer(200, "text/plain; version=0.0.4", Metrics());
  } else {
    AnswerUnknownPath(call, exchange);
  }
}

void SimService::HandlePost(Endpoint endpoint, const HttpCall& call, HttpExchange& exchange) {
  const absl::Time wall = clock_.WallNow();
  const MonotonicTime begun = clock_.Now();
  {
    MutexLock lock(&mutex_);
    ++stats_.calls;
    ++stats_.in_flight;
    stats_.in_flight_peak = std::max(stats_.in_flight_peak, stats_.in_flight);
  }
  SimCall active(exchange, [&](int status, absl::string_view how) {
    End(active, how);
    if (log_ == nullptr) return;
    log_->Append({wall, clock_.Now() - begun, call.path, status, active.request.key,
                  active.request.mark, active.call, how});
  });
  Conduct(endpoint, call, active);
}

void SimService::End(const SimCall& active, absl::string_view how) {
  MutexLock lock(&mutex_);
  --stats_.in_flight;
  if (how == "answered") ++stats_.answered;
  if (how == "refused") ++stats_.refused;
  if (how == "dropped") ++stats_.dropped;
  if (how == "client_gone") ++stats_.client_gone;
  if (options_.cerebras.refund_unused && how == "answered") {
    const int64_t used = active.request.prompt_tokens + active.steps() * active.choices();
    quota_.Refund(std::max<int64_t>(0, active.reserved_tokens - used), clock_.Now());
  }
}

void SimService::Conduct(Endpoint endpoint, const HttpCall& call, SimCall& active) {
  if (const auto error = CheckAccess(call)) return Refuse(active, *error);
  absl::StatusOr<SimRequest> request =
      ParseSimRequest(endpoint, call.body, options_.seed, options_.directives);
  if (!request.ok()) return Refuse(active, InvalidRequest(request.status().message()));
  active.request = *std::move(request);
  active.length = PlanReplyLength(active.request, options_.reply_tokens, options_.reply_spread,
                                  options_.context_tokens);
  active.call = CountCall(active.request);
  PlanFaults(active);
  if (const auto error = CheckRequest(active.request)) return Refuse(active, *error);
  if (options_.profile == SimProfile::kCerebras) {
    if (const auto error = TakeQuota(active)) return Refuse(active, *error);
  }
  if (!WaitBefore(active)) return active.Gone();
  const SimDirective& directive = active.request.directive;
  if (active.directive && directive.status != 0) {
    SimError error = Scripted(directive.status);
    error.headers = directive.headers;
    if (directive.body.empty()) return Refuse(active, error);
    return active.Refuse(error.status, kJsonType, directive.body, error.headers);
  }
  if (active.fault == SimFault::kTooMany) {
    SimError error = Scripted(429);
    error.headers.emplace_back("retry-after", "1");
    return Refuse(active, error);
  }
  if (active.fault == SimFault::kInternal) return Refuse(active, Scripted(500));
  if (active.fault == SimFault::kDropBefore) return active.Drop(0);
  if (active.directive && directive.garbage) {
    return active.Answer("text/html", "<html>proxy error</html>");
  }
  producer_.Produce(active);
}

std::optional<SimError> SimService::CheckAccess(const HttpCall& call) const {
  if (clock_.Now() < started_ + options_.loading) {
    return SimError{503, "Loading model", "unavailable_error", "", "loading", {}};
  }
  if (!options_.api_key.empty() && absl::StartsWith(call.path, "/v1") &&
      call.authorization != absl::StrCat("Bearer ", options_.api_key)) {
    return SimError{401, "Wrong API Key", "invalid_request_error", "api_key", "wrong_api_key", {}};
  }
  return std::nullopt;
}

std::optional<SimError> SimService::CheckRequest(const SimRequest& request) const {
  const auto& models = options_.models;
  if (!models.empty() && std::find(models.begin(), models.end(), request.model) == models.end()) {
    return SimError{404,
                    absl::StrCat("The model `", request.model, "` does not exist."),
                    "not_found_error",
                    "model",
                    "model_not_found",
                    {}};
  }
  if (request.stream && !SimStream::Supports(request.endpoint)) {
    return InvalidRequest("stream: this endpoint does not stream here", "stream");
  }
  int64_t context = options_.context_tokens;
  if (gpu_ != nullptr) context = std::min(context, options_.gpu.kv_tokens);
  const int64_t asked = request.prompt_tokens + std::max<int64_t>(1, request.max_tokens);
  if (asked > context) {
    return InvalidRequest(
        absl::StrCat("This model's maximum context length is ", context,
                     " tokens. However, you requested ", asked, " tokens (", request.prompt_tokens,
                     " in the prompt). Current length is ", asked, " while limit is ", context),
        "messages", "context_length_exceeded");
  }
  return std::nullopt;
}

int64_t SimService::CountCall(const SimRequest& request) {
  const SimFaultRates& f = options_.faults;
  const bool faults = f.too_many + f.internal + f.drop + f.hang + f.slow > 0;
  // A million keys take memory that a run beside this server in one process would miss.
  if (log_ == nullptr && !faults && request.directive.times == INT64_MAX) return 1;
  const uint64_t hash = XXH3_64bits(request.key.data(), request.key.size());
  MutexLock lock(&mutex_);
  const uint32_t count = ++calls_by_key_[hash];
  if (count > 1) ++stats_.repeats;
  return count;
}

void SimService::PlanFaults(SimCall& active) {
  const SimDirective& directive = active.request.directive;
  active.directive = active.call <= directive.times;
  if (active.directive && directive.drop_before) {
    active.fault = SimFault::kDropBefore;
  } else if (active.directive && directive.drop_mid) {
    active.fault = SimFault::kDropMid;
  } else if (active.directive && directive.hang) {
    active.fault = SimFault::kHang;
  } else {
    active.fault = PlanFault(options_.faults, active.request.hash, active.call);
  }
}

std::optional<SimError> SimService::TakeQuota(SimCall& active) {
  const SimCerebrasOptions& cerebras = options_.cerebras;
  const int64_t answer =
      active.request.max_tokens > 0 ? active.request.max_tokens : cerebras.default_max_tokens;
  active.reserved_tokens = active.request.prompt_tokens + answer * active.choices();
  MutexLock lock(&mutex_);
  if (cerebras.in_flight_max > 0 && stats_.in_flight > cerebras.in_flight_max) {
    SimError error = TooMany("We're experiencing high traffic right now! Please try again soon.",
                             "too_many_requests_error", "queue", "queue_exceeded");
    error.headers.emplace_back("x-should-retry", "false");
    return error;
  }
  const auto refusal = quota_.Take(active.reserved_tokens, clock_.Now());
  if (cerebras.limit_headers) active.headers = quota_.Headers(clock_.Now());
  if (!refusal.has_value()) return std::nullopt;
  const char* const what = refusal->tokens ? "Tokens" : "Requests";
  SimError error =
      TooMany(absl::StrCat(what, " per ", refusal->window, " limit exceeded - too many ",
                           refusal->tokens ? "tokens processed." : "requests sent."),
              refusal->tokens ? "too_many_tokens_error" : "too_many_requests_error", "quota",
              refusal->tokens ? "token_quota_exceeded" : "request_quota_exceeded");
  error.headers = active.headers;
  return error;
}

bool SimService::WaitBefore(SimCall& active) {
  absl::Duration wait = options_.latency;
  if (active.directive) wait += active.request.directive.delay;
  if (active.fault == SimFault::kSlow) wait += options_.faults.slow_delay;
  if (active.fault == SimFault::kHang) wait = absl::InfiniteDuration();
  if (wait <= absl::ZeroDuration()) return true;
  return active.exchange.Sleep(clock_.Now() + wait);
}

void SimService::Refuse(SimCall& active, const SimError& error) {
  active.Refuse(error.status, kJsonType, RenderError(options_.profile, error), error.headers);
}

std::string SimService::StatsJson() {
  const SimStats s = GetStats();
  return absl::StrCat("{\"calls\":", s.calls, ",\"in_flight\":", s.in_flight,
                      ",\"peak\":", s.in_flight_peak, ",\"answered\":", s.answered,
                      ",\"refused\":", s.refused, ",\"dropped\":", s.dropped,
                      ",\"client_gone\":", s.client_gone, ",\"repeats\":", s.repeats, "}");
}

std::string SimService::Metrics() {
  const GpuRunner::Gauges gauges = gpu_->GetGauges();
  const std::string label = "{engine=\"0\",model_name=\"sim\"} ";
  const double usage =
      static_cast<double>(gauges.kv_tokens) / static_cast<double>(options_.gpu.kv_tokens);
  std::string out;
  const auto add = [&](absl::string_view name, absl::string_view type, const std::string& value) {
    absl::StrAppend(&out, "# TYPE vllm:", name, " ", type, "\nvllm:", name, label, value, "\n");
  };
  add("num_requests_running", "gauge", absl::StrCat(gauges.running));
  add("num_requests_waiting", "gauge", absl::StrCat(gauges.waiting));
  add("kv_cache_usage_perc", "gauge", absl::StrFormat("%.6f", std::min(1.0, usage)));
  add("num_preemptions_total", "counter", absl::StrCat(gauges.preemptions));
  add("prompt_tokens_total", "counter", absl::StrCat(gauges.prompt_tokens));
  add("generation_tokens_total", "counter", absl::StrCat(gauges.generated_tokens));
  return out;
}

}  // namespace nightshift
