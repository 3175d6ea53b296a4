#include "worker/link/coordinator_link.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/random.h"
#include "nightshift/v1/worker.grpc.pb.h"
#include "worker/link/link_stream.h"

namespace nightshift {
namespace {

// Statuses that another try will not change: someone has to do something first.
bool NeedsAPerson(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct CoordinatorLink::Impl {
  Impl(LinkOptions options_given, Clock& clock_given)
      : options(std::move(options_given)),
        clock(clock_given),
        random(options.random_seed),
        stub(v1::WorkerService::NewStub(options.channel)) {}

  void Open(MonotonicTime now) {
    // The pace is ours: the channel's own backoff would only add to it.
    grpc::experimental::ChannelResetConnectionBackoff(options.channel.get());
    opened_at = now;
    accepted = false;
    welcomed = false;
    gave_up = false;
    LinkStream::Events to_loop;
    to_loop.on_accepted = [this](std::shared_ptr<LinkStream> from) {
      options.post([this, from = std::move(from)] { OnAccepted(from); });
    };
    to_loop.on_message = [this](std::shared_ptr<LinkStream> from,
                                std::shared_ptr<v1::CoordinatorMessage> message) {
      options.post([this, from = std::move(from), message = std::move(message)] {
        OnMessage(from, std::move(*message));
      });
    };
    to_loop.on_writable = [this](std::shared_ptr<LinkStream> from) {
      options.post([this, from = std::move(from)] {
        if (from == stream) events.on_writable(clock.Now());
      });
    };
    to_loop.on_end = [this](std::shared_ptr<LinkStream> from, absl::Status status) {
      options.post(
          [this, from = std::move(from), status = std::move(status)] { OnEnd(from, status); });
    };
    stream = LinkStream::Open(*stub, options.token, live, std::move(to_loop));
  }

  void OnAccepted(const std::shared_ptr<LinkStream>& from) {
    if (from != stream || closing) return;
    accepted = true;
    events.on_up(clock.Now());
  }

  void OnMessage(const std::shared_ptr<LinkStream>& from, v1::CoordinatorMessage message) {
    if (from == stream) {
      if (!welcomed && message.has_welcome()) {
        welcomed = true;
        if (!told.empty()) LogWarning("connected to the coordinator again");
        told.clear();
      }
      events.on_message(std::move(message), clock.Now());
    }
    from->MessageTaken();
  }

  void OnEnd(const std::shared_ptr<LinkStream>& from, const absl::Status& status) {
    if (from != stream) return;
    const MonotonicTime now = clock.Now();
    stream.reset();
    if (std::exchange(accepted, false)) events.on_down(now);
    if (closing) {
      if (on_closed) std::exchange(on_closed, nullptr)();
      return;
    }
    if (std::exchange(reopening, false)) {
      // Asked for, and said by whoever asked.
      open_at = now + kReconnectMin;
      return;
    }
    const bool slow = NeedsAPerson(status);
    const absl::Duration spread = kReconnectMax - kReconnectMin;
    open_at = now + (slow ? kRefusedRetryAfter : kReconnectMin + spread * random.Unit());
    Tell(gave_up ? absl::DeadlineExceededError(
                       absl::StrCat("it took the stream and then said nothing for ",
                                    absl::ToInt64Seconds(kWelcomeMax), " s"))
                 : status,
         slow);
  }

  // The same trouble is told once, however often it is tried again.
  void Tell(const absl::Status& status, bool refused) {
    std::string text = refused
                           ? absl::StrCat("the coordinator refuses this worker: ", status.message())
                           : absl::StrCat("no connection to the coordinator (", status.message(),
                                          "); calls under way go on, their results are kept, and "
                                          "it is tried again");
    if (text == told) {
      LogDebug(text);
    } else if (refused) {
      LogError(text);
    } else {
      LogWarning(text);
    }
    told = std::move(text);
  }

  const LinkOptions options;
  Clock& clock;
  Random random;
  const std::unique_ptr<v1::WorkerService::Stub> stub;
  const std::shared_ptr<LiveStreams> live = std::make_shared<LiveStreams>();
  LinkEvents events;

  // The loop thread's.
  std::shared_ptr<LinkStream> stream;  // the present one, if any
  bool accepted = false;               // the coordinator has let the present one in
  bool welcomed = false;               // … and has answered its Hello
  bool gave_up = false;                // … or was cancelled, since that never came
  bool reopening = false;              // … or was cancelled by Reopen
  bool closing = false;
  MonotonicTime opened_at;
  MonotonicTime open_at;  // when the next is due: at once at first
  std::function<void()> on_closed;
  std::string told;  // the last trouble that was logged
};

CoordinatorLink::CoordinatorLink(LinkOptions options, Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(options), clock)) {}

CoordinatorLink::~CoordinatorLink() {
  if (impl_->stream != nullptr) impl_->stream->Cancel();
  impl_->live->WaitForNone();
}

void CoordinatorLink::SetEvents(LinkEvents events) { impl_->events = std::move(events); }

MonotonicTime CoordinatorLink::OnTimer(MonotonicTime now) {
  Impl& link = *impl_;
  if (link.closing) return MonotonicTime::Infinite();
  if (link.stream == nullptr) {
    if (now < link.open_at) return link.open_at;
    link.Open(now);
  }
  if (link.welcomed) return MonotonicTime::Infinite();
  const MonotonicTime give_up_at = link.opened_at + kWelcomeMax;
  if (now < give_up_at) return give_up_at;
  if (!std::exchange(link.gave_up, true)) link.stream->Cancel();
  return MonotonicTime::Infinite();
}

void CoordinatorLink::Send(v1::WorkerMessage message) {
  if (impl_->accepted) impl_->stream->Send(std::move(message));
}

int CoordinatorLink::Backlog() const { return impl_->accepted ? impl_->stream->Backlog() : 0; }

void CoordinatorLink::Reopen() {
  if (impl_->stream == nullptr) return;
  impl_->reopening = true;
  impl_->stream->Cancel();
}

void CoordinatorLink::Close(std::function<void()> on_closed) {
  impl_->closing = true;
  if (impl_->stream == nullptr) return on_closed();
  impl_->on_closed = std::move(on_closed);
  if (impl_->accepted) {
    impl_->stream->CloseWhenWritten();
  } else {
    impl_->stream->Cancel();
  }
}

}  // namespace nightshift
