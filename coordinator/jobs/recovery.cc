#include "coordinator/jobs/recovery.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/commit/progress_chunk.h"
#include "coordinator/commit/progress_sums.h"
#include "coordinator/jobs/row_walk.h"
#include "storage/keys.h"
#include "storage/record.h"

namespace nightshift {
namespace {

absl::Status LoadAttempts(const Store& store, LoadedJob& job) {
  const std::unique_ptr<StoreIterator> rows =
      store.Scan(Family::kAttempts, JobKey(job.number), JobKey(job.number + 1),
                 {.readahead_bytes = kReadaheadBytes});
  for (; rows->Valid(); rows->Next()) {
    const std::optional<ParsedRequestKey> key = ParseRequestRowKey(rows->key());
    if (!key.has_value() || key->index >= static_cast<uint64_t>(job.record.total())) {
      return absl::DataLossError(
          absl::StrCat("an attempts row of job ", job.record.id(), " names no request of it"));
    }
    v1::AttemptRecord attempts;
    RETURN_IF_ERROR(DecodeRecord(rows->key(), rows->value(), &attempts));
    job.attempts.emplace_back(key->index, std::move(attempts));
  }
  return rows->status();
}

}  // namespace

absl::Status ForEachJob(const Store& store,
                        const std::function<absl::Status(JobNumber, v1::JobRecord)>& take) {
  const std::unique_ptr<StoreIterator> rows = store.Scan(Family::kJobs, "", "");
  for (; rows->Valid(); rows->Next()) {
    const std::optional<uint64_t> job = ParseJobKey(rows->key());
    if (!job.has_value()) return absl::DataLossError("a job row has a key of another length");
    v1::JobRecord record;
    RETURN_IF_ERROR(DecodeRecord(rows->key(), rows->value(), &record));
    RETURN_IF_ERROR(take(*job, std::move(record)));
  }
  return rows->status();
}

absl::Status DropUnsealedJobs(Store& store) {
  std::vector<JobNumber> unsealed;
  RETURN_IF_ERROR(ForEachJob(store, [&](JobNumber job, v1::JobRecord record) {
    if (record.state() == v1::JOB_STATE_VALIDATING) unsealed.push_back(job);
    return absl::OkStatus();
  }));
  for (const JobNumber job : unsealed) {
    WriteSet writes;
    AddRemovalOfJob(job, writes);
    RETURN_IF_ERROR(store.Commit(std::move(writes)));
  }
  if (!unsealed.empty()) {
    LogInfo("removed ", unsealed.size(), " submissions that had not been completed");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LoadedJob>> LoadJobs(Store& store) {
  std::vector<LoadedJob> jobs;
  const absl::Status status =
      ForEachJob(store, [&](JobNumber number, v1::JobRecord record) -> absl::Status {
        if (record.state() == v1::JOB_STATE_VALIDATING) return absl::OkStatus();
        LoadedJob job;
        job.number = number;
        job.record = std::move(record);
        if (JobHasEnded(job.record.state())) {
          job.sums = job.record.final_sums();
        } else {
          RETURN_IF_ERROR(Annotate(
              LoadProgress(store, number, job.record.total(), &job.finished_bitmaps, &job.sums),
              absl::StrCat("job ", job.record.id())));
          RETURN_IF_ERROR(LoadAttempts(store, job));
        }
        jobs.push_back(std::move(job));
        return absl::OkStatus();
      });
  RETURN_IF_ERROR(status);
  return jobs;
}

absl::Status LoadProgress(Store& store, JobNumber job, int64_t total,
                          std::vector<std::string>* finished_bitmaps, v1::ProgressSums* sums) {
  const uint32_t chunks = ChunkCount(total);
  finished_bitmaps->assign(chunks, std::string());
  sums->Clear();
  const std::unique_ptr<StoreIterator> rows = store.Scan(
      Family::kProgress, JobKey(job), JobKey(job + 1), {.readahead_bytes = kReadaheadBytes});
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    ProgressChunk progress(ChunkSize(total, chunk));
    for (; rows->Valid(); rows->Next()) {
      const std::optional<ParsedProgressKey> key = ParseProgressKey(rows->key());
      if (key.has_value() && key->chunk != chunk) break;
      RETURN_IF_ERROR(progress.AddRow(rows->key(), rows->value()));
    }
    AddSums(progress.sums, sums);
    progress.bitmap.resize(kChunkBitmapBytes, '\0');
    (*finished_bitmaps)[chunk] = std::move(progress.bitmap);
  }
  RETURN_IF_ERROR(rows->status());
  if (rows->Valid()) {
    return absl::DataLossError(
        absl::StrCat("job number ", job, " has progress past its end; run nightshift audit"));
  }
  return absl::OkStatus();
}

}  // namespace nightshift
