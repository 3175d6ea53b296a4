// Results from the moment they are there until the coordinator has them durably. Numbered in order;
// on a new stream everything not acknowledged is sent again, in order.
//
// Bounded by count (from the oldest unacknowledged result on) and bytes: past a bound no new call
// starts, so what can still arrive are the calls in flight. Not thread-safe: it lives on the
// worker's loop thread.
//
// With a spool, final results are kept there as well, until they leave here. Failures that are to
// be tried again are not: nothing was paid for that they hold.
#ifndef NIGHTSHIFT_WORKER_CORE_OUTBOX_H_
#define NIGHTSHIFT_WORKER_CORE_OUTBOX_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "nightshift/v1/worker.pb.h"
#include "worker/core/request_key.h"
#include "worker/core/spool_port.h"

namespace nightshift {

class Outbox {
 public:
  struct Limits {
    int64_t requests_max = 65536;
    int64_t bytes_max = int64_t{64} << 20;
    int results_per_message_max = 1024;
    int64_t bytes_per_message_max = int64_t{1} << 20;
  };
  // The spool must outlive the outbox; null: none.
  explicit Outbox(const Limits& limits, SpoolPort* spool = nullptr)
      : limits_(limits), spool_(spool) {}

  // The number that the next Add will give.
  uint64_t next_sequence() const { return first_ + entries_.size(); }
  // Sets the result's sequence and keeps it. There must be no other result of the request.
  void Add(v1::AttemptResult result);
  // The same for one that the spool has had from before. False when the request has a result
  // already: then the spool's is forgotten.
  bool AddKept(KeptResult kept);
  // Numbers that are unknown or acknowledged already are ignored.
  void Acknowledge(uint64_t sequence);
  // Forgets the result of the request, sent or not; false when there is none.
  bool Drop(const RequestKey& key);
  // Forgets everything here, but not what the spool keeps. Returns how many results are lost by it.
  int64_t Abandon();
  // The result of the request; null when there is none.
  const v1::AttemptResult* Find(const RequestKey& key) const;

  // A new stream: everything is to be sent again.
  void Rewind() { next_to_send_ = first_; }
  // Copies the next unsent results, in order, until the message has passed a limit. False when
  // there are none.
  bool NextMessage(v1::ResultBatch* batch);
  bool HasUnsent();
  // How many of them, counting the gaps.
  uint64_t unsent() const { return next_sequence() - next_to_send_; }

  // Counts the gaps as well, so that one result that is never acknowledged cannot let them grow.
  bool full() const {
    return static_cast<int64_t>(entries_.size()) >= limits_.requests_max ||
           bytes_ >= limits_.bytes_max;
  }
  int64_t requests() const { return requests_; }
  int64_t bytes() const { return bytes_; }
  void ForEach(absl::FunctionRef<void(const v1::AttemptResult&)> visit) const;

 private:
  struct Entry {
    v1::AttemptResult result;
    int64_t bytes = 0;  // zero: acknowledged or dropped
    uint64_t kept = 0;  // its number in the spool; zero: not there
  };

  void Append(v1::AttemptResult result, uint64_t kept);
  void Erase(uint64_t sequence);

  const Limits limits_;
  SpoolPort* const spool_;
  std::deque<Entry> entries_;  // entries_[i] has sequence first_ + i; the front is never erased
  uint64_t first_ = 1;
  uint64_t next_to_send_ = 1;
  int64_t requests_ = 0;
  int64_t bytes_ = 0;
  absl::flat_hash_map<RequestKey, uint64_t> sequence_of_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_CORE_OUTBOX_H_
