#include "worker/core/outbox.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace nightshift {
namespace {

// What an entry takes besides its texts; an estimate, and never zero.
constexpr int64_t kEntryBytes = 256;

int64_t Footprint(const v1::AttemptResult& result) {
  return kEntryBytes + static_cast<int64_t>(result.body().size() + result.error_message().size());
}

}  // namespace

void Outbox::Add(v1::AttemptResult result) {
  const bool keep = spool_ != nullptr && result.kind() != v1::AttemptResult::RETRY;
  const uint64_t kept = keep ? spool_->Keep(result) : 0;
  Append(std::move(result), kept);
}

bool Outbox::AddKept(KeptResult kept) {
  if (sequence_of_.contains(RequestKey::From(kept.result.key()))) {
    spool_->Forget(kept.number);
    return false;
  }
  Append(std::move(kept.result), kept.number);
  return true;
}

void Outbox::Append(v1::AttemptResult result, uint64_t kept) {
  const uint64_t sequence = next_sequence();
  result.set_sequence(sequence);
  const bool is_first = sequence_of_.emplace(RequestKey::From(result.key()), sequence).second;
  NIGHTSHIFT_CHECK(is_first, "a request has two results");
  Entry& entry = entries_.emplace_back();
  entry.kept = kept;
  entry.bytes = Footprint(result);
  entry.result = std::move(result);
  ++requests_;
  bytes_ += entry.bytes;
}

void Outbox::Acknowledge(uint64_t sequence) {
  if (sequence < first_ || sequence >= next_sequence()) return;
  if (entries_[sequence - first_].bytes > 0) Erase(sequence);
}

bool Outbox::Drop(const RequestKey& key) {
  const auto found = sequence_of_.find(key);
  if (found == sequence_of_.end()) return false;
  Erase(found->second);
  return true;
}

int64_t Outbox::Abandon() {
  int64_t lost = 0;
  for (const Entry& entry : entries_) {
    if (entry.bytes > 0 && entry.kept == 0) ++lost;
  }
  first_ = next_sequence();
  next_to_send_ = first_;
  entries_.clear();
  sequence_of_.clear();
  requests_ = 0;
  bytes_ = 0;
  return lost;
}

const v1::AttemptResult* Outbox::Find(const RequestKey& key) const {
  const auto found = sequence_of_.find(key);
  return found == sequence_of_.end() ? nullptr : &entries_[found->second - first_].result;
}

void Outbox::Erase(uint64_t sequence) {
  Entry& entry = entries_[sequence - first_];
  sequence_of_.erase(RequestKey::From(entry.result.key()));
  --requests_;
  bytes_ -= entry.bytes;
  entry.bytes = 0;
  entry.result = v1::AttemptResult();
  if (entry.kept != 0) spool_->Forget(std::exchange(entry.kept, 0));
  while (!entries_.empty() && entries_.front().bytes == 0) {
    entries_.pop_front();
    ++first_;
  }
  next_to_send_ = std::max(next_to_send_, first_);
}

bool Outbox::HasUnsent() {
  while (next_to_send_ < next_sequence() && entries_[next_to_send_ - first_].bytes == 0) {
    ++next_to_send_;
  }
  return next_to_send_ < next_sequence();
}

bool Outbox::NextMessage(v1::ResultBatch* batch) {
  int64_t bytes = 0;
  while (HasUnsent() && batch->results_size() < limits_.results_per_message_max &&
         bytes < limits_.bytes_per_message_max) {
    const Entry& entry = entries_[next_to_send_ - first_];
    *batch->add_results() = entry.result;
    bytes += entry.bytes;
    ++next_to_send_;
  }
  return batch->results_size() > 0;
}

void Outbox::ForEach(absl::FunctionRef<void(const v1::AttemptResult&)> visit) const {
  for (const Entry& entry : entries_) {
    if (entry.bytes > 0) visit(entry.result);
  }
}

}  // namespace nightshift
