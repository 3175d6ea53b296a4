// What the runner says about its backends.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/units.h"
#include "worker/core/runner_impl.h"

namespace nightshift {
namespace {

// Reports are figures of the moment: they do not queue up in a stream that is stuck.
constexpr int kReportBacklogMax = 1;
// A shorter wait for the pacer is the pace itself, and no reason to call the backend held up.
constexpr absl::Duration kShownWaitMin = absl::Seconds(1);

}  // namespace

v1::BackendInfo Runner::Impl::Info(const Backend& backend) const {
  v1::BackendInfo info = backend.told;
  if (backend.pacer.active()) info.set_account(backend.account);
  if (!IsReady(info)) return info;
  switch (backend.breaker.state()) {
    case Breaker::State::kClosed:
      break;
    case Breaker::State::kProbing:
      // Ready for the one request that will show.
      info.set_detail("trying again with one request");
      break;
    case Breaker::State::kOpen:
      info.set_detail(backend.breaker.detail());
      if (backend.breaker.cause() == Breaker::Cause::kUnavailable) info.set_state("broken");
      if (backend.breaker.cause() == Breaker::Cause::kRefusedKey) info.set_state("refused");
      break;
  }
  return info;
}

int Runner::Impl::ReportedLimit(const Backend& backend, MonotonicTime now) const {
  if (HandsBack(backend, now)) return 0;
  if (backend.breaker.state() == Breaker::State::kProbing) {
    // One more than the calls that were under way before.
    return backend.in_flight + (backend.breaker.probe_free() ? 1 : 0);
  }
  if (!backend.paced) return backend.limiter->limit();
  // What it can start within a second, so that others are not kept from the rest.
  const int soon = static_cast<int>(std::ceil(backend.finished.PerSecond(now)));
  return std::min(backend.limiter->limit(), backend.in_flight + std::max(1, soon));
}

std::string Runner::Impl::WaitingFor(const Backend& backend, MonotonicTime now) const {
  if (draining) return absl::StrCat("nothing more: ", drain_why);
  if (!IsReady(backend.told)) {
    return backend.told.detail().empty()
               ? absl::StrCat("the backend, which is ", backend.told.state())
               : absl::StrCat("the backend: ", backend.told.detail());
  }
  if (backend.breaker.state() == Breaker::State::kOpen) {
    return absl::StrCat("the backend, for ", HumanDuration(backend.breaker.reopens_at() - now),
                        " more: ", backend.breaker.detail());
  }
  if (outbox.full()) {
    return absl::StrCat("the coordinator to record ", WithCommas(outbox.requests()), " results (",
                        HumanSize(outbox.bytes()), ")");
  }
  if (spool_blocked) return options.spool->WaitingFor();
  const bool holds =
      backend.in_flight + backend.waiting + backend.buffered.size() + backend.suspects.size() > 0;
  if (holds && backend.refuses_since.has_value() && now - *backend.refuses_since >= kRefusesShown) {
    return absl::StrCat("room at the backend, which has answered no call for ",
                        HumanDuration(now - *backend.refuses_since),
                        " and refused each: ", backend.refusal,
                        "; requests are tried again, each within a minute or so");
  }
  const absl::Duration paced = PacedFor(backend, now);
  if (paced > kShownWaitMin) {
    if (backend.paced_until.infinite()) return backend.pacer.waits_for();
    return absl::StrCat(backend.pacer.waits_for(), ", ", HumanDuration(paced));
  }
  if (backend.waiting > 0) {
    return absl::StrCat("the time of ", WithCommas(backend.waiting),
                        backend.waiting == 1 ? " request that waits" : " requests that wait",
                        " to be tried again");
  }
  if (!backend.suspects.empty() && backend.buffered.empty()) {
    return absl::StrCat("the turn of ", WithCommas(backend.suspects.size()),
                        backend.suspects.size() == 1 ? " request that" : " requests, of which one",
                        " may kill its server; they are called a few at a time");
  }
  return "";
}

std::string Runner::Impl::Explain(const Backend& backend, absl::string_view limit,
                                  MonotonicTime now) const {
  std::string text(limit);
  if (const std::string pace = backend.pacer.Explain(now); !pace.empty()) {
    absl::StrAppend(&text, "; ", pace);
  }
  switch (backend.breaker.state()) {
    case Breaker::State::kClosed:
      break;
    case Breaker::State::kOpen:
      absl::StrAppend(&text, "; left alone, asked again in ",
                      HumanDuration(backend.breaker.reopens_at() - now));
      break;
    case Breaker::State::kProbing:
      absl::StrAppend(&text, "; one call at a time until it answers");
      break;
  }
  return text;
}

bool Runner::Impl::RunsLow(const Backend& backend, MonotonicTime now) const {
  if (HandsBack(backend, now)) return false;
  const int free_slots = std::max(0, ReportedLimit(backend, now) - backend.in_flight);
  // Without suspects that wait for their turn: the free slots are not for them.
  const int buffered = backend.buffered.size() + backend.waiting;
  if (buffered < free_slots) return true;
  if (backend.breaker.state() != Breaker::State::kClosed) return false;
  return buffered < free_slots + kLowWaterSeconds * backend.finished.PerSecond(now);
}

void Runner::Impl::CheckLow(int index, MonotonicTime now) {
  const MonotonicTime due = last_report + low_interval;
  if (link != Link::kReady || report_due <= due || !RunsLow(backends[index], now)) return;
  low = true;
  report_due = due;
}

bool Runner::Impl::CanReport() const {
  return link == Link::kReady && link_port.Backlog() <= kReportBacklogMax;
}

void Runner::Impl::ReportIfDue(MonotonicTime now) {
  if (now >= report_due && CanReport()) ReportNow(now);
}

void Runner::Impl::AddCallsUnderWay(v1::Report* report, MonotonicTime now) const {
  std::vector<std::vector<const Call*>> by_backend(backends.size());
  for (const auto& [id, call] : calls) {
    if (call.request != nullptr) by_backend[call.backend].push_back(&call);
  }
  const auto older = [](const Call* a, const Call* b) {
    return a->started != b->started ? a->started < b->started : a->request->key < b->request->key;
  };
  for (size_t i = 0; i < backends.size(); ++i) {
    const Backend& backend = backends[i];
    std::vector<const Call*>& under_way = by_backend[i];
    const double mean = backend.latency.value();
    if (under_way.empty() || mean <= 0) continue;
    v1::BackendReport& entry = *report->mutable_backends(static_cast<int>(i));
    // With most slots empty the few that are left are the slow ones, and tell nothing of the rest.
    if (2 * static_cast<int>(under_way.size()) >= backend.limiter->limit()) {
      const auto middle = under_way.begin() + static_cast<std::ptrdiff_t>(under_way.size() / 2);
      std::nth_element(under_way.begin(), middle, under_way.end(), older);
      entry.set_latency_seconds(std::max(mean, absl::ToDoubleSeconds(now - (*middle)->started)));
    }
    if (!backend.buffered.empty()) continue;
    const absl::Duration usual = std::max(absl::Seconds(kLongCall * mean), kLongCallMin);
    under_way.erase(std::remove_if(under_way.begin(), under_way.end(),
                                   [&](const Call* call) { return now - call->started <= usual; }),
                    under_way.end());
    std::sort(under_way.begin(), under_way.end(), older);
    if (under_way.size() > kLongCallsTold) under_way.resize(kLongCallsTold);
    for (const Call* call : under_way) {
      v1::LongCall* told = entry.add_long_calls();
      call->request->key.To(told->mutable_key());
      told->set_age_seconds(absl::ToDoubleSeconds(now - call->started));
    }
  }
}

void Runner::Impl::ReportNow(MonotonicTime now) {
  if (link != Link::kReady) return;
  v1::WorkerMessage message;
  v1::Report& report = *message.mutable_report();
  report.set_outbox_requests(outbox.requests());
  report.set_outbox_bytes(outbox.bytes());
  for (Backend& backend : backends) {
    const std::string limit = backend.limiter->Explain();
    v1::BackendReport& entry = *report.add_backends();
    *entry.mutable_info() = Info(backend);
    entry.set_limit(ReportedLimit(backend, now));
    entry.set_in_flight(backend.in_flight);
    entry.set_buffered(backend.buffered.size() + backend.suspects.size() + backend.waiting);
    entry.set_requests_per_second(backend.finished.PerSecond(now));
    entry.set_tokens_per_second(backend.tokens.PerSecond(now));
    entry.set_latency_seconds(backend.latency.value());
    entry.set_waiting_for(WaitingFor(backend, now));
    entry.set_explain(Explain(backend, limit, now));
    if (limit != backend.logged) {
      LogDebug("backend ", backend.told.name(), ": limit ", limit);
      backend.logged = limit;
    }
    if (backend.load.has_value()) *entry.mutable_load() = *backend.load;
  }
  AddCallsUnderWay(&report, now);
  link_port.Send(std::move(message));
  last_report = now;
  report_due = now + options.report_interval;
  if (low) low_interval = std::min(low_interval * 2, options.report_interval);
  low = false;
}

}  // namespace nightshift
