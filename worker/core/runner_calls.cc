// Calls: which start, and what their ends mean for the request, the limit and the backend.
#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/units.h"
#include "worker/core/clean_text.h"
#include "worker/core/error_words.h"
#include "worker/core/request_size.h"
#include "worker/core/result.h"
#include "worker/core/runner_impl.h"

namespace nightshift {
namespace {

// Of a refusal, in a sentence about it.
constexpr size_t kRefusalWordsMax = 200;

}  // namespace

bool Runner::Impl::IsReady(const v1::BackendInfo& info) {
  return info.state() != "starting" && info.state() != "broken" && info.state() != "refused";
}

bool Runner::Impl::TakesCalls(const Backend& backend) const {
  return !draining && IsReady(backend.told) && backend.breaker.state() != Breaker::State::kOpen;
}

bool Runner::Impl::HandsBack(const Backend& backend, MonotonicTime now) const {
  if (draining || !IsReady(backend.told)) return true;
  if (backend.breaker.state() != Breaker::State::kOpen) {
    return !backend.paced_until.infinite() && PacedFor(backend, now) > kKeepUnstartedMax;
  }
  return backend.breaker.cause() != Breaker::Cause::kToldToWait ||
         backend.breaker.reopens_at() - now > kKeepUnstartedMax;
}

std::string Runner::Impl::HandBackReason(const Backend& backend) const {
  if (draining) return drain_why;
  const v1::BackendInfo info = Info(backend);
  if (backend.breaker.state() != Breaker::State::kOpen && backend.paced) {
    return absl::StrCat("backend ", info.name(), " waits for ", backend.pacer.waits_for());
  }
  return absl::StrCat("backend ", info.name(), ": ",
                      info.detail().empty() ? info.state() : info.detail());
}

bool Runner::Impl::MayStart(MonotonicTime now) const {
  if (draining || outbox.full() || spool_blocked) return false;
  // By now the coordinator has given the rest of what is held to others.
  return !lost_at.has_value() || now - *lost_at <= kept_for;
}

void Runner::Impl::LookAtSpool(MonotonicTime now) {
  if (options.spool == nullptr || options.spool->Blocked() == spool_blocked) return;
  spool_blocked = !spool_blocked;
  if (!spool_blocked) FillAll(now);
  ReportNow(now);
}

const Pacer::Size& Runner::Impl::SizeOf(Backend& backend, HeldRequest* request) {
  if (!request->sized) {
    request->size = backend.pacer.SizeOf(ReadRequestSize(request->endpoint, request->body));
    request->sized = true;
  }
  return request->size;
}

absl::Duration Runner::Impl::PacedFor(const Backend& backend, MonotonicTime now) {
  return backend.paced ? std::max(absl::ZeroDuration(), backend.paced_until - now)
                       : absl::ZeroDuration();
}

bool Runner::Impl::MustWait(Backend& backend, HeldRequest* next, MonotonicTime now) {
  backend.paced = false;
  if (!backend.pacer.active()) return false;
  backend.paced_until = backend.pacer.ReadyAt(SizeOf(backend, next), now);
  backend.paced = backend.paced_until > now;
  return backend.paced;
}

Pacer::Reservation Runner::Impl::ReserveInFlight(const Call& ended, CallId id) {
  Call last = ended;
  std::map<CallId, Call*> in_flight = {{id, &last}};
  for (auto& [other, call] : calls) {
    if (call.backend == ended.backend && call.request != nullptr && !call.reservation.made) {
      in_flight.emplace(other, &call);
    }
  }
  Backend& backend = backends[ended.backend];
  for (auto& [other, call] : in_flight) {
    call->reservation = backend.pacer.Reserve(SizeOf(backend, call->request), call->started);
  }
  return last.reservation;
}

Pacer::Reservation Runner::Impl::TellLimits(const Call& call, const CallOutcome& outcome,
                                            MonotonicTime now) {
  Backend& backend = backends[call.backend];
  Pacer::Reservation reservation = call.reservation;
  reservation.started = call.started;
  if (outcome.rate_limits.empty()) return reservation;
  if (!reservation.made) reservation = ReserveInFlight(call, outcome.id);
  backend.pacer.Told(reservation, outcome.rate_limits, outcome.http_status < 300, now);
  return reservation;
}

void Runner::Impl::Fill(int index, MonotonicTime now) {
  Backend& backend = backends[index];
  if (backend.buffered.empty() && backend.suspects.empty()) return;
  if (!TakesCalls(backend) || !MayStart(now)) return;
  while (true) {
    if (backend.breaker.state() == Breaker::State::kProbing) {
      if (!backend.breaker.probe_free()) return;
    } else if (backend.in_flight >= backend.limiter->limit()) {
      return;
    }
    HeldRequest* next = NextToStart(backend);
    if (next == nullptr || MustWait(backend, next, now)) return;
    Detach(next);
    Start(next, now);
  }
}

void Runner::Impl::FillAll(MonotonicTime now) {
  for (int i = 0; i < static_cast<int>(backends.size()); ++i) {
    Fill(i, now);
    CheckLow(i, now);
  }
}

void Runner::Impl::Start(HeldRequest* request, MonotonicTime now) {
  Backend& backend = backends[request->backend];
  request->place = HeldRequest::Place::kInFlight;
  request->call = ++last_call;
  Call& call = calls[request->call];
  call.request = request;
  call.backend = request->backend;
  call.started = now;
  NoteStart(backend, &call);
  if (backend.breaker.state() == Breaker::State::kProbing) {
    call.probe = true;
    backend.breaker.OnProbeStarted();
  }
  if (backend.pacer.active()) {
    call.reservation = backend.pacer.Reserve(SizeOf(backend, request), now);
  }
  ++backend.in_flight;
  backend.limiter->OnStart(now);
  calls_port.Start({.id = request->call,
                    .backend = request->backend,
                    .endpoint = request->endpoint,
                    .body = request->body,
                    .stream = request->stream,
                    .timeout = request->timeout});
}

void Runner::Impl::OnEnd(const Call& call, CallOutcome&& outcome, MonotonicTime now) {
  Backend& backend = backends[call.backend];
  --backend.in_flight;
  if (call.probe) backend.breaker.OnProbeEnded();
  NoteEnd(backend, call, outcome, now);
  if (call.request == nullptr) {
    backend.limiter->OnDrop(call.started, now);
    backend.pacer.OnDropped(call.reservation, now);
    return;
  }
  Classification what = Classify(outcome);
  if (what.verdict == Verdict::kOverload && SaysQuota(outcome)) {
    OnUsedUp(call, std::move(outcome), std::move(what), now);
    return;
  }
  const Pacer::Reservation reservation = TellLimits(call, outcome, now);
  if (outcome.http_status >= 200 && outcome.http_status < 300) {
    backend.pacer.OnAdmitted(reservation, outcome.usage, now);
  } else {
    backend.pacer.OnDropped(reservation, now);
  }
  switch (what.verdict) {
    case Verdict::kAnswered:
    case Verdict::kRejected:
      OnAnswer(call, std::move(outcome), std::move(what), now);
      break;
    case Verdict::kRetry:
    case Verdict::kRetryFree:
      OnFailure(call, std::move(outcome), std::move(what), now);
      break;
    case Verdict::kRetryNow:
      OnStale(call, std::move(outcome), std::move(what), now);
      break;
    case Verdict::kOverload:
    case Verdict::kUnavailable:
    case Verdict::kRefusedKey:
      OnRefusal(call, std::move(outcome), std::move(what), now);
      break;
    case Verdict::kAborted:
      backend.limiter->OnDrop(call.started, now);
      Return(call.request, what.message);
      break;
  }
}

void Runner::Impl::OnAnswer(const Call& call, CallOutcome&& outcome, Classification&& what,
                            MonotonicTime now) {
  Backend& backend = backends[call.backend];
  const absl::Duration latency = now - call.started;
  const double completion_tokens = static_cast<double>(outcome.usage.completion_tokens());
  NoteAnswer(backend, now);
  // Those that failed before this call began failed by themselves.
  ChargeDoubts(backend, call.started);
  if (!suspicions.empty()) suspicions.erase(call.request->key);
  if (!backend.breaks.empty()) ForgiveSurvived(backend, call.started, now);
  backend.budget.OnSuccess();
  backend.finished.Add(1, now);
  backend.tokens.Add(completion_tokens, now);
  backend.latency.Add(absl::ToDoubleSeconds(latency));
  backend.limiter->OnFinish(
      {.latency = latency,
       .prompt_tokens = outcome.usage.prompt_tokens(),
       .completion_tokens = outcome.usage.completion_tokens(),
       .in_flight = backend.in_flight,
       .starved = backend.buffered.empty() || backend.paced || backend.paced_until > call.started},
      now);
  if (!AsksAgain(call, &outcome, &what, now)) {
    Record(call.request, std::move(outcome), std::move(what));
  }
  if (backend.breaker.OnAlive()) OnBreakerChanged(call.backend, now);
}

bool Runner::Impl::AsksAgain(const Call& call, CallOutcome* outcome, Classification* what,
                             MonotonicTime now) {
  if (what->verdict != Verdict::kAnswered) return false;
  HeldRequest* request = call.request;
  const AnswerVerdict verdict = JudgeAnswer(request->second_tries, *outcome);
  const bool again = verdict == AnswerVerdict::kAskForMore || verdict == AnswerVerdict::kAskTheSame;
  // There would be no second call: better this answer than a new start elsewhere.
  if (again && HandsBack(backends[call.backend], now)) return false;
  switch (verdict) {
    case AnswerVerdict::kKeep:
      return false;
    case AnswerVerdict::kAskForMore: {
      std::optional<std::string> body =
          RaiseCeiling(request->endpoint, request->body, outcome->usage);
      if (!body.has_value()) {
        // It cannot be: what is left to ask is whether there is any text.
        request->second_tries.on_truncated = v1::ANSWER_POLICY_KEEP;
        return AsksAgain(call, outcome, what, now);
      }
      request->body = *std::move(body);
      request->sized = false;
      ++request->second_tries.truncated;
      break;
    }
    case AnswerVerdict::kAskTheSame:
      ++request->second_tries.empty;
      break;
    case AnswerVerdict::kTooShort:
    case AnswerVerdict::kNothingSaid: {
      const bool cut = verdict == AnswerVerdict::kTooShort;
      *what = {
          .verdict = Verdict::kRejected,
          .error_class = v1::ERROR_CLASS_QUALITY_CHECK_FAILED,
          .code = "quality_check_failed",
          .message = cut ? "the answer was cut off at its token limit, and --on-truncated fail "
                           "makes that a failure; a higher max_tokens gives it more room"
                         : "the answer has no text, and --on-empty fail makes that a failure"};
      outcome->body_is_partial = true;  // to be looked at, and not an answer
      return false;
    }
  }
  if (request->kept != nullptr) AddUsage(request->kept->usage, &outcome->usage);
  request->kept = std::make_unique<CallOutcome>(std::move(*outcome));
  request->place = HeldRequest::Place::kBuffered;
  backends[call.backend].buffered.PushFront(request);
  return true;
}

void Runner::Impl::RecordKept(HeldRequest* request) {
  Classification answered;
  answered.verdict = Verdict::kAnswered;
  CallOutcome outcome = std::move(*request->kept);
  request->kept.reset();
  Record(request, std::move(outcome), std::move(answered));
}

void Runner::Impl::OnFailure(const Call& call, CallOutcome&& outcome, Classification&& what,
                             MonotonicTime now) {
  Backend& backend = backends[call.backend];
  backend.finished.Add(1, now);
  if (what.error_class == v1::ERROR_CLASS_TIMEOUT) {
    backend.limiter->OnReject(call.started, backend.in_flight, now);
  } else {
    backend.limiter->OnDrop(call.started, now);
  }
  const bool broke = BrokeOff(outcome);
  if (broke) CountBreak(call, now);
  const bool asking = backend.breaker.state() == Breaker::State::kProbing;
  const bool probing = asking && call.probe;
  bool changed = false;
  // A backend that is slow is not broken; but asked whether it works, it did not answer. While it
  // is asked, the end of a call from before says nothing new.
  if (probing || (!asking && what.error_class != v1::ERROR_CLASS_TIMEOUT)) {
    changed = backend.breaker.OnFailed(what.message, absl::HashOf(call.request->key), now, random);
  }
  const bool from_before = asking && !call.probe && what.error_class != v1::ERROR_CLASS_TIMEOUT;
  if (backend.breaker.state() == Breaker::State::kOpen || from_before) {
    // That it fails everything is not this request's fault. As a probe it makes room for another,
    // since it may be this one that the backend fails at.
    what.verdict = Verdict::kRetryFree;
    if (probing) {
      outcome.retry_after = std::max(outcome.retry_after, kProbeAgain);
      // Else the last few of a job that fail every time would keep it for ever.
      if ((outcome.http_status >= 500 || broke) && !PardonsProbe(call.request->key)) {
        what.verdict = Verdict::kRetry;
      }
    }
  } else if (outcome.http_status >= 500 && what.error_class != v1::ERROR_CLASS_TIMEOUT &&
             !draining && call.request->kept == nullptr) {
    AddDoubt(call.request, std::move(outcome), std::move(what), now);
    return;
  }
  if (broke) what.verdict = JudgeBreak(call, what.verdict);
  Record(call.request, std::move(outcome), std::move(what));
  if (changed) OnBreakerChanged(call.backend, now);
}

void Runner::Impl::OnStale(const Call& call, CallOutcome&& outcome, Classification&& what,
                           MonotonicTime now) {
  HeldRequest* request = call.request;
  // The server may have died of it, however idle the connection was.
  if (request->retried_now || call.lone) {
    what.verdict = Verdict::kRetry;
    OnFailure(call, std::move(outcome), std::move(what), now);
    return;
  }
  request->retried_now = true;
  CountBreak(call, now);
  Backend& backend = backends[call.backend];
  backend.limiter->OnDrop(call.started, now);
  request->place = HeldRequest::Place::kBuffered;
  backend.buffered.PushFront(request);
  if (HandsBack(backend, now)) Return(request, HandBackReason(backend));
}

void Runner::Impl::OnRefusal(const Call& call, CallOutcome&& outcome, Classification&& what,
                             MonotonicTime now) {
  HeldRequest* request = call.request;
  Backend& backend = backends[call.backend];
  const absl::Duration retry_after = std::min(outcome.retry_after, kRetryAfterMax);
  bool changed = false;
  if (what.verdict == Verdict::kRefusedKey) {
    backend.limiter->OnDrop(call.started, now);
    changed = backend.breaker.OnRefusedKey(what.message, now);
  } else if (what.verdict == Verdict::kUnavailable) {
    backend.limiter->OnReject(call.started, backend.in_flight, now);
    changed = backend.breaker.OnUnavailable(what.message, now, random);
  } else if (retry_after > kWaitOfOneRequestMax) {
    // Fewer calls at a time would not help: it has to be left alone.
    backend.limiter->OnDrop(call.started, now);
    changed = backend.breaker.OnToldToWait(what.message, retry_after, now, random);
  } else {
    backend.limiter->OnReject(call.started, backend.in_flight, now);
    changed = backend.breaker.OnAlive();
    NoteRefusal(backend, what, now);
    if (what.error_class == v1::ERROR_CLASS_TIMEOUT &&
        ++request->server_timeouts > kServerTimeoutsMax) {
      what.verdict = Verdict::kRetry;
    }
  }
  if (what.verdict == Verdict::kRetry) {
    Record(request, std::move(outcome), std::move(what));
  } else {
    PutOff(request, retry_after, now);
    // Also when the backend was left alone before and has only now asked for longer.
    if (!changed && HandsBack(backend, now)) {
      ReturnUnstarted(call.backend, HandBackReason(backend));
    }
  }
  if (changed) OnBreakerChanged(call.backend, now);
}

void Runner::Impl::OnUsedUp(const Call& call, CallOutcome&& outcome, Classification&& what,
                            MonotonicTime now) {
  HeldRequest* request = call.request;
  Backend& backend = backends[call.backend];
  // Fewer calls at a time would not help: the account has to wait.
  backend.limiter->OnDrop(call.started, now);
  const Pacer::Reservation reservation = TellLimits(call, outcome, now);
  const absl::Duration retry_after = std::min(outcome.retry_after, kRetryAfterMax);
  bool changed = false;
  if (!backend.pacer.OnRefused(reservation, retry_after, now, random)) {
    absl::StrAppend(&what.message,
                    " (this request asks for more tokens than a whole window grants; ",
                    "a smaller max_tokens would make it fit)");
    what.verdict = Verdict::kRetry;
    Record(request, std::move(outcome), std::move(what));
    changed = backend.breaker.OnAlive();
  } else if (retry_after > kWaitOfOneRequestMax) {
    changed = backend.breaker.OnToldToWait(what.message, retry_after, now, random);
    PutOff(request, retry_after, now);
    if (!changed && HandsBack(backend, now)) {
      ReturnUnstarted(call.backend, HandBackReason(backend));
    }
  } else {
    changed = backend.breaker.OnAlive();
    NoteRefusal(backend, what, now);
    // It waits for the pacer in front of the others, and holds no slot.
    request->place = HeldRequest::Place::kBuffered;
    backend.buffered.PushFront(request);
  }
  if (changed) OnBreakerChanged(call.backend, now);
}

void Runner::Impl::NoteRefusal(Backend& backend, const Classification& what, MonotonicTime now) {
  if (!backend.refuses_since.has_value()) backend.refuses_since = now;
  backend.refusal = CleanText(what.message, kRefusalWordsMax);
  const absl::Duration time = now - *backend.refuses_since;
  if (time < kRefusesLogged || backend.refusal_logged) return;
  backend.refusal_logged = true;
  LogWarning("backend ", backend.told.name(), " has answered no call for ", HumanDuration(time),
             " and refused each: ", backend.refusal,
             ". No request is charged for it: they are tried again, each within a minute or so, "
             "until it has room. `nightshift cancel JOB` ends a job that is not to wait.");
}

void Runner::Impl::NoteAnswer(Backend& backend, MonotonicTime now) {
  backend.answered_at = now;
  backend.refuses_since.reset();
  if (!std::exchange(backend.refusal_logged, false)) return;
  LogInfo("backend ", backend.told.name(), " answers again");
}

void Runner::Impl::PutOff(HeldRequest* request, absl::Duration retry_after, MonotonicTime now) {
  retries.Add(request, now + RetryDelay(request->waits++, retry_after, random));
  ++backends[request->backend].waiting;
}

void Runner::Impl::Record(HeldRequest* request, CallOutcome&& outcome, Classification&& what) {
  if (request->kept != nullptr) {
    const bool failed = what.verdict != Verdict::kAnswered &&
                        what.error_class != v1::ERROR_CLASS_QUALITY_CHECK_FAILED;
    const bool worse = outcome.empty_answer && !request->kept->empty_answer;
    AddUsage(failed || worse ? outcome.usage : request->kept->usage,
             failed || worse ? &request->kept->usage : &outcome.usage);
    if (failed || worse) {
      RecordKept(request);
      return;
    }
    request->kept.reset();
  }
  std::string made_id;
  if (outcome.http_status != 0 && outcome.request_id.empty()) {
    made_id = absl::StrCat("req_", options.session, "_", outbox.next_sequence());
  }
  v1::AttemptResult result = MakeResult(std::move(outcome), std::move(what), made_id);
  request->key.To(result.mutable_key());
  result.set_backend(backends[request->backend].told.name());
  result.set_attempt(request->attempt);
  result.set_run(request->run);
  result.set_truncated_retries(request->second_tries.truncated);
  result.set_empty_retries(request->second_tries.empty);
  outbox.Add(std::move(result));
  Forget(request);
}

void Runner::Impl::LogBreaker(const Backend& backend, MonotonicTime now) const {
  const std::string& name = backend.told.name();
  if (backend.breaker.state() == Breaker::State::kClosed) {
    LogInfo("backend ", name, " answers again");
    return;
  }
  if (backend.breaker.state() == Breaker::State::kProbing) return;
  const std::string wait = HumanDuration(backend.breaker.reopens_at() - now);
  const std::string& detail = backend.breaker.detail();
  switch (backend.breaker.cause()) {
    case Breaker::Cause::kRefusedKey:
      LogWarning(
          "backend ", name, " refuses the API key: ", detail,
          ". No request is lost: they wait for a backend that takes them. Check the key that "
          "this worker was started with; it is tried again in ",
          wait, ".");
      break;
    case Breaker::Cause::kUnavailable:
      LogWarning("backend ", name, " is not available: ", detail,
                 ". No request is lost: they wait for a backend that takes them. It is tried again "
                 "in ",
                 wait, ".");
      break;
    case Breaker::Cause::kToldToWait:  // everyday life with a quota
    case Breaker::Cause::kNone:
      LogInfo("backend ", name, " asks to be left alone for ", wait, ": ", detail);
      break;
  }
}

void Runner::Impl::OnBreakerChanged(int index, MonotonicTime now) {
  LogBreaker(backends[index], now);
  OnBackendChanged(index, now);
}

void Runner::Impl::OnBackendChanged(int index, MonotonicTime now) {
  // First that it takes nothing, then what it hands back: else that would come again.
  ReportNow(now);
  if (!TakesCalls(backends[index])) PardonDoubts(backends[index]);
  if (HandsBack(backends[index], now)) ReturnUnstarted(index, HandBackReason(backends[index]));
  SendReturned();
}

}  // namespace nightshift
