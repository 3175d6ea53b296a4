#include "worker/core/runner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/core/runner_impl.h"

namespace nightshift {

Runner::Impl::Impl(RunnerOptions runner_options, CallPort& call_port, LinkPort& stream)
    : options(std::move(runner_options)),
      calls_port(call_port),
      link_port(stream),
      random(options.random_seed),
      outbox({.requests_max = options.outbox_requests_max,
              .bytes_max = options.outbox_bytes_max,
              .results_per_message_max = options.results_per_message_max,
              .bytes_per_message_max = options.bytes_per_message_max},
             options.spool) {
  backends.reserve(options.backends.size());
  for (RunnerBackend& given : options.backends) {
    NIGHTSHIFT_CHECK(given.limiter != nullptr, "a backend without a limiter");
    const bool is_new =
        backend_by_name.emplace(given.info.name(), static_cast<int>(backends.size())).second;
    NIGHTSHIFT_CHECK(is_new, absl::StrCat("two backends are named ", given.info.name()));
    Backend& backend = backends.emplace_back(std::move(given.pacer), std::move(given.account));
    backend.told = std::move(given.info);
    backend.seen_ready = IsReady(backend.told);
    backend.limiter = std::move(given.limiter);
  }
  options.backends.clear();
  // Before the first Hello, so that it names them and nobody else is given their requests.
  if (options.spool != nullptr && !options.spool->LastStore().empty()) {
    store = options.spool->LastStore();
    store_known = true;
    TakeKept();
  }
}

HeldRequest* Runner::Impl::FindRequest(const RequestKey& key) {
  const auto found = requests.find(key);
  return found == requests.end() ? nullptr : found->second.get();
}

void Runner::Impl::Detach(HeldRequest* request) {
  switch (request->place) {
    case HeldRequest::Place::kBuffered:
      backends[request->backend].buffered.Remove(request);
      break;
    case HeldRequest::Place::kSuspected:
      backends[request->backend].suspects.Remove(request);
      break;
    case HeldRequest::Place::kWaiting:
      retries.Remove(request);
      --backends[request->backend].waiting;
      break;
    case HeldRequest::Place::kDoubted: {
      std::deque<Doubt>& doubts = backends[request->backend].doubts;
      doubts.erase(std::find_if(doubts.begin(), doubts.end(),
                                [&](const Doubt& doubt) { return doubt.request == request; }));
      break;
    }
    case HeldRequest::Place::kInFlight: {
      // Not there any more when it is the call's own end that is being dealt with.
      const auto call = calls.find(request->call);
      if (call != calls.end()) call->second.request = nullptr;
      break;
    }
  }
}

void Runner::Impl::Forget(HeldRequest* request) {
  Detach(request);
  const RequestKey key = request->key;
  requests.erase(key);
}

void Runner::Impl::Return(HeldRequest* request, absl::string_view why) {
  if (request->kept != nullptr) {
    RecordKept(request);
    return;
  }
  // Without a stream there is nobody to tell, and no need: the next Hello does not name it.
  if (link != Link::kDown) returned[std::string(why)].push_back(request->key);
  Forget(request);
}

void Runner::Impl::ReturnUnstarted(int index, absl::string_view why) {
  Backend& backend = backends[index];
  while (!backend.buffered.empty()) Return(backend.buffered.first(), why);
  while (!backend.suspects.empty()) Return(backend.suspects.first(), why);
  if (backend.waiting == 0) return;
  std::vector<HeldRequest*> waiting;
  retries.ForEach([&](HeldRequest* request) {
    if (request->backend == index) waiting.push_back(request);
  });
  for (HeldRequest* request : waiting) Return(request, why);
}

void Runner::Impl::Discard(const RequestKey& key) {
  outbox.Drop(key);
  HeldRequest* request = FindRequest(key);
  if (request == nullptr) return;
  const bool in_flight = request->place == HeldRequest::Place::kInFlight;
  const CallId call = request->call;
  Forget(request);
  if (in_flight) calls_port.Abort(call);
}

void Runner::Impl::GiveAway(const RequestKey& key) {
  HeldRequest* request = FindRequest(key);
  if (request == nullptr || request->kept == nullptr) {
    Discard(key);
    return;
  }
  const bool in_flight = request->place == HeldRequest::Place::kInFlight;
  const CallId call = request->call;
  RecordKept(request);
  if (in_flight) calls_port.Abort(call);
}

void Runner::Impl::Settle(int backend, MonotonicTime now) {
  Fill(backend, now);
  // It has turned out that it would be long before the next call.
  const bool waits = !backends[backend].buffered.empty() || !backends[backend].suspects.empty();
  if (waits && HandsBack(backends[backend], now)) {
    OnBackendChanged(backend, now);
  }
  SendReturned();
  SendResults(now);
  CheckLow(backend, now);
  ReportIfDue(now);
}

Runner::Runner(RunnerOptions options, CallPort& calls, LinkPort& link)
    : impl_(std::make_unique<Impl>(std::move(options), calls, link)) {}

Runner::~Runner() = default;

void Runner::OnLinkUp(MonotonicTime now) {
  Impl& impl = *impl_;
  const MonotonicTime since = impl.StoodStillSince(now);
  if (impl.link != Impl::Link::kDown) impl.LoseLink(since);
  impl.link = Impl::Link::kGreeting;
  impl.outbox.Rewind();
  impl.SendHello();
}

void Runner::OnLinkDown(MonotonicTime now) { impl_->LoseLink(impl_->StoodStillSince(now)); }

void Runner::OnMessage(const v1::CoordinatorMessage& message, MonotonicTime now) {
  OnMessage(v1::CoordinatorMessage(message), now);
}

void Runner::OnMessage(v1::CoordinatorMessage&& message, MonotonicTime now) {
  Impl& impl = *impl_;
  impl.LookAtTime(now);
  if (impl.link == Impl::Link::kDown) {
    // Of a stream that has been given up, only what it takes away counts: a lease that is not taken
    // is missing from the next Hello.
    for (const v1::RequestKey& key : message.welcome().drop()) impl.Discard(RequestKey::From(key));
    for (const v1::RequestKey& key : message.revoke().keys()) impl.Discard(RequestKey::From(key));
    return;
  }
  switch (message.kind_case()) {
    case v1::CoordinatorMessage::kWelcome:
      impl.OnWelcome(message.welcome(), now);
      break;
    case v1::CoordinatorMessage::kLease:
      impl.OnLease(message.mutable_lease(), now);
      break;
    case v1::CoordinatorMessage::kAcknowledge:
      impl.OnAcknowledge(message.acknowledge(), now);
      break;
    case v1::CoordinatorMessage::kRevoke:
      impl.OnRevoke(message.revoke(), now);
      break;
    case v1::CoordinatorMessage::kRecall:
      impl.OnRecall(message.recall(), now);
      break;
    case v1::CoordinatorMessage::kRateShares:
      impl.OnRateShares(message.rate_shares(), now);
      break;
    case v1::CoordinatorMessage::kRefuse:  // the stream's business: it ends
    case v1::CoordinatorMessage::KIND_NOT_SET:
      break;
  }
}

void Runner::OnWritable(MonotonicTime now) {
  impl_->LookAtTime(now);
  impl_->ReportIfDue(now);
  impl_->SendResults(now);
}

void Runner::OnCallFinished(CallOutcome outcome, MonotonicTime now) {
  impl_->LookAtTime(now);
  const auto found = impl_->calls.find(outcome.id);
  if (found == impl_->calls.end()) return;
  const Impl::Call call = found->second;
  impl_->calls.erase(found);
  impl_->OnEnd(call, std::move(outcome), now);
  impl_->Settle(call.backend, now);
}

void Runner::OnBackendInfo(int index, v1::BackendInfo info, MonotonicTime now) {
  impl_->LookAtTime(now);
  Impl::Backend& backend = impl_->backends[index];
  const bool was_ready = backend.seen_ready;
  backend.seen_ready = Impl::IsReady(info);
  if (!was_ready && backend.seen_ready) backend.breaker.OnToldReady();
  if (info.state() == "broken" && backend.answered_at.has_value() &&
      now - *backend.answered_at < kBusyNotBroken) {
    // Too busy to say how it is. If it really breaks, its calls will tell.
    info.set_state(backend.told.state());
    info.set_detail(backend.told.detail());
  }
  backend.told = std::move(info);
  impl_->OnBackendChanged(index, now);
  impl_->Settle(index, now);
}

void Runner::OnNewKey(int index, MonotonicTime now) {
  impl_->LookAtTime(now);
  Breaker& breaker = impl_->backends[index].breaker;
  if (breaker.cause() != Breaker::Cause::kRefusedKey || !breaker.OnToldReady()) return;
  impl_->OnBreakerChanged(index, now);
  impl_->Settle(index, now);
}

void Runner::OnServerLoad(int index, v1::ServerLoad load) {
  impl_->backends[index].load = std::move(load);
}

MonotonicTime Runner::OnTimer(MonotonicTime now) {
  Impl& impl = *impl_;
  impl.LookAtTime(now);
  while (HeldRequest* request = impl.retries.PopDue(now)) {
    Impl::Backend& backend = impl.backends[request->backend];
    --backend.waiting;
    request->place = HeldRequest::Place::kBuffered;
    // It has waited longest.
    backend.buffered.PushFront(request);
    impl.Fill(request->backend, now);
  }
  // Without a stream nothing has to be noticed.
  MonotonicTime next = impl.link == Impl::Link::kDown
                           ? MonotonicTime::Infinite()
                           : now + std::min(kLookInterval, impl.kept_for / 4);
  for (int i = 0; i < static_cast<int>(impl.backends.size()); ++i) {
    if (impl.backends[i].breaker.OnTime(now)) {
      impl.OnBreakerChanged(i, now);
      impl.Settle(i, now);
    }
    next = std::min(next, impl.backends[i].breaker.reopens_at());
    Impl::Backend& backend = impl.backends[i];
    impl.ChargeDoubts(backend, now - kDoubtMax);
    if (!backend.doubts.empty()) next = std::min(next, backend.doubts.front().ended + kDoubtMax);
    if (!backend.paced) continue;
    if (now >= backend.paced_until) {
      backend.paced = false;
      impl.Settle(i, now);
    }
    if (backend.paced) next = std::min(next, backend.paced_until);
  }
  impl.LookAtSpool(now);
  impl.SendResults(now);
  impl.ReportIfDue(now);
  next = std::min({next, impl.retries.NextDue(), impl.ResultsDue()});
  // A report that the stream has no room for goes out when it has: OnWritable.
  if (impl.CanReport()) next = std::min(next, impl.report_due);
  return next;
}

void Runner::Drain(const std::string& why, MonotonicTime now) {
  Impl& impl = *impl_;
  if (impl.draining) return;
  impl.draining = true;
  impl.drain_why = why;
  // First, so that the requests handed back do not come again.
  impl.SendDrain();
  for (int i = 0; i < static_cast<int>(impl.backends.size()); ++i) {
    impl.PardonDoubts(impl.backends[i]);
    impl.ReturnUnstarted(i, why);
  }
  impl.SendReturned();
  impl.SendResults(now);
  impl.ReportNow(now);
}

void Runner::AbortAll(MonotonicTime now) {
  // Else the slots that become free would be filled again.
  Drain("the worker is stopping", now);
  Impl& impl = *impl_;
  std::vector<CallId> wanted;
  for (const auto& [id, call] : impl.calls) {
    if (call.request != nullptr) wanted.push_back(id);
  }
  std::sort(wanted.begin(), wanted.end());
  for (const CallId id : wanted) {
    impl.Return(impl.calls.find(id)->second.request, "its call was given up");
    impl.calls_port.Abort(id);
  }
  impl.SendReturned();
  impl.ReportNow(now);
}

bool Runner::Idle() const {
  return impl_->requests.empty() && impl_->calls.empty() && impl_->outbox.requests() == 0;
}

int Runner::in_flight() const { return static_cast<int>(impl_->calls.size()); }

int Runner::settled_level(int backend) const { return impl_->backends[backend].limiter->settled(); }

int64_t Runner::held() const { return static_cast<int64_t>(impl_->requests.size()); }

int64_t Runner::unacknowledged() const { return impl_->outbox.requests(); }

}  // namespace nightshift
