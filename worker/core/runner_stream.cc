// The runner and the coordinator's stream. Whatever is sent may be lost with the stream; what must
// not be lost is said again from what is held when the next one opens.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "worker/core/runner_impl.h"

namespace nightshift {
namespace {

constexpr char kProtocol[] = "nightshift.v1";

// Below this many messages waiting to be written, another one keeps the stream busy; above it,
// results are better off gathering into one message.
constexpr int kBacklogMax = 1;
// Every message costs both sides about as much as several results, and the coordinator a sync of
// its disk: results that come closer together than this share one. A lone result goes at once.
constexpr absl::Duration kGatherFor = absl::Milliseconds(5);
// So many need no further company.
constexpr uint64_t kGatherMax = 256;

}  // namespace

void Runner::Impl::SendHello() {
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_protocol(kProtocol);
  hello.set_name(options.name);
  hello.set_session(options.session);
  hello.set_version(options.version);
  hello.set_store(store);
  for (const Backend& backend : backends) *hello.add_backends() = Info(backend);
  // In key order, so that equal states give equal messages.
  std::vector<HeldRequest*> held;
  held.reserve(requests.size());
  for (const auto& [key, request] : requests) held.push_back(request.get());
  std::sort(held.begin(), held.end(),
            [](const HeldRequest* a, const HeldRequest* b) { return a->key < b->key; });
  for (const HeldRequest* request : held) {
    v1::HeldRequest& entry = *hello.add_held();
    request->key.To(entry.mutable_key());
    entry.set_backend(backends[request->backend].told.name());
    entry.set_attempt(request->attempt);
    entry.set_run(request->run);
  }
  outbox.ForEach([&](const v1::AttemptResult& result) {
    v1::HeldRequest& entry = *hello.add_held();
    *entry.mutable_key() = result.key();
    entry.set_backend(result.backend());
    entry.set_answered(true);
    entry.set_attempt(result.attempt());
    entry.set_run(result.run());
    entry.set_kind(result.kind());
  });
  link_port.Send(std::move(message));
}

void Runner::Impl::OnWelcome(const v1::Welcome& welcome, MonotonicTime now) {
  link = Link::kReady;
  lost_at.reset();
  if (!store_known || welcome.store() != store) ChangeStore(welcome.store());
  if (welcome.reconnect_grace_ms() > 0) {
    kept_for = absl::Milliseconds(welcome.reconnect_grace_ms());
  } else if (welcome.lease_ttl_ms() > 0) {
    kept_for = absl::Milliseconds(welcome.lease_ttl_ms());
  }
  for (const v1::RequestKey& key : welcome.drop()) GiveAway(RequestKey::From(key));
  if (draining) SendDrain();
  SendReturned();
  low_interval = kLowReportInterval;
  FillAll(now);
  SendResults(now);
  ReportNow(now);
}

void Runner::Impl::LoseLink(MonotonicTime since) {
  // A stream that was never welcomed has renewed no lease: the first loss counts.
  if (link == Link::kReady) lost_at = since;
  link = Link::kDown;
  returned.clear();
}

MonotonicTime Runner::Impl::StoodStillSince(MonotonicTime now) {
  const MonotonicTime last = std::exchange(looked_at, now).value_or(now);
  return now - last > kept_for ? last : now;
}

void Runner::Impl::LookAtTime(MonotonicTime now) {
  const MonotonicTime since = StoodStillSince(now);
  if (link == Link::kDown || since == now) return;
  LogWarning("this worker did not run for ", HumanDuration(now - since),
             ": before it calls again it asks the coordinator which requests are still its own");
  LoseLink(since);
  link_port.Reopen();
}

void Runner::Impl::ChangeStore(const std::string& new_store) {
  const int64_t kept = outbox.requests();
  const int64_t lost = outbox.Abandon();
  std::vector<RequestKey> held;
  for (const auto& [key, request] : requests) held.push_back(key);
  std::sort(held.begin(), held.end());
  for (const RequestKey& key : held) Discard(key);
  returned.clear();
  if (kept > lost) {
    LogWarning("the coordinator has another store than the one before: ", kept - lost,
               " answers for that one stay in the spool until its coordinator is back");
  }
  if (lost + static_cast<int64_t>(held.size()) > 0) {
    LogWarning("the coordinator has another store than the one before: ", held.size(),
               " requests of that one are given up, and ", lost,
               " results that are in no spool are lost");
  }
  store = new_store;
  store_known = true;
  if (options.spool != nullptr) TakeKept();
}

void Runner::Impl::TakeKept() {
  for (KeptResult& kept : options.spool->Use(store)) outbox.AddKept(std::move(kept));
}

void Runner::Impl::OnLease(v1::Lease* lease, MonotonicTime now) {
  low_interval = kLowReportInterval;
  const auto named = backend_by_name.find(lease->backend());
  if (named == backend_by_name.end()) {
    std::vector<RequestKey>& back = returned["the worker has no backend of this name"];
    for (const v1::LeasedRequest& leased : lease->requests()) {
      const RequestKey key = RequestKey::From(leased.key());
      if (!requests.contains(key)) back.push_back(key);
    }
    SendReturned();
    return;
  }
  const int index = named->second;
  Backend& backend = backends[index];
  for (v1::LeasedRequest& leased : *lease->mutable_requests()) {
    const RequestKey key = RequestKey::From(leased.key());
    if (const v1::AttemptResult* result = outbox.Find(key); result != nullptr) {
      // Ended here already: the coordinator has not heard of it yet, but will. Of a rejection in an
      // earlier run of the job it wants to hear no more; one of an earlier attempt it has heard,
      // and sends the request to the next backend of its route.
      const bool last_word = result->kind() == v1::AttemptResult::REJECTED &&
                             result->run() == leased.run() && result->attempt() >= leased.attempt();
      if (result->kind() == v1::AttemptResult::ANSWERED || last_word) continue;
      // To be tried again, and now it is: so the coordinator has that result, and it must not
      // arrive a second time, when it would seem to be the end of this try.
      outbox.Drop(key);
    }
    const auto [entry, is_new] = requests.try_emplace(key);
    if (!is_new) {
      // It had been given to others meanwhile. What is under way here answers this lease.
      entry->second->attempt = leased.attempt();
      entry->second->run = leased.run();
      continue;
    }
    entry->second = std::make_unique<HeldRequest>();
    HeldRequest& request = *entry->second;
    request.key = key;
    request.backend = index;
    request.attempt = leased.attempt();
    request.run = leased.run();
    request.priority = leased.priority();
    request.endpoint = static_cast<Endpoint>(leased.endpoint());
    request.stream = leased.stream();
    request.timeout = absl::Milliseconds(leased.request_timeout_ms());
    request.second_tries.on_truncated = leased.on_truncated();
    request.second_tries.on_empty = leased.on_empty();
    request.order = ++last_order;
    request.body = std::move(*leased.mutable_body());
    // Tries after failures wait until the backend's successes have paid for them.
    const MonotonicTime due = request.attempt > 0 ? backend.budget.Take(now) : now;
    if (due > now) {
      retries.Add(&request, due);
      ++backend.waiting;
    } else {
      backend.buffered.PushBack(&request);
    }
    if (EndpointPath(request.endpoint).empty()) RefuseUnknownEndpoint(&request);
  }
  if (HandsBack(backend, now)) ReturnUnstarted(index, HandBackReason(backend));
  Settle(index, now);
}

void Runner::Impl::RefuseUnknownEndpoint(HeldRequest* request) {
  CallOutcome none;
  none.timing.set_ttft_ms(-1);
  none.timing.set_latency_ms(-1);
  Record(request, std::move(none),
         {.verdict = Verdict::kRejected,
          .error_class = v1::ERROR_CLASS_INVALID_REQUEST,
          .code = "unknown_endpoint",
          .message = "this worker does not know the request's endpoint; it is older than the "
                     "coordinator: update it and retry the job"});
}

void Runner::Impl::OnAcknowledge(const v1::Acknowledge& acknowledge, MonotonicTime now) {
  const bool was_full = outbox.full();
  for (const uint64_t sequence : acknowledge.sequences()) outbox.Acknowledge(sequence);
  if (!was_full || outbox.full()) return;
  FillAll(now);
  ReportIfDue(now);
}

void Runner::Impl::OnRevoke(const v1::Revoke& revoke, MonotonicTime now) {
  for (const v1::RequestKey& key : revoke.keys()) Discard(RequestKey::From(key));
  // Dropped results may have made room.
  FillAll(now);
  ReportIfDue(now);
}

void Runner::Impl::OnRecall(const v1::Recall& recall, MonotonicTime now) {
  const auto named = backend_by_name.find(recall.backend());
  if (named == backend_by_name.end()) return;
  Backend& backend = backends[named->second];
  int64_t count = recall.count();
  for (; count > 0 && !backend.buffered.empty(); --count) {
    // One that is asked for again, since its answer is no good: that is done here.
    if (backend.buffered.last()->kept != nullptr) break;
    Return(backend.buffered.last(), "others can start it sooner");
  }
  for (; count > 0 && !backend.suspects.empty(); --count) {
    if (backend.suspects.last()->kept != nullptr) break;
    Return(backend.suspects.last(), "others can start it sooner");
  }
  // Then those that were refused and wait to be tried again, the last one first.
  std::vector<HeldRequest*> waiting;
  retries.ForEach([&](HeldRequest* request) {
    if (request->backend == named->second && request->kept == nullptr) waiting.push_back(request);
  });
  for (; count > 0 && !waiting.empty(); --count) {
    Return(waiting.back(), "others can start it sooner");
    waiting.pop_back();
  }
  SendReturned();
  // What it has handed back says nothing against giving it more later.
  ReportNow(now);
}

void Runner::Impl::OnRateShares(const v1::RateShares& shares, MonotonicTime now) {
  for (const v1::RateShares::Share& given : shares.shares()) {
    const auto named = backend_by_name.find(given.backend());
    if (named == backend_by_name.end() || !(given.share() > 0 && given.share() <= 1)) continue;
    backends[named->second].pacer.SetShare(given.share(), now);
    Settle(named->second, now);
  }
}

void Runner::Impl::SendDrain() {
  if (link != Link::kReady) return;
  v1::WorkerMessage message;
  message.mutable_drain()->set_why(drain_why);
  link_port.Send(std::move(message));
}

MonotonicTime Runner::Impl::ResultsDue() {
  if (link != Link::kReady || !outbox.HasUnsent() || link_port.Backlog() > kBacklogMax) {
    return MonotonicTime::Infinite();
  }
  // Somebody waits for the worker to be done with everything.
  if (draining || outbox.unsent() >= kGatherMax) return MonotonicTime();
  return last_results + kGatherFor;
}

void Runner::Impl::SendResults(MonotonicTime now) {
  if (now < ResultsDue()) return;
  last_results = now;
  while (outbox.HasUnsent() && link_port.Backlog() <= kBacklogMax) {
    v1::WorkerMessage message;
    outbox.NextMessage(message.mutable_results());
    link_port.Send(std::move(message));
  }
}

void Runner::Impl::SendReturned() {
  if (link != Link::kReady || returned.empty()) return;
  for (const auto& [why, keys] : returned) {
    if (keys.empty()) continue;
    v1::WorkerMessage message;
    v1::Returned& back = *message.mutable_returned();
    back.set_why(why);
    for (const RequestKey& key : keys) key.To(back.add_keys());
    link_port.Send(std::move(message));
  }
  returned.clear();
}

}  // namespace nightshift
