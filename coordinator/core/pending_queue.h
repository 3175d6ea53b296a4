// Where every request of one running job is, and which goes out next.
//
// A bit per request says what is finished. What has never been leased is everything from a cursor
// on; only requests that are out, came back, or wait for a retry are objects (about 20 bytes each),
// so memory is a few bits per request plus what is in flight. After a restart the unfinished
// requests below the lease frontier ("holes") have a cursor of their own, closed until the grace
// time is over, because a worker may still be calling a backend for them.
//
// Order of going out: what came back, then holes, then new ones, each by rising index. Requests
// that go out with caution (poison.h) are among those that came back and are asked for by name.
//
// Used by the dispatcher under its lock; not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_PENDING_QUEUE_H_
#define NIGHTSHIFT_COORDINATOR_CORE_PENDING_QUEUE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "coordinator/core/poison.h"
#include "coordinator/core/request_state.h"
#include "coordinator/core/route.h"

namespace nightshift {

class PendingQueue {
 public:
  // `finished`: one bitmap per chunk of kChunkRequests, in order; missing chunks and bytes are
  // zero, bits past `total` are ignored. Unfinished requests below `frontier` are unclaimed until
  // `holes_open_at`.
  PendingQueue(uint64_t total, absl::Span<const std::string> finished, uint64_t frontier,
               MonotonicTime holes_open_at);
  explicit PendingQueue(uint64_t total) : PendingQueue(total, {}, 0, MonotonicTime{}) {}

  // `index` below total, here and everywhere.
  RequestState StateOf(uint64_t index) const;

  // Appends up to `count` requests that may go out with this caution; they are leased now.
  void Take(int64_t count, std::vector<uint64_t>* out, Caution caution = Caution::kOrdinary);
  // A worker says it holds this one: leased, if it is neither leased, committing nor finished.
  bool Claim(uint64_t index);
  // From a lease back to the front.
  void Return(uint64_t index);
  // From a lease into a lane (route.h), where it waits for who asks for that lane by number. It
  // must be an ordinary request. Whatever becomes of it afterwards, it is in no lane then.
  void Defer(uint64_t index, Lane lane);
  // Like Take, from one lane.
  void TakeLane(Lane lane, int64_t count, std::vector<uint64_t>* out);
  // `from` is StateOf(index): any state but committing and finished.
  void BeginCommit(uint64_t index, RequestState from);
  // After BeginCommit.
  void Finish(uint64_t index);
  void RetryAt(uint64_t index, MonotonicTime due);
  // Before anything has been leased: a request that has its outcome from the start.
  void FinishUnused(uint64_t index);
  // How the request goes out from now on, if it does: of one that is leased, after it came back.
  void SetCaution(uint64_t index, Caution caution);
  Caution CautionOf(uint64_t index) const;

  // Lets retries that are due, and holes after their grace time, go out.
  void Advance(MonotonicTime now);
  // When Advance would change something; infinite when nothing waits for time.
  MonotonicTime NextDue() const;

  uint64_t total() const { return total_; }
  uint64_t finished() const { return finished_count_; }
  uint64_t leased() const { return leased_; }
  uint64_t committing() const { return committing_; }
  uint64_t retrying() const { return timers_.size(); }
  // May go out now (as of the last Advance), in all and with the one caution.
  uint64_t available() const;
  uint64_t available(Caution caution) const;
  // In a lane; these are among `available()`, and in no `available(caution)`.
  uint64_t waiting(Lane lane) const { return lane < lanes_.size() ? lanes_[lane].size() : 0; }
  uint64_t in_lanes() const { return lane_.size(); }
  // Waiting to be claimed.
  uint64_t unclaimed() const { return holes_open_ ? 0 : holes_.left; }
  // Indexes from here on have not been leased.
  uint64_t frontier() const { return std::max(fresh_.next, claimed_end_); }

  // Rising.
  std::vector<uint64_t> Leased() const;
  // One chunk, ceil(requests / 8) bytes; `chunk` below chunks().
  const std::string& bitmap(size_t chunk) const { return bitmaps_[chunk]; }
  size_t chunks() const { return bitmaps_.size(); }

  // Recounts everything the slow way and breaks the program on a difference. For tests.
  void CheckConsistent() const;

 private:
  // Walks the unfinished requests of [next, end) that are not in special_; `left` of them remain.
  struct Sweep {
    uint64_t next = 0;
    uint64_t end = 0;
    uint64_t left = 0;
    bool Covers(uint64_t index) const { return index >= next && index < end; }
  };

  bool IsFinished(uint64_t index) const;
  void SetFinished(uint64_t index);
  uint64_t CountUnfinished(uint64_t begin, uint64_t end) const;
  void TakeFrom(Sweep* sweep, int64_t* count, std::vector<uint64_t>* out);
  void Move(uint64_t index, RequestState from, RequestState to);
  // Where a returned request is.
  absl::btree_set<uint64_t>& Returned(uint64_t index);

  const uint64_t total_;
  std::vector<std::string> bitmaps_;
  uint64_t finished_count_ = 0;
  uint64_t leased_ = 0;
  uint64_t committing_ = 0;

  Sweep holes_;
  Sweep fresh_;
  // One past the highest index that a worker claimed ahead of the cursor: it may still hold
  // requests of an earlier run of the job.
  uint64_t claimed_end_ = 0;
  MonotonicTime holes_open_at_;
  bool holes_open_ = false;

  // Exactly the requests that are returned, retrying, leased or committing.
  absl::flat_hash_map<uint64_t, RequestState> special_;
  std::array<absl::btree_set<uint64_t>, kCautions> returned_;  // by caution
  // Returned requests that are in a lane instead: the lanes, and of each request which.
  std::vector<absl::btree_set<uint64_t>> lanes_;
  absl::flat_hash_map<uint64_t, Lane> lane_;
  absl::flat_hash_map<uint64_t, int64_t> retry_due_;
  absl::btree_set<std::pair<int64_t, uint64_t>> timers_;  // (due, index) of retry_due_
  // Of unfinished requests, those that are not ordinary.
  absl::flat_hash_map<uint64_t, Caution> caution_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_PENDING_QUEUE_H_
