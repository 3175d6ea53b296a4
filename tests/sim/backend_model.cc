#include "tests/sim/backend_model.h"

#include <algorithm>
#include <utility>

#include "tests/sim/sim_job.h"

namespace nightshift::sim {
namespace {

constexpr absl::Duration kTimeoutDefault = absl::Seconds(60);
constexpr double kErrorRate = 0.15;
constexpr double kRefusalRate = 0.12;
constexpr double kHangRate = 0.04;
constexpr double kCutRate = 0.1;

CallOutcome Blank(CallId id) {
  CallOutcome outcome;
  outcome.id = id;
  outcome.timing.set_ttft_ms(-1);
  return outcome;
}

void FillAnswer(const std::string& request_body, CallOutcome* outcome) {
  outcome->transport = Transport::kComplete;
  outcome->http_status = 200;
  outcome->body = AnswerBody(request_body);
  outcome->body_is_json = true;
  outcome->has_answer = true;
  outcome->finish_reason = "stop";
  outcome->usage.set_known(true);
  outcome->usage.set_prompt_tokens(20);
  outcome->usage.set_completion_tokens(10);
}

void FillError(int status, CallOutcome* outcome) {
  outcome->transport = Transport::kComplete;
  outcome->http_status = status;
  outcome->body = R"({"error":{"message":"no"}})";
  outcome->body_is_json = true;
  outcome->error_message = "no";
}

}  // namespace

SimCalls::SimCalls(Environment& environment, ProcessPtr process, std::vector<Server*> servers,
                   Events events)
    : environment_(environment),
      process_(std::move(process)),
      servers_(std::move(servers)),
      events_(std::move(events)),
      random_(environment.NewRandom()) {}

void SimCalls::Start(CallRequest request) {
  const CallId id = request.id;
  events_.started(request.body);
  Call& call = calls_[id];
  call.body = request.body;
  call.outcome = Blank(id);
  absl::Duration time = Throw(request, *servers_[request.backend], &call.outcome);
  const absl::Duration timeout =
      request.timeout > absl::ZeroDuration() ? request.timeout : kTimeoutDefault;
  if (time > timeout) {
    time = timeout;
    call.outcome = Blank(id);
    call.outcome.transport = Transport::kTimeout;
  }
  call.outcome.timing.set_latency_ms(absl::ToInt64Milliseconds(time));
  if (BehaviourOf(request.body) == Behaviour::kPoison && environment_.plan.faults.poison) {
    environment_.scheduler.After(time, process_, [this, id] {
      const auto poisoned = calls_.find(id);
      if (poisoned != calls_.end()) events_.poisoned(poisoned->second.body);
    });
    return;
  }
  environment_.scheduler.After(time, process_, [this, id] { Finish(id); });
}

absl::Duration SimCalls::Throw(const CallRequest& request, const Server& server,
                               CallOutcome* outcome) {
  const absl::Duration latency =
      absl::Seconds(std::min(random_.LogNormal(server.latency_seconds, 0.8), 20.0));
  if (server.down) {
    outcome->transport = Transport::kConnectFailed;
    return absl::Milliseconds(1 + static_cast<int64_t>(random_.Below(100)));
  }
  if (environment_.Now(&Faults::backend_hangs) && random_.Chance(kHangRate)) {
    return absl::Hours(1);
  }
  if (environment_.Now(&Faults::backend_cuts) && random_.Chance(kCutRate)) {
    constexpr Transport kCuts[] = {Transport::kReset, Transport::kStaleConnection,
                                   Transport::kSendFailed, Transport::kBadProtocol};
    outcome->transport = kCuts[random_.Below(4)];
    return latency;
  }
  if (environment_.Now(&Faults::backend_refusals) && random_.Chance(kRefusalRate)) {
    ThrowRefusal(outcome);
    return absl::Milliseconds(1 + static_cast<int64_t>(random_.Below(50)));
  }
  if (environment_.Now(&Faults::backend_errors) && random_.Chance(kErrorRate)) {
    FillAnswer(request.body, outcome);
    ThrowError(outcome);
    return latency;
  }
  const Behaviour behaviour = BehaviourOf(request.body);
  if (behaviour == Behaviour::kRejected) {
    FillError(400, outcome);
    return latency;
  }
  FillAnswer(request.body, outcome);
  if (environment_.plan.sabotage == Sabotage::kChangedAnswer && random_.Chance(0.2)) {
    outcome->body.back() = ' ';
  }
  return behaviour == Behaviour::kLong ? latency + absl::Seconds(40 * random_.Unit()) : latency;
}

void SimCalls::ThrowError(CallOutcome* outcome) {
  switch (random_.Below(6)) {
    case 0:
      outcome->has_answer = false;
      outcome->incomplete = "the stream ended early";
      return;
    case 1:
      outcome->has_answer = false;
      outcome->body = "<html>";
      outcome->body_is_json = false;
      return;
    default: {
      constexpr int kStatuses[] = {500, 502, 503, 408};
      const int status = kStatuses[random_.Below(4)];
      *outcome = Blank(outcome->id);
      FillError(status, outcome);
    }
  }
}

void SimCalls::ThrowRefusal(CallOutcome* outcome) {
  FillError(429, outcome);
  switch (random_.Below(8)) {
    case 0:
      outcome->retry_after = absl::Seconds(61 + static_cast<int64_t>(random_.Below(60)));
      return;
    case 1:
      outcome->error_code = "token_quota_exceeded";
      outcome->retry_after = absl::Seconds(static_cast<int64_t>(random_.Below(9)));
      return;
    case 2:
      if (random_.Chance(0.1)) outcome->http_status = 401;
      return;
    case 3:
    case 4:
      return;
    default:
      outcome->retry_after = absl::Seconds(static_cast<int64_t>(random_.Below(6)));
  }
}

void SimCalls::Finish(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Call call = std::move(found->second);
  calls_.erase(found);
  if (!call.aborted) events_.ended(call.body, call.outcome.has_answer);
  events_.finished(std::move(call.outcome));
}

void SimCalls::Abort(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || found->second.aborted) return;
  found->second.aborted = true;
  // For the server it is over; the worker may call for the same request again before it hears so.
  events_.ended(found->second.body, /*answered=*/false);
  // The whole answer may be there already, in the buffers of the transport.
  if (random_.Chance(0.9)) {
    found->second.outcome = Blank(id);
    found->second.outcome.transport = Transport::kAborted;
  }
  environment_.scheduler.After(absl::Milliseconds(5) * random_.Unit(), process_,
                               [this, id] { Finish(id); });
}

bool SimCalls::IsCalling(const std::string& body) const {
  return std::any_of(calls_.begin(), calls_.end(), [&body](const auto& entry) {
    return entry.second.body == body && !entry.second.aborted;
  });
}

}  // namespace nightshift::sim
