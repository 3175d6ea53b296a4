#include "worker/link/link_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/link/coordinator_link.h"

namespace nightshift {

void LiveStreams::Add() {
  MutexLock lock(&mutex_);
  ++count_;
}

void LiveStreams::Remove() {
  MutexLock lock(&mutex_);
  --count_;
  changed_.SignalAll();
}

void LiveStreams::WaitForNone() {
  MutexLock lock(&mutex_);
  while (count_ > 0) changed_.Wait(&mutex_);
}

LinkStream::LinkStream(std::shared_ptr<LiveStreams> live, Events events)
    : live_(std::move(live)), events_(std::move(events)) {}

std::shared_ptr<LinkStream> LinkStream::Open(v1::WorkerService::Stub& stub,
                                             const std::string& token,
                                             std::shared_ptr<LiveStreams> live, Events events) {
  auto stream = std::make_shared<LinkStream>(std::move(live), std::move(events));
  stream->live_->Add();
  stream->self_ = stream;
  if (!token.empty()) {
    stream->context_.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  }
  stub.async()->Connect(&stream->context_, stream.get());
  // Writes, and reads after a pause, are started from the loop's thread.
  stream->AddHold();
  stream->StartRead(&stream->inbound_);
  stream->StartCall();
  return stream;
}

void LinkStream::Send(v1::WorkerMessage message) {
  Next next;
  {
    MutexLock lock(&mutex_);
    if (broken_ || close_) return;
    queue_.push_back(std::move(message));
    next = TakeNextLocked();
  }
  Do(next);
}

int LinkStream::Backlog() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(queue_.size()) + (writing_ ? 1 : 0);
}

void LinkStream::MessageTaken() {
  {
    MutexLock lock(&mutex_);
    --untaken_;
    if (reading_ || broken_ || untaken_ >= kInboundMessagesMax) return;
    reading_ = true;
  }
  StartRead(&inbound_);
}

void LinkStream::CloseWhenWritten() {
  Next next;
  {
    MutexLock lock(&mutex_);
    close_ = true;
    next = TakeNextLocked();
  }
  Do(next);
}

void LinkStream::Cancel() {
  bool end_hold = false;
  {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    // A read under way will end and say so; without one, this is the only sign.
    if (!reading_) broken_ = true;
    end_hold = EndHoldLocked();
  }
  context_.TryCancel();
  if (end_hold) RemoveHold();
}

void LinkStream::OnReadInitialMetadataDone(bool ok) {
  if (ok) events_.on_accepted(self_);
}

void LinkStream::OnReadDone(bool ok) {
  bool read = false;
  bool end_hold = false;
  std::shared_ptr<v1::CoordinatorMessage> message;
  {
    MutexLock lock(&mutex_);
    if (ok) {
      message = std::make_shared<v1::CoordinatorMessage>(std::move(inbound_));
      inbound_ = v1::CoordinatorMessage();
      ++untaken_;
      read = untaken_ < kInboundMessagesMax;
      reading_ = read;
    }
    // A message that was in when the stream was cancelled is read well, and can be the last read:
    // nobody may be left who takes it and has another one started.
    if (!ok || cancelled_) {
      read = false;
      broken_ = true;
      reading_ = false;
      queue_.clear();
      end_hold = EndHoldLocked();
    }
  }
  if (message != nullptr) events_.on_message(self_, std::move(message));
  if (read) StartRead(&inbound_);
  if (end_hold) RemoveHold();
}

void LinkStream::OnWriteDone(bool ok) {
  Next next = Next::kNothing;
  bool end_hold = false;
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    outbound_.Clear();
    if (!ok) queue_.clear();
    next = ok ? TakeNextLocked() : Next::kNothing;
    if (next == Next::kNothing) end_hold = EndHoldLocked();
  }
  Do(next);
  if (ok) events_.on_writable(self_);
  if (end_hold) RemoveHold();
}

void LinkStream::OnWritesDoneDone(bool /*ok*/) {
  bool end_hold = false;
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    end_hold = EndHoldLocked();
  }
  if (end_hold) RemoveHold();
}

void LinkStream::OnDone(const grpc::Status& status) {
  const std::shared_ptr<LiveStreams> live = live_;
  {
    const std::shared_ptr<LinkStream> last = std::move(self_);
    events_.on_end(last, absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                                      status.error_message()));
  }
  // This object is gone, or the loop's. Only now may the link go: the context holds the channel,
  // and gRPC ends the process when a channel's last reference is dropped on a thread of its own.
  live->Remove();
}

LinkStream::Next LinkStream::TakeNextLocked() {
  if (writing_ || broken_ || writes_done_) return Next::kNothing;
  if (!queue_.empty()) {
    outbound_ = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    return Next::kWrite;
  }
  if (!close_) return Next::kNothing;
  writes_done_ = true;
  writing_ = true;
  return Next::kWritesDone;
}

void LinkStream::Do(Next next) {
  switch (next) {
    case Next::kNothing:
      return;
    case Next::kWrite:
      StartWrite(&outbound_);
      return;
    case Next::kWritesDone:
      StartWritesDone();
      return;
  }
}

bool LinkStream::EndHoldLocked() {
  if (!hold_ || !broken_ || writing_) return false;
  hold_ = false;
  return true;
}

}  // namespace nightshift
