// Requests that may kill their server. When a server dies, all its calls break at once, and nothing
// tells the one that did it from the others; started together again they break together again. So
// each request's broken calls are counted until it is answered, and what has been there too often
// is called in smaller company:
//
//   broken calls   called
//   0, 1           as any
//   2              a suspect: with at most kSuspectsMax suspects at a time
//   3 or more      alone: with no other suspect
//
// Those that are no suspects are called beside them all the time. A call that breaks while a
// request is called alone, or began before that one's broke, breaks by its fault. So a deadly
// request takes its server down three times without a charge at most, where the breaker pardons the
// first two, and then once per attempt of its job. Of N suspects it is found in N / kSuspectsMax +
// kSuspectsMax rounds.
//
// A break that the server lives through, since a call from before it is answered well after it, is
// one call's own: a proxy that cuts long answers, an idle connection. It is taken off the count, or
// many such requests would queue up to be called one by one.
#include <algorithm>

#include "base/log.h"
#include "worker/core/runner_impl.h"

namespace nightshift {

bool Runner::Impl::BrokeOff(const CallOutcome& outcome) {
  return outcome.transport == Transport::kReset || outcome.transport == Transport::kSendFailed ||
         outcome.transport == Transport::kStaleConnection;
}

int Runner::Impl::BrokenCalls(const RequestKey& key) const {
  const auto found = suspicions.find(key);
  return found == suspicions.end() ? 0 : found->second.broken;
}

bool Runner::Impl::IsTurn(const Backend& backend, const HeldRequest& request) const {
  const int broken = BrokenCalls(request.key);
  if (broken < kSuspectFrom) return true;
  if (backend.lone_out) return false;
  return backend.suspects_out < (broken < kLoneFrom ? kSuspectsMax : 1);
}

HeldRequest* Runner::Impl::NextToStart(Backend& backend) {
  if (suspicions.empty() && backend.suspects.empty()) return backend.buffered.first();
  const auto suspect = [&] {
    HeldRequest* first = backend.suspects.first();
    return first != nullptr && IsTurn(backend, *first) ? first : nullptr;
  };
  // A backend that is asked whether it works is better not asked with one that may break it.
  if (backend.breaker.state() != Breaker::State::kProbing) {
    if (HeldRequest* request = suspect(); request != nullptr) return request;
  }
  while (!backend.buffered.empty()) {
    HeldRequest* request = backend.buffered.first();
    if (BrokenCalls(request->key) < kSuspectFrom) return request;
    backend.buffered.Remove(request);
    request->place = HeldRequest::Place::kSuspected;
    backend.suspects.PushBack(request);
  }
  return suspect();
}

void Runner::Impl::NoteStart(Backend& backend, Call* call) const {
  if (suspicions.empty()) return;
  const int broken = BrokenCalls(call->request->key);
  call->suspect = broken >= kSuspectFrom;
  call->lone = broken >= kLoneFrom;
  if (call->suspect) ++backend.suspects_out;
  if (call->lone) backend.lone_out = true;
}

void Runner::Impl::NoteEnd(Backend& backend, const Call& call, const CallOutcome& outcome,
                           MonotonicTime now) {
  if (!call.suspect) return;
  --backend.suspects_out;
  if (!call.lone) return;
  backend.lone_out = false;
  if (BrokeOff(outcome)) backend.lone_broke_at = now;
}

void Runner::Impl::CountBreak(const Call& call, MonotonicTime now) {
  Backend& backend = backends[call.backend];
  const RequestKey& key = call.request->key;
  if (suspicions.size() >= kPardonedMax) suspicions.clear();
  Suspicion& suspicion = suspicions[key];
  if (suspicion.broken == 0) suspicion.since = now;
  ++suspicion.broken;
  backend.breaks.push_back({now, key});
  if (backend.breaks.size() > kBreaksMax) backend.breaks.pop_front();
  if (suspicion.broken != kLoneFrom) return;
  LogInfo("request ", key.index, " (counted from 0) of job ", key.job,
          " (the store's number) may be one that kills its server: the connection to backend ",
          backend.told.name(), " has broken during ", kLoneFrom,
          " of its calls. It is called apart from others like it until it is answered; should the "
          "connection break again, that costs it one of its attempts, and others nothing. There is "
          "nothing to do.");
}

Verdict Runner::Impl::JudgeBreak(const Call& call, Verdict usual) const {
  const Backend& backend = backends[call.backend];
  const Suspicion& suspicion = suspicions.find(call.request->key)->second;
  if (suspicion.survived >= kSurvivedMax) return Verdict::kRetry;
  if (call.lone) {
    // With no answer since its first call broke, it may be the server that breaks every call.
    const bool answers = backend.answered_at.has_value() && *backend.answered_at > suspicion.since;
    return answers ? Verdict::kRetry : usual;
  }
  const bool by_another = backend.lone_out || (backend.lone_broke_at.has_value() &&
                                               call.started <= *backend.lone_broke_at);
  return call.suspect || by_another ? Verdict::kRetryFree : usual;
}

void Runner::Impl::ForgiveSurvived(Backend& backend, MonotonicTime started, MonotonicTime now) {
  const auto earlier = [](MonotonicTime at, const Break& broken) { return at < broken.at; };
  // Began before them, and came long enough after them.
  const auto first =
      std::upper_bound(backend.breaks.begin(), backend.breaks.end(), started, earlier);
  const auto last = std::upper_bound(first, backend.breaks.end(), now - kSurvivedAfter, earlier);
  for (auto broken = first; broken != last; ++broken) {
    const auto found = suspicions.find(broken->key);
    if (found == suspicions.end() || found->second.broken == 0) continue;
    --found->second.broken;
    ++found->second.survived;
  }
  backend.breaks.erase(first, last);
}

}  // namespace nightshift
