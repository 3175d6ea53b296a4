#include "coordinator/rpc/worker_streams.h"

#include <utility>

#include "base/log.h"

namespace nightshift {
namespace {

constexpr uint64_t kAnyAge = UINT64_MAX;

}  // namespace

WorkerStreams::WorkerStreams(Dispatcher& dispatcher, Clock& clock,
                             std::function<void(WorkerNumber)> on_hello)
    : dispatcher_(dispatcher), clock_(clock), on_hello_(std::move(on_hello)) {}

absl::StatusOr<WorkerNumber> WorkerStreams::Open(const v1::Hello& hello,
                                                 std::shared_ptr<WorkerStream> stream) {
  MutexLock order(&order_mutex_);
  {
    MutexLock lock(&mutex_);
    if (finishing_) return finish_status_;
  }
  // The old stream goes first: a lease granted from now on must not be put on it.
  WorkerNumber replaced_worker = 0;
  if (const auto old = TakeOut(hello.session(), &replaced_worker); old != nullptr) {
    LogInfo("worker ", hello.name(), " has opened a new stream; its old one is cancelled");
    old->Cancel("the same worker has opened a newer stream");
  }
  absl::StatusOr<Dispatcher::HelloReply> reply =
      dispatcher_.OnHello(hello, clock_.Now(), clock_.WallNow());
  if (!reply.ok()) {
    if (replaced_worker != 0) dispatcher_.OnStreamClosed(replaced_worker, clock_.Now());
    return reply.status();
  }
  on_hello_(reply->worker);
  // Queued before anyone else can find the stream, so that it is the first message.
  v1::CoordinatorMessage welcome;
  *welcome.mutable_welcome() = std::move(reply->welcome);
  const size_t bytes = welcome.ByteSizeLong();
  stream->Send(std::move(welcome), bytes, /*unless_full=*/false);

  MutexLock lock(&mutex_);
  // FinishAll may have gone through the streams just before this one was among them.
  if (finishing_) stream->FinishWhenWritten(finish_status_);
  streams_[reply->worker] = Entry{std::move(stream), hello.session(), ++opened_};
  sessions_[hello.session()] = reply->worker;
  return reply->worker;
}

void WorkerStreams::Report(WorkerNumber worker, WorkerStream* stream, const v1::Report& report) {
  MutexLock order(&order_mutex_);
  if (!IsCurrent(worker, stream)) return;
  v1::CoordinatorMessage message;
  *message.mutable_rate_shares() = dispatcher_.OnReport(worker, report, clock_.Now());
  if (message.rate_shares().shares().empty()) return;
  const size_t bytes = message.ByteSizeLong();
  // Where there is no room the next report's answer does.
  stream->Send(std::move(message), bytes, /*unless_full=*/true);
}

void WorkerStreams::Returned(WorkerNumber worker, const WorkerStream* stream,
                             const v1::Returned& returned) {
  MutexLock order(&order_mutex_);
  if (IsCurrent(worker, stream)) dispatcher_.OnReturned(worker, returned, clock_.Now());
}

void WorkerStreams::Drain(WorkerNumber worker, const WorkerStream* stream, const v1::Drain& drain) {
  MutexLock order(&order_mutex_);
  if (IsCurrent(worker, stream)) dispatcher_.OnDrain(worker, drain, clock_.Now());
}

void WorkerStreams::Close(WorkerNumber worker, const WorkerStream* stream) {
  MutexLock order(&order_mutex_);
  {
    MutexLock lock(&mutex_);
    const auto found = streams_.find(worker);
    if (found == streams_.end() || found->second.stream.get() != stream) return;
    sessions_.erase(found->second.session);
    streams_.erase(found);
  }
  dispatcher_.OnStreamClosed(worker, clock_.Now());
}

uint64_t WorkerStreams::opened() const {
  MutexLock lock(&mutex_);
  return opened_;
}

WorkerStream::Offer WorkerStreams::LeaseRoom(WorkerNumber worker, uint64_t planned_at) const {
  const std::shared_ptr<WorkerStream> stream = Find(worker, planned_at);
  return stream == nullptr ? WorkerStream::Offer::kClosed : stream->Room();
}

WorkerStream::Offer WorkerStreams::SendLease(WorkerNumber worker, uint64_t planned_at,
                                             v1::CoordinatorMessage&& message, size_t bytes) {
  const std::shared_ptr<WorkerStream> stream = Find(worker, planned_at);
  if (stream == nullptr) return WorkerStream::Offer::kClosed;
  return stream->Send(std::move(message), bytes, /*unless_full=*/true);
}

void WorkerStreams::Send(const Outgoing& outgoing) {
  const std::shared_ptr<WorkerStream> stream = Find(outgoing.worker, kAnyAge);
  if (stream == nullptr) return;
  v1::CoordinatorMessage message = outgoing.message;
  const size_t bytes = message.ByteSizeLong();
  stream->Send(std::move(message), bytes, /*unless_full=*/false);
}

void WorkerStreams::CancelStalled(MonotonicTime now) {
  for (const std::shared_ptr<WorkerStream>& stream : All()) {
    if (stream->WritingFor(now) > kWriteStallMax) stream->Cancel("nobody reads its other end");
  }
}

void WorkerStreams::FinishAll(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    finishing_ = true;
    finish_status_ = status;
  }
  for (const std::shared_ptr<WorkerStream>& stream : All()) stream->FinishWhenWritten(status);
}

bool WorkerStreams::IsCurrent(WorkerNumber worker, const WorkerStream* stream) const {
  MutexLock lock(&mutex_);
  const auto found = streams_.find(worker);
  return found != streams_.end() && found->second.stream.get() == stream;
}

std::shared_ptr<WorkerStream> WorkerStreams::Find(WorkerNumber worker, uint64_t planned_at) const {
  MutexLock lock(&mutex_);
  const auto found = streams_.find(worker);
  if (found == streams_.end() || found->second.opened > planned_at) return nullptr;
  return found->second.stream;
}

std::vector<std::shared_ptr<WorkerStream>> WorkerStreams::All() const {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<WorkerStream>> all;
  all.reserve(streams_.size());
  for (const auto& [worker, entry] : streams_) all.push_back(entry.stream);
  return all;
}

std::shared_ptr<WorkerStream> WorkerStreams::TakeOut(const std::string& session,
                                                     WorkerNumber* worker) {
  MutexLock lock(&mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return nullptr;
  *worker = found->second;
  sessions_.erase(found);
  const auto entry = streams_.find(*worker);
  std::shared_ptr<WorkerStream> stream = std::move(entry->second.stream);
  streams_.erase(entry);
  return stream;
}

}  // namespace nightshift
