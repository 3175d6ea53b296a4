#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

namespace nightshift::sim {
namespace {

// A dead peer is noticed at once when its kernel says so, else by unanswered pings.
constexpr double kNoticedAtOnce = 0.6;
constexpr absl::Duration kPingsUnanswered = absl::Seconds(20);
// Of messages that are duplicated, and of those that others pass.
constexpr double kMischiefShare = 0.1;
constexpr absl::Duration kMischiefDelay = absl::Seconds(3);

}  // namespace

absl::Duration NetworkWeather::Delay(Random& random) const {
  const double seconds = random.LogNormal(slow ? 0.15 : 0.0005, slow ? 1.2 : 0.5);
  return absl::Seconds(std::min(seconds, 15.0));
}

Connection::Connection(Scheduler& scheduler, const NetworkWeather& weather, Random random,
                       size_t stream_bytes_max)
    : scheduler_(scheduler),
      weather_(weather),
      random_(random),
      stream_bytes_max_(stream_bytes_max) {}

void Connection::BindWorker(ProcessPtr process, WorkerEvents events) {
  worker_process_ = std::move(process);
  worker_ = std::move(events);
}

void Connection::BindCoordinator(ProcessPtr process, CoordinatorEvents events, Tap tap) {
  coordinator_process_ = std::move(process);
  coordinator_ = std::move(events);
  tap_ = std::move(tap);
}

MonotonicTime Connection::NextArrival(Direction& direction) {
  const MonotonicTime at = scheduler_.Now() + weather_.Delay(random_);
  direction.last_arrival = std::max(at, direction.last_arrival + absl::Nanoseconds(1));
  return direction.last_arrival;
}

std::vector<MonotonicTime> Connection::Arrivals(Direction& direction, bool first) {
  const bool late = !first && weather_.reorders && random_.Chance(kMischiefShare);
  std::vector<MonotonicTime> arrivals;
  if (late) {
    // Leaves `last_arrival` alone: what is sent after it need not wait.
    arrivals.push_back(
        std::max(scheduler_.Now() + weather_.Delay(random_), direction.last_arrival) +
        kMischiefDelay * random_.Unit());
  } else {
    arrivals.push_back(NextArrival(direction));
  }
  if (!first && weather_.duplicates && random_.Chance(kMischiefShare)) {
    arrivals.push_back(arrivals.front() + kMischiefDelay * random_.Unit());
  }
  return arrivals;
}

void Connection::Accept() {
  scheduler_.After(Until(NextArrival(down_)), worker_process_, [self = shared_from_this()] {
    if (!self->worker_ended_ && self->scheduler_.Now() < self->down_.lost_from) {
      self->worker_.accepted();
    }
  });
}

void Connection::SendUp(v1::WorkerMessage message) {
  if (worker_ended_ || up_closed_) return;
  ++backlog_;
  const absl::Duration write_time = weather_.Delay(random_) * 0.2;
  writing_until_ = std::max(writing_until_, scheduler_.Now()) + write_time;
  scheduler_.After(Until(writing_until_), worker_process_, [self = shared_from_this()] {
    --self->backlog_;
    if (!self->worker_ended_) self->worker_.written();
  });
  // What has been cut off arrives nowhere; it is seen at arrival.
  up_.last_arrival = std::max(up_.last_arrival, writing_until_);
  const std::vector<MonotonicTime> arrivals = Arrivals(up_, message.has_hello());
  const auto shared = std::make_shared<v1::WorkerMessage>(std::move(message));
  for (const MonotonicTime at : arrivals) {
    scheduler_.After(Until(at), coordinator_process_, [self = shared_from_this(), shared] {
      if (self->coordinator_ended_ || self->scheduler_.Now() >= self->up_.lost_from) return;
      self->coordinator_.message(*shared);
    });
  }
}

void Connection::CloseUp() {
  if (worker_ended_ || up_closed_) return;
  up_closed_ = true;
  EndCoordinator(NextArrival(up_));
}

WorkerStream::Offer Connection::Room() const {
  // Until it hears of a cut, it goes on writing into nothing.
  if (cancelled_ || finishing_ || coordinator_ended_) return Offer::kClosed;
  if (queued_down_ <= stream_bytes_max_) return Offer::kQueued;
  was_full_ = true;
  return Offer::kFull;
}

WorkerStream::Offer Connection::Send(v1::CoordinatorMessage&& message, size_t bytes,
                                     bool unless_full) {
  const Offer room = Room();
  if (room == Offer::kClosed || (room == Offer::kFull && unless_full)) return room;
  if (tap_ && !tap_(message)) return Offer::kQueued;
  queued_down_ += bytes;
  if (queued_down_ > stream_bytes_max_ && full_since_ == MonotonicTime()) {
    full_since_ = scheduler_.Now();
  }
  const std::vector<MonotonicTime> arrivals = Arrivals(down_, message.has_welcome());
  const auto shared = std::make_shared<v1::CoordinatorMessage>(std::move(message));
  for (const MonotonicTime at : arrivals) {
    scheduler_.After(Until(at), worker_process_, [self = shared_from_this(), shared] {
      if (self->worker_ended_ || self->scheduler_.Now() >= self->down_.lost_from) return;
      self->worker_.message(*shared);
    });
  }
  // The coordinator's kernel has got rid of it when the worker has taken it, about.
  const MonotonicTime taken = std::max(arrivals.front(), worker_process_->stopped_until);
  scheduler_.After(Until(taken), coordinator_process_, [self = shared_from_this(), bytes] {
    self->queued_down_ -= bytes;
    if (self->queued_down_ > self->stream_bytes_max_ / 2) return;
    self->full_since_ = MonotonicTime();
    if (std::exchange(self->was_full_, false) && !self->coordinator_ended_) {
      self->coordinator_.room();
    }
  });
  return Offer::kQueued;
}

void Connection::Cancel(absl::string_view) {
  cancelled_ = true;
  Cut();
}

void Connection::FinishWhenWritten(absl::Status) {
  if (std::exchange(finishing_, true) || cut_) return;
  const MonotonicTime at = NextArrival(down_);
  EndWorker(at);
  EndCoordinator(at);
}

absl::Duration Connection::WritingFor(MonotonicTime now) const {
  return full_since_ == MonotonicTime() ? absl::ZeroDuration() : now - full_since_;
}

MonotonicTime Connection::CutDirection(Direction& direction) {
  const MonotonicTime now = scheduler_.Now();
  const absl::Duration under_way =
      std::max(direction.last_arrival - now, absl::ZeroDuration()) + absl::Nanoseconds(1);
  direction.lost_from = now + under_way * random_.Unit();
  const absl::Duration noticed = weather_.prompt || random_.Chance(kNoticedAtOnce)
                                     ? weather_.Delay(random_)
                                     : kPingsUnanswered * random_.Unit();
  return direction.lost_from + noticed;
}

void Connection::Cut() {
  if (std::exchange(cut_, true)) return;
  EndCoordinator(CutDirection(up_));
  EndWorker(CutDirection(down_));
}

void Connection::EndWorker(MonotonicTime at) {
  scheduler_.After(Until(at), worker_process_, [self = shared_from_this()] {
    if (!std::exchange(self->worker_ended_, true)) self->worker_.ended();
  });
}

void Connection::EndCoordinator(MonotonicTime at) {
  if (coordinator_process_ == nullptr) return;
  scheduler_.After(Until(at), coordinator_process_, [self = shared_from_this()] {
    if (!std::exchange(self->coordinator_ended_, true)) self->coordinator_.ended();
  });
}

}  // namespace nightshift::sim
