#include "coordinator/jobs/repair.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/commit/progress_chunk.h"
#include "coordinator/commit/progress_sums.h"
#include "coordinator/core/job_table.h"
#include "coordinator/jobs/recovery.h"
#include "coordinator/jobs/row_walk.h"
#include "storage/keys.h"
#include "storage/record.h"

namespace nightshift {
namespace {

constexpr size_t kReadaheadBytes = size_t{1} << 20;
// Deletions per commit: a chunk has far fewer attempts rows as a rule.
constexpr size_t kDeletesPerCommitMax = 1000;

class JobRepairer {
 public:
  JobRepairer(Store& store, JobNumber number, v1::JobRecord record)
      : store_(store), number_(number), record_(std::move(record)) {
    repair_.set_id(record_.id());
  }

  absl::Status Run() {
    bool complete = true;
    for (uint32_t chunk = 0; chunk < ChunkCount(record_.total()); ++chunk) {
      ASSIGN_OR_RETURN(const bool known, RepairChunk(chunk));
      complete = complete && known;
    }
    RETURN_IF_ERROR(RemoveRowsPastTheEnd());
    // Without all outcomes nobody knows what they add up to.
    return complete && JobHasEnded(record_.state()) ? RepairEnd() : absl::OkStatus();
  }

  const v1::JobRepair& repair() const { return repair_; }

 private:
  template <typename... Words>
  void Done(const Words&... words) {
    repair_.add_done(absl::StrCat(words...));
  }
  template <typename... Words>
  void Left(const Words&... words) {
    repair_.add_left(absl::StrCat(words...));
  }

  // Reads the outcomes of a chunk. An error is damage to one of them.
  absl::Status Recount(uint32_t chunk, ProgressChunk* counted) {
    const uint64_t begin = chunk * kChunkRequests;
    RowWalk outcomes(store_, Family::kOutcomes, number_, begin, begin + counted->size,
                     kReadaheadBytes);
    for (; outcomes.Valid(); outcomes.Next()) {
      v1::OutcomeRecord outcome;
      RETURN_IF_ERROR(Annotate(DecodeRecord(outcomes.key(), outcomes.value(), &outcome),
                               absl::StrCat("the outcome of request ", outcomes.index())));
      SetBit(counted->bitmap, outcomes.index() - begin);
      ++counted->finished;
      AddOutcome(outcome, &counted->sums);
      if (outcome.kind() == v1::OUTCOME_CANCELLED) ++cancelled_;
      if (outcome.kind() == v1::OUTCOME_EXPIRED) ++expired_;
    }
    return outcomes.status();
  }

  // False when an outcome cannot be read.
  absl::StatusOr<bool> RepairChunk(uint32_t chunk) {
    ProgressChunk counted(ChunkSize(record_.total(), chunk));
    if (const absl::Status status = Recount(chunk, &counted); !status.ok()) {
      if (!absl::IsDataLoss(status)) return status;
      Left("chunk ", chunk, " is left as it is: ", status.message());
      return false;
    }
    finished_ += counted.finished;
    AddSums(counted.sums, &sums_);
    const absl::StatusOr<ProgressChunk> kept = ReadChunk(store_, number_, chunk, record_.total());
    if (!kept.ok() && !absl::IsDataLoss(kept.status())) return kept.status();
    if (!kept.ok() || kept->bitmap != counted.bitmap || !SumsAgree(kept->sums, counted.sums)) {
      RETURN_IF_ERROR(WriteChunk(chunk, counted));
      Done("chunk ", chunk, " counted anew: ", counted.finished, " requests are finished, ",
           counted.sums.succeeded(), " succeeded and ", counted.sums.failed(), " failed; ",
           kept.ok() ? absl::StrCat("it said ", kept->finished, ", ", kept->sums.succeeded(),
                                    " and ", kept->sums.failed())
                     : absl::StrCat("it could not be read (", kept.status().message(), ")"));
    }
    RETURN_IF_ERROR(RepairAttempts(chunk, counted.bitmap));
    return true;
  }

  // One base row in place of all rows that the chunk has.
  absl::Status WriteChunk(uint32_t chunk, const ProgressChunk& counted) {
    WriteSet writes;
    RETURN_IF_ERROR(DeleteRows(Family::kProgress, ProgressKey(number_, chunk, 0),
                               ProgressKey(number_, chunk + 1, 0), writes)
                        .status());
    std::string key = ProgressKey(number_, chunk, 0);
    std::string value = EncodeRecord(key, MakeBase(counted.bitmap, counted.sums));
    writes.Put(Family::kProgress, std::move(key), std::move(value));
    return store_.Commit(std::move(writes));
  }

  // Returns how many.
  absl::StatusOr<int64_t> DeleteRows(Family family, const std::string& begin,
                                     const std::string& end, WriteSet& writes) {
    int64_t count = 0;
    const std::unique_ptr<StoreIterator> rows = store_.Scan(family, begin, end);
    for (; rows->Valid(); rows->Next(), ++count) writes.Delete(family, std::string(rows->key()));
    RETURN_IF_ERROR(rows->status());
    return count;
  }

  absl::Status RepairAttempts(uint32_t chunk, absl::string_view finished) {
    const uint64_t begin = chunk * kChunkRequests;
    int64_t stale = 0;
    int64_t damaged = 0;
    WriteSet writes;
    RowWalk rows(store_, Family::kAttempts, number_, begin,
                 begin + ChunkSize(record_.total(), chunk), kReadaheadBytes);
    for (; rows.Valid(); rows.Next()) {
      v1::AttemptRecord attempts;
      const bool is_stale = BitIsSet(finished, rows.index() - begin);
      const bool is_damaged = !is_stale && !DecodeRecord(rows.key(), rows.value(), &attempts).ok();
      if (!is_stale && !is_damaged) continue;
      ++(is_stale ? stale : damaged);
      writes.Delete(Family::kAttempts, std::string(rows.key()));
      if (writes.writes().size() >= kDeletesPerCommitMax) {
        RETURN_IF_ERROR(store_.Commit(std::exchange(writes, WriteSet())));
      }
    }
    RETURN_IF_ERROR(rows.status());
    if (stale + damaged == 0) return absl::OkStatus();
    if (!writes.writes().empty()) RETURN_IF_ERROR(store_.Commit(std::move(writes)));
    if (stale > 0) Done(stale, " finished requests were still counted as being retried");
    if (damaged > 0) {
      Done("the attempts of ", damaged, " unfinished requests could not be read: they count anew");
    }
    return absl::OkStatus();
  }

  // Counting rows of requests that the job does not have.
  absl::Status RemoveRowsPastTheEnd() {
    WriteSet writes;
    const std::string end = JobKey(number_ + 1);
    ASSIGN_OR_RETURN(const int64_t progress,
                     DeleteRows(Family::kProgress,
                                ProgressKey(number_, ChunkCount(record_.total()), 0), end, writes));
    ASSIGN_OR_RETURN(
        const int64_t attempts,
        DeleteRows(Family::kAttempts,
                   RequestRowKey(number_, static_cast<uint64_t>(record_.total())), end, writes));
    if (progress + attempts == 0) return absl::OkStatus();
    RETURN_IF_ERROR(store_.Commit(std::move(writes)));
    Done(progress, " rows of progress and ", attempts, " of attempts past the job's ",
         record_.total(), " requests removed");
    return absl::OkStatus();
  }

  absl::Status RepairEnd() {
    const int64_t without = record_.total() - finished_;
    if (record_.state() == v1::JOB_STATE_COMPLETED && without != 0) {
      Left(
          "the job is completed, but ", without,
          " requests have no outcome: that cannot be counted away. Its answers are there; hand the "
          "others in again, or restore a backup");
    }
    v1::JobRecord repaired = record_;
    *repaired.mutable_final_sums() = sums_;
    const bool expired = record_.state() == v1::JOB_STATE_EXPIRED;
    repaired.set_cancelled(cancelled_ + (expired ? 0 : without));
    repaired.set_expired(expired_ + (expired ? without : 0));
    if (record_.cancelled() + record_.expired() == repaired.cancelled() + repaired.expired() &&
        SumsAgree(record_.final_sums(), sums_)) {
      return absl::OkStatus();
    }
    std::string key = JobKey(number_);
    std::string value = EncodeRecord(key, repaired);
    WriteSet writes;
    writes.Put(Family::kJobs, std::move(key), std::move(value));
    RETURN_IF_ERROR(store_.Commit(std::move(writes)));
    Done("the job's row counted anew: ", sums_.succeeded(), " succeeded, ", sums_.failed(),
         " failed, ", repaired.cancelled(), " cancelled, ", repaired.expired(),
         " expired; it said ", record_.final_sums().succeeded(), ", ",
         record_.final_sums().failed(), ", ", record_.cancelled(), " and ", record_.expired());
    return absl::OkStatus();
  }

  Store& store_;
  const JobNumber number_;
  const v1::JobRecord record_;
  v1::JobRepair repair_;
  v1::ProgressSums sums_;
  int64_t finished_ = 0;
  int64_t cancelled_ = 0;  // outcome rows of these kinds
  int64_t expired_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<v1::JobRepair>> RepairJobs(Store& store, const std::string& job) {
  JobTable jobs;
  RETURN_IF_ERROR(ForEachJob(store, [&](JobNumber number, v1::JobRecord record) {
    // What was never sealed is removed at the next start.
    if (record.state() == v1::JOB_STATE_VALIDATING) return absl::OkStatus();
    auto found = std::make_unique<Job>();
    found->number = number;
    found->record = std::move(record);
    jobs.Add(std::move(found));
    return absl::OkStatus();
  }));
  std::optional<JobNumber> only;
  if (!job.empty()) {
    ASSIGN_OR_RETURN(only, jobs.FindId(job));
  }
  std::vector<v1::JobRepair> repairs;
  for (const auto& [number, found] : jobs.all()) {
    if (only.has_value() && number != *only) continue;
    JobRepairer repairer(store, number, found->record);
    RETURN_IF_ERROR(Annotate(repairer.Run(), absl::StrCat("repairing ", found->record.id())));
    if (repairer.repair().done_size() + repairer.repair().left_size() > 0) {
      repairs.push_back(repairer.repair());
    }
  }
  return repairs;
}

}  // namespace nightshift
