#include "coordinator/commit/commit_rows.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "coordinator/commit/job_rows.h"
#include "storage/keys.h"
#include "storage/record.h"

namespace nightshift {
namespace {

// `body` is empty when there is none.
absl::Status AddOutcomeRows(ResultDecision& decision, const std::string& body,
                            ProgressLedger& ledger, WriteSet& writes) {
  std::string key = RequestRowKey(decision.id.job, decision.id.index);
  RETURN_IF_ERROR(ledger.Add(decision.id.job, decision.id.index, decision.outcome));
  decision.outcome.set_body_size(static_cast<int64_t>(body.size()));
  if (!body.empty()) writes.Put(Family::kResponses, key, EncodeBytes(key, body));
  if (decision.delete_attempts_row) writes.Delete(Family::kAttempts, key);
  std::string value = EncodeRecord(key, decision.outcome);
  writes.Put(Family::kOutcomes, std::move(key), std::move(value));
  return absl::OkStatus();
}

void AddAttemptRow(const ResultDecision& decision, WriteSet& writes) {
  std::string key = RequestRowKey(decision.id.job, decision.id.index);
  std::string value = EncodeRecord(key, decision.attempts);
  writes.Put(Family::kAttempts, std::move(key), std::move(value));
}

void AddAll(const WriteSet& from, WriteSet& to) {
  for (const WriteSet::Write& write : from.writes()) {
    switch (write.kind) {
      case WriteSet::Write::Kind::kPut:
        to.Put(write.family, write.key, write.value);
        break;
      case WriteSet::Write::Kind::kDelete:
        to.Delete(write.family, write.key);
        break;
      case WriteSet::Write::Kind::kDeleteRange:
        to.DeleteRange(write.family, write.key, write.value);
        break;
    }
  }
}

}  // namespace

absl::Status AddCommitRows(CommitPlan& plan, absl::Span<ResultEvent> results,
                           absl::Span<const WriteSet* const> extras, ProgressLedger& ledger,
                           WriteSet& writes) {
  NIGHTSHIFT_CHECK(plan.decisions.size() == results.size(), "one decision for each result");
  for (size_t i = 0; i < results.size(); ++i) {
    ResultDecision& decision = plan.decisions[i];
    switch (decision.kind) {
      case ResultDecision::Kind::kRecord: {
        std::string& body = *results[i].result.mutable_body();
        RETURN_IF_ERROR(AddOutcomeRows(decision, body, ledger, writes));
        // The batch may hold megabytes: free each answer as soon as its row has it.
        std::string().swap(body);
        break;
      }
      case ResultDecision::Kind::kRetry:
        AddAttemptRow(decision, writes);
        break;
      case ResultDecision::Kind::kDuplicate:
      case ResultDecision::Kind::kDrop:
        break;
    }
  }
  for (ResultDecision& loss : plan.losses) {
    if (loss.kind == ResultDecision::Kind::kRecord) {
      RETURN_IF_ERROR(AddOutcomeRows(loss, "", ledger, writes));
    } else {
      AddAttemptRow(loss, writes);
    }
  }
  for (const CommitPlan::JobWrite& job : plan.job_writes) {
    if (!job.erase && JobHasEnded(job.record.state())) ledger.Retire(job.job);
  }
  ledger.AddRows(writes);
  // After the results': a reopening replaces progress rows, a deletion removes all.
  for (const WriteSet* extra : extras) AddAll(*extra, writes);
  for (const CommitPlan::JobWrite& job : plan.job_writes) {
    if (job.erase) {
      AddRemovalOfJob(job.job, writes);
      ledger.Forget(job.job);
    } else {
      std::string key = JobKey(job.job);
      std::string value = EncodeRecord(key, job.record);
      writes.Put(Family::kJobs, std::move(key), std::move(value));
    }
  }
  for (const JobCommand& command : plan.commands) {
    if (command.kind == JobCommand::Kind::kReopen) ledger.Forget(command.job);
  }
  return absl::OkStatus();
}

}  // namespace nightshift
