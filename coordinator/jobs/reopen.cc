#include "coordinator/jobs/reopen.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/commit/progress_chunk.h"
#include "coordinator/commit/progress_sums.h"
#include "coordinator/jobs/output_line.h"
#include "coordinator/jobs/row_walk.h"
#include "coordinator/jobs/submission_check.h"
#include "storage/keys.h"
#include "storage/record.h"

namespace nightshift {
namespace {

// Goes through a job's outcomes and splits them into what runs again and what stays.
class Reopening {
 public:
  Reopening(const Store& store, JobNumber job, const v1::JobRecord& record,
            const std::vector<v1::ErrorClass>& classes)
      : store_(store), job_(job), record_(record), classes_(classes) {
    command_.kind = JobCommand::Kind::kReopen;
    command_.job = job;
  }

  absl::Status Run() {
    // What stays is written anew, folded. Attempts start from none.
    RETURN_IF_ERROR(RemoveAll(Family::kProgress));
    RETURN_IF_ERROR(RemoveAll(Family::kAttempts));
    for (uint32_t chunk = 0; chunk < ChunkCount(record_.total()); ++chunk) {
      RETURN_IF_ERROR(TakeChunk(chunk));
    }
    return absl::OkStatus();
  }

  int64_t reopened() const { return reopened_; }
  int64_t unrun_kept() const { return unrun_kept_; }
  JobCommand TakeCommand() { return std::move(command_); }

 private:
  // Row by row: over a range that is deleted at once and written again, a scan that meets a damaged
  // block can go on as if there were nothing (RocksDB before 8.6). The rows are few.
  absl::Status RemoveAll(Family family) {
    const std::unique_ptr<StoreIterator> rows =
        store_.Scan(family, JobKey(job_), JobKey(job_ + 1), {.readahead_bytes = kReadaheadBytes});
    for (; rows->Valid(); rows->Next()) command_.extra.Delete(family, std::string(rows->key()));
    return rows->status();
  }

  bool Chosen(v1::ErrorClass error_class) const {
    return classes_.empty() ||
           std::find(classes_.begin(), classes_.end(), error_class) != classes_.end();
  }
  bool RunsAgain(const v1::OutcomeRecord& outcome) const {
    return outcome.kind() != v1::OUTCOME_SUCCEEDED && outcome.error_code() != kInvalidRequestLine &&
           Chosen(outcome.error_class());
  }

  absl::Status TakeChunk(uint32_t chunk) {
    const uint64_t begin = chunk * kChunkRequests;
    const uint32_t size = ChunkSize(record_.total(), chunk);
    std::string bitmap(kChunkBitmapBytes, '\0');
    v1::ProgressSums sums;
    uint32_t outcomes = 0;
    RowWalk rows(store_, Family::kOutcomes, job_, begin, begin + size, kReadaheadBytes);
    for (; rows.Valid(); rows.Next()) {
      v1::OutcomeRecord outcome;
      RETURN_IF_ERROR(DecodeRecord(rows.key(), rows.value(), &outcome));
      ++outcomes;
      if (RunsAgain(outcome)) {
        ++reopened_;
        command_.extra.Delete(Family::kOutcomes, std::string(rows.key()));
        if (outcome.body_size() > 0) {
          command_.extra.Delete(Family::kResponses, std::string(rows.key()));
        }
      } else {
        SetBit(bitmap, rows.index() - begin);
        AddOutcome(outcome, &sums);
      }
    }
    RETURN_IF_ERROR(rows.status());
    const int64_t unrun = size - outcomes;
    if (Chosen(UnrunOutcome(record_).error_class())) {
      reopened_ += unrun;
    } else {
      unrun_kept_ += unrun;
    }
    v1::ProgressBase base = MakeBase(bitmap, sums);
    std::string key = ProgressKey(job_, chunk, 0);
    if (base.finished().empty()) {
      // A fold that still waited may have made it since the rows were listed.
      command_.extra.Delete(Family::kProgress, std::move(key));
    } else {
      std::string value = EncodeRecord(key, base);
      command_.extra.Put(Family::kProgress, std::move(key), std::move(value));
    }
    AddSums(sums, &command_.sums);
    command_.finished_bitmaps.push_back(std::move(bitmap));
    return absl::OkStatus();
  }

  const Store& store_;
  const JobNumber job_;
  const v1::JobRecord& record_;
  const std::vector<v1::ErrorClass>& classes_;
  JobCommand command_;
  int64_t reopened_ = 0;
  int64_t unrun_kept_ = 0;
};

}  // namespace

absl::Status ReopenJob(Store& store, CommandSink& committer, const Dispatcher& dispatcher,
                       JobNumber job, const std::vector<v1::ErrorClass>& classes) {
  RETURN_IF_ERROR(dispatcher.GetRecord(job).status());
  // The row decides; that it is still the same is a condition of the commit.
  const std::string key = JobKey(job);
  ASSIGN_OR_RETURN(std::string row, store.Get(Family::kJobs, key));
  v1::JobRecord record;
  RETURN_IF_ERROR(DecodeRecord(key, row, &record));
  if (!JobHasEnded(record.state())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", record.id(), " has not ended (it is ",
        absl::string_view(JobStateInfo(record.state()).word), "); cancel it or wait, then retry"));
  }
  Reopening reopening(store, job, record, classes);
  RETURN_IF_ERROR(reopening.Run());
  if (reopening.reopened() == 0) return absl::OkStatus();
  if (reopening.unrun_kept() > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", record.id(), " ended with ", reopening.unrun_kept(),
        " requests that never ran, and a retry of some error classes cannot leave those out; retry "
        "without naming classes, or name their class too"));
  }
  JobCommand command = reopening.TakeCommand();
  command.extra.ExpectValue(Family::kJobs, key, std::move(row));
  return committer.Execute(std::move(command));
}

}  // namespace nightshift
