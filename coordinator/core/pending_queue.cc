#include "coordinator/core/pending_queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "storage/keys.h"

namespace nightshift {
namespace {

uint64_t ChunkSize(uint64_t total, size_t chunk) {
  return std::min<uint64_t>(kChunkRequests, total - chunk * kChunkRequests);
}

}  // namespace

PendingQueue::PendingQueue(uint64_t total, absl::Span<const std::string> finished,
                           uint64_t frontier, MonotonicTime holes_open_at)
    : total_(total), holes_open_at_(holes_open_at) {
  frontier = std::min(frontier, total);
  bitmaps_.resize((total + kChunkRequests - 1) / kChunkRequests);
  for (size_t chunk = 0; chunk < bitmaps_.size(); ++chunk) {
    const uint64_t size = ChunkSize(total, chunk);
    std::string& bits = bitmaps_[chunk];
    if (chunk < finished.size()) bits = finished[chunk];
    bits.resize((size + 7) / 8, '\0');
    if (size % 8 != 0) {
      bits.back() = static_cast<char>(bits.back() & ((1 << (size % 8)) - 1));
    }
  }
  finished_count_ = total - CountUnfinished(0, total);
  holes_ = {0, frontier, CountUnfinished(0, frontier)};
  fresh_ = {frontier, total, CountUnfinished(frontier, total)};
  holes_open_ = holes_.left == 0;
}

bool PendingQueue::IsFinished(uint64_t index) const {
  const uint64_t offset = index % kChunkRequests;
  return (bitmaps_[index / kChunkRequests][offset / 8] >> (offset % 8) & 1) != 0;
}

void PendingQueue::SetFinished(uint64_t index) {
  const uint64_t offset = index % kChunkRequests;
  char& byte = bitmaps_[index / kChunkRequests][offset / 8];
  byte = static_cast<char>(byte | (1 << (offset % 8)));
  ++finished_count_;
}

uint64_t PendingQueue::CountUnfinished(uint64_t begin, uint64_t end) const {
  uint64_t count = 0;
  for (uint64_t i = begin; i < end;) {
    if (i % 8 == 0 && i + 8 <= end) {
      const uint64_t offset = i % kChunkRequests;
      const auto byte = static_cast<unsigned char>(bitmaps_[i / kChunkRequests][offset / 8]);
      count += 8 - static_cast<uint64_t>(__builtin_popcount(byte));
      i += 8;
    } else {
      count += IsFinished(i) ? 0 : 1;
      ++i;
    }
  }
  return count;
}

RequestState PendingQueue::StateOf(uint64_t index) const {
  if (IsFinished(index)) return RequestState::kFinished;
  if (const auto it = special_.find(index); it != special_.end()) return it->second;
  if (fresh_.Covers(index)) return RequestState::kPending;
  NIGHTSHIFT_CHECK(holes_.Covers(index), absl::StrCat("request ", index, " is nowhere"));
  return holes_open_ ? RequestState::kPending : RequestState::kUnclaimed;
}

void PendingQueue::Move(uint64_t index, RequestState from, RequestState to) {
  NIGHTSHIFT_CHECK(CanMoveRequest(from, to),
                   absl::StrCat("request ", index, " cannot go from ", RequestStateWord(from),
                                " to ", RequestStateWord(to)));
  switch (from) {
    case RequestState::kPending:
    case RequestState::kUnclaimed:
      --(fresh_.Covers(index) ? fresh_ : holes_).left;
      break;
    case RequestState::kReturned:
      Returned(index).erase(index);
      if (!lane_.empty()) lane_.erase(index);
      break;
    case RequestState::kRetrying: {
      const auto due = retry_due_.find(index);
      timers_.erase({due->second, index});
      retry_due_.erase(due);
      break;
    }
    case RequestState::kLeased:
      --leased_;
      break;
    case RequestState::kCommitting:
      --committing_;
      break;
    case RequestState::kFinished:
      break;
  }
  switch (to) {
    case RequestState::kReturned:
      Returned(index).insert(index);
      break;
    case RequestState::kLeased:
      ++leased_;
      break;
    case RequestState::kCommitting:
      ++committing_;
      break;
    case RequestState::kFinished:
      special_.erase(index);
      caution_.erase(index);
      SetFinished(index);
      return;
    default:
      break;
  }
  special_[index] = to;
}

void PendingQueue::TakeFrom(Sweep* sweep, int64_t* count, std::vector<uint64_t>* out) {
  while (*count > 0 && sweep->left > 0) {
    NIGHTSHIFT_CHECK(sweep->next < sweep->end, "a cursor ran past the requests it counts");
    const uint64_t index = sweep->next;
    const uint64_t offset = index % kChunkRequests;
    if (offset % 8 == 0 && sweep->end - index >= 8 &&
        bitmaps_[index / kChunkRequests][offset / 8] == '\xff') {
      sweep->next += 8;
      continue;
    }
    ++sweep->next;
    if (IsFinished(index)) continue;
    // Already there: it was claimed, or its answer came, before the cursor reached it.
    if (!special_.try_emplace(index, RequestState::kLeased).second) continue;
    ++leased_;
    --sweep->left;
    --*count;
    out->push_back(index);
  }
}

void PendingQueue::Take(int64_t count, std::vector<uint64_t>* out, Caution caution) {
  const absl::btree_set<uint64_t>& returned = returned_[static_cast<size_t>(caution)];
  while (count > 0 && !returned.empty()) {
    const uint64_t index = *returned.begin();
    Move(index, RequestState::kReturned, RequestState::kLeased);
    out->push_back(index);
    --count;
  }
  if (caution != Caution::kOrdinary) return;
  if (holes_open_) TakeFrom(&holes_, &count, out);
  TakeFrom(&fresh_, &count, out);
}

absl::btree_set<uint64_t>& PendingQueue::Returned(uint64_t index) {
  if (!lane_.empty()) {
    if (const auto it = lane_.find(index); it != lane_.end()) return lanes_[it->second];
  }
  return returned_[static_cast<size_t>(CautionOf(index))];
}

void PendingQueue::Defer(uint64_t index, Lane lane) {
  NIGHTSHIFT_CHECK(
      StateOf(index) == RequestState::kLeased && CautionOf(index) == Caution::kOrdinary,
      absl::StrCat("request ", index, " cannot wait in a lane"));
  if (lanes_.size() <= lane) lanes_.resize(size_t{lane} + 1);
  lane_[index] = lane;
  Move(index, RequestState::kLeased, RequestState::kReturned);
}

void PendingQueue::TakeLane(Lane lane, int64_t count, std::vector<uint64_t>* out) {
  if (lane >= lanes_.size()) return;
  const absl::btree_set<uint64_t>& waiting = lanes_[lane];
  for (; count > 0 && !waiting.empty(); --count) {
    const uint64_t index = *waiting.begin();
    Move(index, RequestState::kReturned, RequestState::kLeased);
    out->push_back(index);
  }
}

bool PendingQueue::Claim(uint64_t index) {
  const RequestState state = StateOf(index);
  if (!CanMoveRequest(state, RequestState::kLeased)) return false;
  Move(index, state, RequestState::kLeased);
  claimed_end_ = std::max(claimed_end_, index + 1);
  return true;
}

void PendingQueue::Return(uint64_t index) {
  NIGHTSHIFT_CHECK(StateOf(index) == RequestState::kLeased,
                   absl::StrCat("request ", index, " is handed back but not leased"));
  Move(index, RequestState::kLeased, RequestState::kReturned);
}

void PendingQueue::BeginCommit(uint64_t index, RequestState from) {
  Move(index, from, RequestState::kCommitting);
}

void PendingQueue::Finish(uint64_t index) {
  Move(index, RequestState::kCommitting, RequestState::kFinished);
}

void PendingQueue::RetryAt(uint64_t index, MonotonicTime due) {
  Move(index, RequestState::kCommitting, RequestState::kRetrying);
  retry_due_[index] = due.nanos;
  timers_.insert({due.nanos, index});
}

void PendingQueue::FinishUnused(uint64_t index) {
  Move(index, RequestState::kPending, RequestState::kFinished);
}

Caution PendingQueue::CautionOf(uint64_t index) const {
  if (caution_.empty()) return Caution::kOrdinary;
  const auto known = caution_.find(index);
  return known == caution_.end() ? Caution::kOrdinary : known->second;
}

void PendingQueue::SetCaution(uint64_t index, Caution caution) {
  const RequestState state = StateOf(index);
  if (state == RequestState::kFinished) return;
  if (state == RequestState::kReturned) {
    Returned(index).erase(index);
    if (!lane_.empty()) lane_.erase(index);
  }
  if (caution == Caution::kOrdinary) {
    caution_.erase(index);
  } else {
    caution_[index] = caution;
  }
  if (state == RequestState::kReturned) {
    Returned(index).insert(index);
  } else if (state == RequestState::kPending && caution != Caution::kOrdinary) {
    // Or a cursor would come by and take it for an ordinary one.
    Move(index, state, RequestState::kReturned);
  }
}

void PendingQueue::Advance(MonotonicTime now) {
  if (!holes_open_ && now >= holes_open_at_) {
    for (const auto& [index, caution] : caution_) {
      if (StateOf(index) == RequestState::kUnclaimed) {
        Move(index, RequestState::kUnclaimed, RequestState::kReturned);
      }
    }
    holes_open_ = true;
  }
  while (!timers_.empty() && timers_.begin()->first <= now.nanos) {
    Move(timers_.begin()->second, RequestState::kRetrying, RequestState::kReturned);
  }
}

MonotonicTime PendingQueue::NextDue() const {
  MonotonicTime due = MonotonicTime::Infinite();
  if (!timers_.empty()) due.nanos = timers_.begin()->first;
  if (!holes_open_ && holes_.left > 0) due = std::min(due, holes_open_at_);
  return due;
}

uint64_t PendingQueue::available() const {
  uint64_t count = 0;
  for (int i = 0; i < kCautions; ++i) count += available(static_cast<Caution>(i));
  count += lane_.size();
  return count;
}

uint64_t PendingQueue::available(Caution caution) const {
  const uint64_t returned = returned_[static_cast<size_t>(caution)].size();
  if (caution != Caution::kOrdinary) return returned;
  return returned + (holes_open_ ? holes_.left : 0) + fresh_.left;
}

std::vector<uint64_t> PendingQueue::Leased() const {
  std::vector<uint64_t> leased;
  leased.reserve(leased_);
  for (const auto& [index, state] : special_) {
    if (state == RequestState::kLeased) leased.push_back(index);
  }
  std::sort(leased.begin(), leased.end());
  return leased;
}

void PendingQueue::CheckConsistent() const {
  uint64_t seen[7] = {};
  uint64_t holes = 0;
  for (uint64_t i = 0; i < total_; ++i) {
    const RequestState state = StateOf(i);
    ++seen[static_cast<size_t>(state)];
    if (special_.count(i) == 0 && holes_.Covers(i) && state != RequestState::kFinished) ++holes;
    const auto lane = lane_.find(i);
    if (lane != lane_.end()) {
      NIGHTSHIFT_CHECK(state == RequestState::kReturned && lanes_[lane->second].count(i) == 1,
                       "the lanes disagree");
    }
    for (int c = 0; c < kCautions; ++c) {
      const bool here = state == RequestState::kReturned && lane == lane_.end() &&
                        CautionOf(i) == static_cast<Caution>(c);
      NIGHTSHIFT_CHECK(here == (returned_[static_cast<size_t>(c)].count(i) == 1),
                       "the lists of returned requests disagree");
    }
    NIGHTSHIFT_CHECK(state != RequestState::kPending || CautionOf(i) == Caution::kOrdinary,
                     "a request that needs caution is where a cursor takes it");
    NIGHTSHIFT_CHECK((state == RequestState::kRetrying) == (retry_due_.count(i) == 1),
                     "the retry timers disagree");
  }
  size_t in_lanes = 0;
  for (const auto& waiting : lanes_) in_lanes += waiting.size();
  NIGHTSHIFT_CHECK(in_lanes == lane_.size(), "the lanes hold more than is known of");
  const auto count = [&seen](RequestState state) { return seen[static_cast<size_t>(state)]; };
  NIGHTSHIFT_CHECK(count(RequestState::kFinished) == finished_count_, "finished");
  NIGHTSHIFT_CHECK(count(RequestState::kLeased) == leased_, "leased");
  NIGHTSHIFT_CHECK(count(RequestState::kCommitting) == committing_, "committing");
  NIGHTSHIFT_CHECK(count(RequestState::kRetrying) == timers_.size(), "retrying");
  NIGHTSHIFT_CHECK(count(RequestState::kUnclaimed) == unclaimed(), "unclaimed");
  NIGHTSHIFT_CHECK(holes == holes_.left, "holes");
  NIGHTSHIFT_CHECK(
      count(RequestState::kPending) + count(RequestState::kUnclaimed) == holes_.left + fresh_.left,
      "pending");
}

}  // namespace nightshift
