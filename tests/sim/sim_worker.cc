#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/dispatcher.h"
#include "worker/core/limiter.h"
#include "worker/link/coordinator_link.h"

namespace nightshift::sim {
namespace {

v1::BackendInfo InfoOf(const Server& server) {
  v1::BackendInfo info;
  info.set_name(server.name);
  info.set_state(server.down ? "broken" : "ready");
  for (const std::string& model : server.models) info.add_models(model);
  return info;
}

}  // namespace

SimWorker::SimWorker(Environment& environment, std::string name, std::string session,
                     std::vector<Server*> servers, Knock knock, std::function<void()> on_end,
                     std::function<void()> on_poison)
    : environment_(environment),
      name_(std::move(name)),
      session_(std::move(session)),
      servers_(std::move(servers)),
      knock_(std::move(knock)),
      on_end_(std::move(on_end)),
      random_(environment.NewRandom()) {
  SimCalls::Events events;
  events.finished = [this](CallOutcome outcome) {
    runner_->OnCallFinished(std::move(outcome), OwnTime());
    Settle();
  };
  events.poisoned = [this, on_poison = std::move(on_poison)](const std::string& body) {
    environment_.witness.OnPoisoned(key_of_[body]);
    if (environment_.plan.sabotage == Sabotage::kUncountedDeath) {
      v1::WorkerMessage message;
      message.mutable_drain();
      Send(std::move(message));
      environment_.scheduler.After(absl::Seconds(1), process_, on_poison);
      return;
    }
    on_poison();
  };
  events.started = [this](const std::string& body) {
    environment_.witness.OnCallStarted(session_, key_of_[body]);
    CheckNotTooLate();
  };
  events.ended = [this](const std::string& body, bool answered) {
    environment_.witness.OnCallEnded(session_, key_of_[body], answered);
  };
  calls_ = std::make_unique<SimCalls>(environment, process_, servers_, std::move(events));

  RunnerOptions options;
  options.name = name_;
  options.session = session_;
  options.random_seed = random_.Next();
  options.outbox_requests_max = environment.plan.outbox_requests_max;
  options.results_per_message_max = environment.plan.results_per_message_max;
  for (const Server* server : servers_) {
    options.backends.push_back(
        {InfoOf(*server), random_.Chance(0.5)
                              ? NewFillLimiter()
                              : NewFixedLimiter(1 + static_cast<int>(random_.Below(6)))});
  }
  runner_ = std::make_unique<Runner>(std::move(options), *calls_, *this);
  environment_.scheduler.After(absl::ZeroDuration(), process_, [this] {
    OpenLink();
    Settle();
  });
}

// --- the link ------------------------------------------------------------------------------------

void SimWorker::OpenLink() {
  if (ending_) return;
  const uint64_t number = ++link_number_;
  auto link =
      std::make_shared<Connection>(environment_.scheduler, environment_.weather,
                                   environment_.NewRandom(), environment_.plan.stream_bytes_max);
  // Calls come in this process, so while it lives; an old link has nothing to say.
  link->BindWorker(process_, {
                                 [this, number] {
                                   if (number == link_number_) OnAccepted();
                                 },
                                 [this, number](v1::CoordinatorMessage message) {
                                   if (number == link_number_) OnMessage(std::move(message));
                                 },
                                 [this, number] {
                                   if (number != link_number_ || !up_) return;
                                   runner_->OnWritable(OwnTime());
                                   Settle();
                                 },
                                 [this, number] {
                                   if (number == link_number_) OnLinkEnded();
                                 },
                             });
  link_ = link;
  up_ = false;
  environment_.scheduler.After(environment_.weather.Delay(random_), process_, [this, number] {
    if (number != link_number_) return;
    const bool reachable = environment_.scheduler.Now() >= unreachable_until_;
    if (!reachable || !knock_(link_)) OnLinkEnded();
  });
  environment_.scheduler.After(kWelcomeMax, process_, [this, number] {
    if (number == link_number_ && !welcomed_) link_->Cut();
  });
}

void SimWorker::OnAccepted() {
  if (ending_) return;
  up_ = true;
  runner_->OnLinkUp(OwnTime());
  Settle();
}

void SimWorker::OnLinkEnded() {
  ++link_number_;  // nothing more comes of this one
  link_.reset();
  if (std::exchange(welcomed_, false)) lost_at_ = environment_.scheduler.Now();
  if (std::exchange(up_, false)) runner_->OnLinkDown(OwnTime());
  Settle();
  const absl::Duration spread = kReconnectMax - kReconnectMin;
  environment_.scheduler.After(kReconnectMin + spread * random_.Unit(), process_,
                               [this, number = link_number_] {
                                 if (number == link_number_) OpenLink();
                               });
}

void SimWorker::OnMessage(v1::CoordinatorMessage message) {
  Witness& witness = environment_.witness;
  std::vector<v1::RequestKey> lost;
  if (message.has_welcome()) {
    welcomed_ = true;
    stopped_at_.reset();
    lost.assign(message.welcome().drop().begin(), message.welcome().drop().end());
  } else if (message.has_lease()) {
    witness.OnLeased(session_, message.lease());
    for (const v1::LeasedRequest& request : message.lease().requests()) {
      key_of_[request.body()] = request.key();
      body_of_[{request.key().job(), request.key().index()}] = request.body();
    }
  } else if (message.has_revoke()) {
    lost.assign(message.revoke().keys().begin(), message.revoke().keys().end());
  }
  for (const v1::RequestKey& key : lost) witness.OnLost(session_, key);
  if (environment_.plan.sabotage == Sabotage::kDeafWorker && message.has_revoke()) {
    message.clear_revoke();
  }
  runner_->OnMessage(std::move(message), OwnTime());
  for (const v1::RequestKey& key : lost) CheckAborted(key);
  Settle();
}

void SimWorker::CheckAborted(const v1::RequestKey& key) {
  const auto body = body_of_.find({key.job(), key.index()});
  if (body == body_of_.end() || !calls_->IsCalling(body->second)) return;
  environment_.witness.Violation(absl::StrCat("session ", session_, " goes on calling for request ",
                                              key.index(), " of job ", key.job(),
                                              ", which was taken from it"));
}

absl::Duration SimWorker::KeptFor() const {
  return std::min(environment_.plan.lease_ttl, DispatcherOptions().reconnect_grace);
}

// Cut off, or having stood still, for longer than its requests are kept, a worker must take it that
// others have them.
void SimWorker::CheckNotTooLate() {
  const MonotonicTime now = environment_.scheduler.Now();
  if (!welcomed_ && now - lost_at_ > KeptFor()) {
    environment_.witness.Violation(
        absl::StrCat("session ", session_, " starts a call though it has had no coordinator for ",
                     absl::FormatDuration(now - lost_at_)));
  }
  if (stopped_at_.has_value() && now - *stopped_at_ > KeptFor()) {
    environment_.witness.Violation(
        absl::StrCat("session ", session_,
                     " starts a call, and has not asked what is still its "
                     "own since it stood still ",
                     absl::FormatDuration(now - *stopped_at_), " ago"));
  }
}

void SimWorker::Send(v1::WorkerMessage message) {
  for (const v1::AttemptResult& result : message.results().results()) {
    environment_.witness.OnResultSent(session_, result);
  }
  if (absl::StrContains(message.returned().why(), "sooner")) {
    environment_.witness.OnRecalled(message.returned().keys_size());
  }
  for (const v1::RequestKey& key : message.returned().keys()) {
    environment_.witness.OnLost(session_, key);
  }
  if (up_) link_->SendUp(std::move(message));
}

int SimWorker::Backlog() const { return up_ ? link_->backlog() : 0; }

void SimWorker::Reopen() {
  environment_.scheduler.After(absl::ZeroDuration(), process_, [this, number = link_number_] {
    if (number != link_number_) return;
    link_->Cut();
    OnLinkEnded();
  });
}

// --- time ----------------------------------------------------------------------------------------

MonotonicTime SimWorker::OwnTime() const { return environment_.scheduler.Now() - slept_; }

void SimWorker::Settle() {
  const MonotonicTime now = OwnTime();
  const MonotonicTime next = runner_->OnTimer(now);
  if (draining_ && !ending_ && runner_->Idle()) End();
  if (next.infinite() || next == timer_) return;
  timer_ = next;
  environment_.scheduler.After(next - now, process_, [this, next] {
    if (timer_ != next) return;
    timer_ = MonotonicTime();
    Settle();
  });
}

// --- the world -----------------------------------------------------------------------------------

void SimWorker::Crash() {
  environment_.scheduler.Kill(process_);
  if (link_ != nullptr) link_->Cut();
}

void SimWorker::Bury() { environment_.scheduler.Kill(process_); }

void SimWorker::Stop(absl::Duration time) {
  const MonotonicTime now = environment_.scheduler.Now();
  if (now >= process_->stopped_until && !stopped_at_.has_value()) stopped_at_ = now;
  const absl::Duration more = now + time - std::max(now, process_->stopped_until);
  if (environment_.plan.sabotage == Sabotage::kSleepwalker && more > absl::ZeroDuration()) {
    slept_ += more;
  }
  environment_.scheduler.After(absl::ZeroDuration(), process_, [this] {
    // Too short for anybody to have missed it.
    if (stopped_at_.has_value() && environment_.scheduler.Now() - *stopped_at_ <= KeptFor()) {
      stopped_at_.reset();
    }
  });
  process_->stopped_until = std::max(process_->stopped_until, environment_.scheduler.Now() + time);
  // Nobody answers pings either.
  if (link_ == nullptr || time < absl::Seconds(20) || !random_.Chance(0.7)) return;
  environment_.scheduler.After(absl::Seconds(10 + 10 * random_.Unit()), nullptr,
                               [link = link_] { link->Cut(); });
}

void SimWorker::Drain(absl::Duration grace) {
  environment_.scheduler.After(absl::ZeroDuration(), process_, [this, grace] {
    if (std::exchange(draining_, true)) return;
    runner_->Drain("the worker is shutting down", OwnTime());
    environment_.scheduler.After(grace, process_, [this] {
      runner_->AbortAll(OwnTime());
      Settle();
      environment_.scheduler.After(absl::Seconds(2), process_, [this] { End(); });
    });
    Settle();
  });
}

void SimWorker::End() {
  if (std::exchange(ending_, true)) return;
  if (up_) link_->CloseUp();
  on_end_();
}

void SimWorker::CutLink() {
  if (link_ != nullptr) link_->Cut();
}

void SimWorker::SetUnreachable(absl::Duration time) {
  unreachable_until_ = std::max(unreachable_until_, environment_.scheduler.Now() + time);
}

void SimWorker::Probe() {
  environment_.scheduler.After(absl::Seconds(random_.Unit()), process_, [this] {
    for (size_t i = 0; i < servers_.size(); ++i) {
      runner_->OnBackendInfo(static_cast<int>(i), InfoOf(*servers_[i]), OwnTime());
    }
    Settle();
  });
}

std::string SimWorker::Describe() const {
  return absl::StrCat("worker ", name_, " (session ", session_, "): ", runner_->held(), " held, ",
                      runner_->in_flight(), " in flight, ", runner_->unacknowledged(),
                      " unacknowledged", up_ ? "" : ", no stream", welcomed_ ? "" : ", not welcome",
                      draining_ ? ", draining" : "");
}

}  // namespace nightshift::sim
