#include "coordinator/jobs/audit.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/commit/progress_chunk.h"
#include "coordinator/commit/progress_sums.h"
#include "coordinator/jobs/chunk_audit.h"
#include "coordinator/jobs/row_walk.h"
#include "storage/keys.h"
#include "storage/record.h"

namespace nightshift {
namespace {

constexpr int kFindingsMax = 100;
// A job that is run again, or deleted, while it is looked at is looked at anew this often.
constexpr int kTriesMax = 3;
// How long the coordinator's counters may be behind the store: a commit moves them right after.
constexpr absl::Duration kCountersLagMax = absl::Seconds(2);
constexpr absl::Duration kCountersPoll = absl::Milliseconds(2);

absl::StatusOr<v1::JobRecord> ReadJobRow(const Store& store, JobNumber job) {
  const std::string key = JobKey(job);
  ASSIGN_OR_RETURN(const std::string value, store.Get(Family::kJobs, key));
  v1::JobRecord record;
  RETURN_IF_ERROR(DecodeRecord(key, value, &record));
  return record;
}

// Rows of requests that the job does not have.
void CheckPastTheEnd(const Store& store, JobNumber job, int64_t total, AuditFindings* findings) {
  for (const Family family :
       {Family::kRequests, Family::kOutcomes, Family::kResponses, Family::kAttempts}) {
    const RowWalk rows(store, family, job, static_cast<uint64_t>(total), UINT64_MAX, 0);
    findings->AddStatus(FamilyName(family), rows.status());
    if (rows.Valid()) {
      findings->Add(absl::StrCat("family ", FamilyName(family), " has a row for request ",
                                 rows.index(), ", but the job has only ", total));
    }
  }
  const std::unique_ptr<StoreIterator> rows =
      store.Scan(Family::kProgress, ProgressKey(job, ChunkCount(total), 0), JobKey(job + 1));
  findings->AddStatus("progress", rows->status());
  if (rows->Valid()) {
    findings->Add(
        absl::StrCat("progress has a row past the end of the job's ", total, " requests"));
  }
}

void CheckEvents(const Store& store, JobNumber job, AuditFindings* findings) {
  const std::unique_ptr<StoreIterator> rows =
      store.Scan(Family::kEvents, JobKey(job), JobKey(job + 1));
  for (; rows->Valid(); rows->Next()) {
    v1::EventRecord event;
    findings->AddStatus("events", DecodeRecord(rows->key(), rows->value(), &event));
  }
  findings->AddStatus("events", rows->status());
}

// What the job's own row says of its end.
void CheckEnd(const v1::JobRecord& record, const ChunkRecount& recount, AuditFindings* findings) {
  if (!SumsAgree(record.final_sums(), recount.sums)) {
    findings->Add(absl::StrCat("the job's row says ", record.final_sums().succeeded(),
                               " succeeded and ", record.final_sums().failed(),
                               " failed (with their tokens, cost and classes), its outcomes say ",
                               recount.sums.succeeded(), " and ", recount.sums.failed()));
  }
  const int64_t unrun = recount.unfinished + recount.cancelled + recount.expired;
  if (record.cancelled() + record.expired() != unrun) {
    findings->Add(absl::StrCat("the job's row says ", record.cancelled(), " cancelled and ",
                               record.expired(), " expired, but ", unrun,
                               " requests have no outcome of their own"));
  }
  if (record.state() == v1::JOB_STATE_COMPLETED && unrun != 0) {
    findings->Add(absl::StrCat("the job is completed, but ", unrun, " requests have no outcome"));
  }
}

v1::Counts CountsOf(const v1::JobRecord& record, const ChunkRecount& recount) {
  v1::Counts counts;
  counts.set_total(record.total());
  counts.set_succeeded(recount.sums.succeeded());
  counts.set_failed(recount.sums.failed());
  counts.set_cancelled(recount.cancelled);
  counts.set_expired(recount.expired);
  if (!JobHasEnded(record.state())) {
    counts.set_pending(recount.unfinished);
  } else if (record.state() == v1::JOB_STATE_EXPIRED) {
    counts.set_expired(recount.expired + recount.unfinished);
  } else {
    counts.set_cancelled(recount.cancelled + recount.unfinished);
  }
  return counts;
}

int64_t Sum(const v1::Counts& counts) {
  return counts.succeeded() + counts.failed() + counts.cancelled() + counts.expired() +
         counts.pending() + counts.in_flight() + counts.retrying();
}

class JobAuditor {
 public:
  JobAuditor(Store& store, const Dispatcher& dispatcher, JobNumber job)
      : store_(store), dispatcher_(dispatcher), job_(job), findings_(kFindingsMax) {}

  // False when the job was run again or deleted meanwhile: what was found means nothing then.
  bool Run() {
    const absl::StatusOr<v1::JobStatus> memory_before = Status();
    const absl::StatusOr<v1::JobRecord> row = ReadJobRow(store_, job_);
    if (!row.ok()) {
      findings_.AddStatus(absl::StrCat("the job's row (job number ", job_, ")"), row.status());
      // Not a finding when it has just been deleted.
      return memory_before.ok() == Status().ok();
    }
    record_ = *row;
    for (uint32_t chunk = 0; chunk < ChunkCount(record_.total()); ++chunk) {
      const absl::StatusOr<std::string> bitmap = dispatcher_.FinishedBitmap(job_, chunk);
      AuditChunk(store_, job_, record_.total(), chunk, bitmap.ok() ? *bitmap : std::string(),
                 &recount_, &findings_);
    }
    CheckPastTheEnd(store_, job_, record_.total(), &findings_);
    CheckEvents(store_, job_, &findings_);
    counts_ = CountsOf(record_, recount_);
    if (Sum(counts_) != record_.total()) {
      findings_.Add(absl::StrCat("the requests counted are ", Sum(counts_), ", the job has ",
                                 record_.total()));
    }
    if (JobHasEnded(record_.state())) CheckEnd(record_, recount_, &findings_);
    CompareWithMemory(memory_before);
    const absl::StatusOr<v1::JobRecord> row_after = ReadJobRow(store_, job_);
    return row_after.ok() && row_after->run() == record_.run() &&
           (!JobHasEnded(record_.state()) || row_after->state() == record_.state());
  }

  v1::JobAudit Report() const {
    v1::JobAudit audit;
    audit.set_id(record_.id());
    audit.set_agrees(findings_.count() == 0);
    for (const std::string& finding : findings_.kept()) audit.add_findings(finding);
    if (findings_.count() > kFindingsMax) {
      *audit.mutable_findings(kFindingsMax - 1) =
          absl::StrCat("and ", findings_.count() - kFindingsMax + 1, " more findings");
    }
    *audit.mutable_counts() = counts_;
    return audit;
  }

 private:
  absl::StatusOr<v1::JobStatus> Status() const {
    return dispatcher_.GetStatus(job_, Clock::Real().Now());
  }

  // The coordinator's counters lie between those before and after the recount, for they move only
  // one way and right after their commit.
  void CompareWithMemory(const absl::StatusOr<v1::JobStatus>& before) {
    if (!before.ok()) {
      findings_.AddStatus("the coordinator does not know this job", before.status());
      return;
    }
    if (before->id() != record_.id() || before->counts().total() != record_.total() ||
        Sum(before->counts()) != record_.total()) {
      findings_.Add("the coordinator's counters do not add up to the job's requests");
    }
    if (before->counts().succeeded() > counts_.succeeded() ||
        before->counts().failed() > counts_.failed()) {
      findings_.Add("the coordinator's counters are ahead of its store");
    }
    for (absl::Duration waited; !CountersReach(); waited += kCountersPoll) {
      if (waited >= kCountersLagMax) {
        findings_.Add("the coordinator's counters are behind its store; restart it");
        return;
      }
      absl::SleepFor(kCountersPoll);
    }
  }

  bool CountersReach() const {
    const absl::StatusOr<v1::JobStatus> now = Status();
    if (!now.ok()) return true;  // deleted meanwhile
    return now->counts().succeeded() >= counts_.succeeded() &&
           now->counts().failed() >= counts_.failed() &&
           now->counts().cancelled() >= counts_.cancelled() &&
           now->counts().expired() >= counts_.expired();
  }

  Store& store_;
  const Dispatcher& dispatcher_;
  const JobNumber job_;
  AuditFindings findings_;
  v1::JobRecord record_;
  ChunkRecount recount_;
  v1::Counts counts_;
};

}  // namespace

v1::JobAudit AuditJob(Store& store, const Dispatcher& dispatcher, JobNumber job) {
  v1::JobAudit report;
  for (int i = 0; i < kTriesMax; ++i) {
    JobAuditor auditor(store, dispatcher, job);
    const bool undisturbed = auditor.Run();
    report = auditor.Report();
    if (undisturbed) break;
  }
  return report;
}

}  // namespace nightshift
