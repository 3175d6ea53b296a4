#include "coordinator/commit/progress_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/commit/progress_sums.h"
#include "storage/keys.h"
#include "storage/record.h"

namespace nightshift {

ProgressLedger::ProgressLedger(const Store& store, int deltas_per_chunk_max,
                               std::function<absl::StatusOr<int64_t>(JobNumber)> total_of)
    : store_(store),
      deltas_max_(static_cast<size_t>(std::max(deltas_per_chunk_max, 0))),
      total_of_(std::move(total_of)) {}

absl::StatusOr<ProgressLedger::Chunk*> ProgressLedger::Find(ChunkId id) {
  if (last_ != nullptr && last_id_ == id) return last_;
  auto at = chunks_.find(id);
  if (at == chunks_.end()) {
    ASSIGN_OR_RETURN(const int64_t total, total_of_(id.job));
    ASSIGN_OR_RETURN(ProgressChunk rows, ReadChunk(store_, id.job, id.chunk, total));
    at = chunks_.emplace(id, std::make_unique<Chunk>(std::move(rows))).first;
  }
  last_id_ = id;
  last_ = at->second.get();
  return last_;
}

absl::Status ProgressLedger::Add(JobNumber job, uint64_t index, const v1::OutcomeRecord& outcome) {
  const ChunkId id{job, static_cast<uint32_t>(index / kChunkRequests)};
  const auto offset = static_cast<uint32_t>(index % kChunkRequests);
  ASSIGN_OR_RETURN(Chunk* const chunk, Find(id));
  if (offset >= chunk->size || BitIsSet(chunk->bitmap, offset)) {
    return absl::InternalError(absl::StrCat(
        "request ", index, " of job number ", job,
        offset >= chunk->size ? " is past the end of its job" : " has an outcome already",
        "; the coordinator's memory and its store disagree"));
  }
  SetBit(chunk->bitmap, offset);
  ++chunk->finished;
  chunk->delta.add_offsets(offset);
  AddOutcome(outcome, chunk->delta.mutable_sums());
  if (!chunk->touched) {
    chunk->touched = true;
    touched_.push_back(id);
  }
  return absl::OkStatus();
}

void ProgressLedger::Fold(ChunkId id, Chunk& chunk, WriteSet& writes) {
  std::string key = ProgressKey(id.job, id.chunk, 0);
  std::string value = EncodeRecord(key, MakeBase(chunk.bitmap, chunk.sums));
  writes.Put(Family::kProgress, std::move(key), std::move(value));
  for (const uint64_t commit : chunk.deltas) {
    writes.Delete(Family::kProgress, ProgressKey(id.job, id.chunk, commit));
  }
  chunk.deltas.clear();
}

void ProgressLedger::AddRows(WriteSet& writes) {
  for (const ChunkId& id : touched_) {
    const Chunk& chunk = *chunks_.at(id);
    if (!chunk.deltas.empty()) commit_number_ = std::max(commit_number_, chunk.deltas.back());
  }
  if (!touched_.empty()) ++commit_number_;

  last_ = nullptr;
  for (const ChunkId& id : touched_) {
    const auto at = chunks_.find(id);
    Chunk& chunk = *at->second;
    AddSums(chunk.delta.sums(), &chunk.sums);
    if (chunk.finished == chunk.size || chunk.fold_waits || chunk.deltas.size() >= deltas_max_) {
      Fold(id, chunk, writes);
    } else {
      std::string key = ProgressKey(id.job, id.chunk, commit_number_);
      std::string value = EncodeRecord(key, chunk.delta);
      writes.Put(Family::kProgress, std::move(key), std::move(value));
      chunk.deltas.push_back(commit_number_);
    }
    chunk.delta.Clear();
    chunk.touched = false;
    // Nothing can be added to a whole chunk: it need not be remembered.
    if (chunk.finished == chunk.size) chunks_.erase(at);
  }
  touched_.clear();

  for (int folded = 0; folded < kFoldsPerCommitMax && !folds_.empty(); folds_.pop_front()) {
    const auto at = chunks_.find(folds_.front());
    if (at == chunks_.end() || !at->second->fold_waits) continue;
    if (!at->second->deltas.empty()) {
      Fold(at->first, *at->second, writes);
      ++folded;
    }
    chunks_.erase(at);
  }
}

void ProgressLedger::QueueFold(ChunkId id, Chunk& chunk) {
  if (chunk.fold_waits) return;
  chunk.fold_waits = true;
  folds_.push_back(id);
}

void ProgressLedger::Retire(JobNumber job) {
  for (auto at = chunks_.lower_bound({job, 0}); at != chunks_.end() && at->first.job == job; ++at) {
    QueueFold(at->first, *at->second);
  }
}

void ProgressLedger::Forget(JobNumber job) {
  last_ = nullptr;
  chunks_.erase(chunks_.lower_bound({job, 0}), chunks_.lower_bound({job + 1, 0}));
}

void ProgressLedger::FoldAll() {
  for (const auto& [id, chunk] : chunks_) QueueFold(id, *chunk);
}

}  // namespace nightshift
