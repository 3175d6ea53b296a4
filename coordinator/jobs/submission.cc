#include "coordinator/jobs/submission.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/duplicate_finder.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/commit/progress_chunk.h"
#include "coordinator/commit/progress_sums.h"
#include "coordinator/core/job_id.h"
#include "coordinator/core/route.h"
#include "coordinator/core/tenant.h"
#include "coordinator/jobs/bad_lines.h"
#include "coordinator/jobs/submission_check.h"
#include "nightshift/v1/record.pb.h"
#include "storage/keys.h"
#include "storage/record.h"
#include "storage/schema.h"

namespace nightshift {
namespace {

// Models that are listed with the job; further ones are served all the same.
constexpr int kJobModelsMax = 64;
// Bytes of a request body per prompt token, about: good enough for a first estimate.
constexpr double kBytesPerToken = 3.6;

absl::Status CheckOptions(const v1::JobOptions& options) {
  const auto negative = [](absl::string_view name) {
    return absl::InvalidArgumentError(absl::StrCat(name, " must not be negative"));
  };
  if (options.deadline_ms() < 0) return negative("the deadline");
  if (options.max_attempts() < 0) return negative("the number of attempts");
  if (options.request_timeout_ms() < 0) return negative("the request timeout");
  if (!(options.budget_usd() >= 0) || options.budget_tokens() < 0) return negative("a budget");
  if (!(options.stop_on_error_rate() >= 0 && options.stop_on_error_rate() <= 1)) {
    return absl::InvalidArgumentError("the error rate to stop at must be between 0 and 1");
  }
  return CheckRoute(options.route());
}

class StoreSubmission final : public Submission {
 public:
  StoreSubmission(Store& store, CommandSink& committer, Dispatcher& dispatcher, Clock& clock,
                  const v1::SubmitBegin& begin, JobNumber job, std::string temporary_dir,
                  SubmissionIdentity identity)
      : store_(store),
        committer_(committer),
        dispatcher_(dispatcher),
        clock_(clock),
        skip_bad_lines_(begin.skip_bad_lines()),
        job_(job),
        deadline_(identity.deadline),
        finder_({.temporary_dir = std::move(temporary_dir)}),
        bad_lines_(kBadLinesListedMax) {
    // Chance of its own for each job, and the same one in a simulation.
    Random random(static_cast<uint64_t>(absl::ToUnixNanos(clock.WallNow())) ^ job << 32);
    record_.set_id(identity.job_id.empty() ? NewJobId(clock.WallNow(), random)
                                           : std::move(identity.job_id));
    *record_.mutable_options() = begin.options();
    SetTenant(identity.tenant, record_.mutable_options());
    record_.set_state(v1::JOB_STATE_VALIDATING);
    record_.set_created_at_ms(NowMs());
  }
  ~StoreSubmission() override;

  // Leaves the trace that a crash is cleaned up by.
  absl::Status WriteFirstRow();
  absl::Status Add(v1::SubmitRequests requests) override;
  absl::StatusOr<v1::SubmitReply> Seal(const v1::SubmitSeal& seal) override;

 private:
  struct Row {
    v1::RequestRecord record;
    uint64_t index = 0;
  };

  int64_t NowMs() const { return absl::ToUnixMillis(clock_.WallNow()); }
  // No job can come of this any more.
  bool refused() const { return !skip_bad_lines_ && bad_lines_.count() > 0; }

  absl::Status AddOne(v1::SubmittedRequest& request);
  absl::Status AddBad(v1::BadLine bad);
  void StageRow(uint64_t index, const v1::RequestRecord& row);
  void StageInvalid(uint64_t index, const v1::RequestRecord& row, const v1::BadLine& bad);
  absl::Status FlushIfFull();
  absl::Status Flush();
  absl::Status FindDuplicates();
  absl::Status RefuseDuplicate(const Row& row, int64_t first_line);
  absl::StatusOr<Row> ReadRow(uint64_t index) const;
  void NoteModel(const std::string& model);
  void AddProgressOfInvalid(WriteSet& writes) const;
  absl::Status RemoveRows();
  void ListBadLines(v1::SubmitReply& reply);
  absl::StatusOr<v1::SubmitReply> Refuse();
  absl::StatusOr<v1::SubmitReply> Found(JobNumber job);
  absl::StatusOr<v1::SubmitReply> Make(const v1::SubmitSeal& seal);

  Store& store_;
  CommandSink& committer_;
  Dispatcher& dispatcher_;
  Clock& clock_;
  const bool skip_bad_lines_;
  const JobNumber job_;
  const absl::Time deadline_;
  v1::JobRecord record_;

  DuplicateFinder finder_;
  BadLineList bad_lines_;
  std::vector<uint64_t> invalid_;  // with skip_bad_lines: indexes of bad rows
  WriteSet staged_;
  size_t staged_rows_ = 0;
  uint64_t rows_ = 0;
  int64_t body_bytes_ = 0;
  bool rows_in_store_ = false;  // to be removed, unless the job is made
  bool ended_ = false;
  absl::Status failed_;
};

StoreSubmission::~StoreSubmission() {
  if (!rows_in_store_) return;
  const absl::Status status = RemoveRows();
  if (!status.ok()) {
    LogWarning("the rows of an unfinished submission stay until the next start: ",
               status.ToString());
  }
}

absl::Status StoreSubmission::WriteFirstRow() {
  std::string key = JobKey(job_);
  std::string value = EncodeRecord(key, record_);
  WriteSet writes;
  writes.ExpectAbsent(Family::kJobs, key);
  writes.Put(Family::kJobs, std::move(key), std::move(value));
  RETURN_IF_ERROR(store_.Commit(std::move(writes)));
  rows_in_store_ = true;
  return absl::OkStatus();
}

absl::Status StoreSubmission::Add(v1::SubmitRequests requests) {
  if (ended_) return absl::FailedPreconditionError("the job has been sealed already");
  RETURN_IF_ERROR(failed_);
  for (v1::SubmittedRequest& request : *requests.mutable_requests()) {
    failed_ = AddOne(request);
    RETURN_IF_ERROR(failed_);
  }
  return absl::OkStatus();
}

absl::Status StoreSubmission::AddOne(v1::SubmittedRequest& request) {
  if (std::optional<v1::BadLine> bad = CheckSubmitted(request); bad.has_value()) {
    return AddBad(*std::move(bad));
  }
  RETURN_IF_ERROR(finder_.Add(request.custom_id(), rows_));
  NoteModel(request.model());
  body_bytes_ += static_cast<int64_t>(request.body().size());
  v1::RequestRecord row;
  row.set_custom_id(std::move(*request.mutable_custom_id()));
  row.set_endpoint(request.endpoint());
  row.set_line(request.line());
  // A refused input is read on only to name all of its bad lines.
  if (!refused()) row.set_body(std::move(*request.mutable_body()));
  StageRow(rows_++, row);
  return FlushIfFull();
}

absl::Status StoreSubmission::AddBad(v1::BadLine bad) {
  if (skip_bad_lines_) {
    StageInvalid(rows_++, InvalidRequestRow(bad), bad);
    RETURN_IF_ERROR(FlushIfFull());
  }
  bad_lines_.Add(std::move(bad));
  return absl::OkStatus();
}

void StoreSubmission::StageRow(uint64_t index, const v1::RequestRecord& row) {
  std::string key = RequestRowKey(job_, index);
  std::string value = EncodeRecord(key, row);
  staged_.Put(Family::kRequests, std::move(key), std::move(value));
  ++staged_rows_;
}

void StoreSubmission::StageInvalid(uint64_t index, const v1::RequestRecord& row,
                                   const v1::BadLine& bad) {
  StageRow(index, row);
  std::string key = RequestRowKey(job_, index);
  std::string value = EncodeRecord(key, InvalidRequestOutcome(bad, NowMs()));
  staged_.Put(Family::kOutcomes, std::move(key), std::move(value));
  invalid_.push_back(index);
}

absl::Status StoreSubmission::FlushIfFull() {
  if (staged_rows_ < kStagedRowsMax && staged_.byte_size() < kStagedBytesMax) {
    return absl::OkStatus();
  }
  return Flush();
}

absl::Status StoreSubmission::Flush() {
  if (staged_rows_ == 0) return absl::OkStatus();
  RETURN_IF_ERROR(dispatcher_.TakesNewJobs());
  staged_rows_ = 0;
  const absl::Status status = store_.Commit(std::exchange(staged_, WriteSet()));
  // A store that broke here is broken for all: the committer is to find out now, not with the next
  // result.
  if (!status.ok()) committer_.Nudge();
  return status;
}

void StoreSubmission::NoteModel(const std::string& model) {
  // The list is short and the last one named is nearly always the next one.
  const auto& models = record_.models();
  if (model.empty() || models.size() == kJobModelsMax) return;
  if (std::find(models.begin(), models.end(), model) == models.end()) record_.add_models(model);
}

absl::StatusOr<StoreSubmission::Row> StoreSubmission::ReadRow(uint64_t index) const {
  const std::string key = RequestRowKey(job_, index);
  ASSIGN_OR_RETURN(const std::string value, store_.Get(Family::kRequests, key));
  Row row;
  row.index = index;
  RETURN_IF_ERROR(DecodeRecord(key, value, &row.record));
  return row;
}

absl::Status StoreSubmission::FindDuplicates() {
  absl::Status status;
  // Different ids of equal hash, all met in order: the first of each.
  std::vector<Row> group;
  uint64_t group_first = 0;
  const auto look = [&](uint64_t first, uint64_t other) -> absl::Status {
    if (group.empty() || group_first != first) {
      ASSIGN_OR_RETURN(Row row, ReadRow(first));
      group.clear();
      group.push_back(std::move(row));
      group_first = first;
    }
    ASSIGN_OR_RETURN(Row row, ReadRow(other));
    for (const Row& seen : group) {
      if (seen.record.custom_id() == row.record.custom_id()) {
        return RefuseDuplicate(row, seen.record.line());
      }
    }
    group.push_back(std::move(row));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(finder_.Finish([&](uint64_t first, uint64_t other) {
    if (status.ok()) status = look(first, other);
  }));
  return status;
}

absl::Status StoreSubmission::RefuseDuplicate(const Row& row, int64_t first_line) {
  v1::BadLine bad;
  bad.set_line(row.record.line());
  bad.set_custom_id(row.record.custom_id());
  bad.set_field("custom_id");
  bad.set_reason(absl::StrCat("same custom_id as line ", first_line));
  if (skip_bad_lines_) {
    body_bytes_ -= static_cast<int64_t>(row.record.body().size());
    StageInvalid(row.index, InvalidRequestRow(bad), bad);
    RETURN_IF_ERROR(FlushIfFull());
  }
  bad_lines_.Add(std::move(bad));
  return absl::OkStatus();
}

void StoreSubmission::AddProgressOfInvalid(WriteSet& writes) const {
  for (size_t at = 0; at < invalid_.size();) {
    const auto chunk = static_cast<uint32_t>(invalid_[at] / kChunkRequests);
    std::string bitmap(kChunkBitmapBytes, '\0');
    v1::ProgressSums sums;
    for (; at < invalid_.size() && invalid_[at] / kChunkRequests == chunk; ++at) {
      SetBit(bitmap, invalid_[at] % kChunkRequests);
      AddOutcome(InvalidRequestOutcome({}, 0), &sums);
    }
    std::string key = ProgressKey(job_, chunk, 0);
    std::string value = EncodeRecord(key, MakeBase(bitmap, sums));
    writes.Put(Family::kProgress, std::move(key), std::move(value));
  }
}

absl::Status StoreSubmission::RemoveRows() {
  WriteSet writes;
  AddRemovalOfJob(job_, writes);
  RETURN_IF_ERROR(store_.Commit(std::move(writes)));
  rows_in_store_ = false;
  return absl::OkStatus();
}

void StoreSubmission::ListBadLines(v1::SubmitReply& reply) {
  reply.set_bad_count(bad_lines_.count());
  for (v1::BadLine& line : bad_lines_.Take()) *reply.add_bad_lines() = std::move(line);
}

absl::StatusOr<v1::SubmitReply> StoreSubmission::Refuse() {
  RETURN_IF_ERROR(RemoveRows());
  v1::SubmitReply reply;
  reply.set_result(v1::SubmitReply::REFUSED);
  reply.set_requests(static_cast<int64_t>(rows_));
  ListBadLines(reply);
  return reply;
}

absl::StatusOr<v1::SubmitReply> StoreSubmission::Found(JobNumber job) {
  RETURN_IF_ERROR(RemoveRows());
  ASSIGN_OR_RETURN(const v1::JobRecord found, dispatcher_.GetRecord(job));
  if (TenantOf(found) != TenantOf(record_)) {
    return absl::AlreadyExistsError("another job carries that idempotency token; take another");
  }
  v1::SubmitReply reply;
  reply.set_result(v1::SubmitReply::FOUND);
  ASSIGN_OR_RETURN(*reply.mutable_job(), dispatcher_.GetStatus(job, clock_.Now()));
  reply.set_requests(reply.job().counts().total());
  return reply;
}

absl::StatusOr<v1::SubmitReply> StoreSubmission::Make(const v1::SubmitSeal& seal) {
  JobCommand command;
  command.kind = JobCommand::Kind::kSeal;
  command.job = job_;
  std::sort(invalid_.begin(), invalid_.end());
  AddProgressOfInvalid(command.extra);
  command.invalid = std::move(invalid_);
  record_.set_state(v1::JOB_STATE_QUEUED);
  record_.set_total(static_cast<int64_t>(rows_));
  record_.set_idempotency_token(seal.idempotency_token());
  record_.set_created_at_ms(NowMs());
  if (deadline_ != absl::InfiniteFuture()) {
    record_.set_deadline_at_ms(absl::ToUnixMillis(deadline_));
  } else if (record_.options().deadline_ms() > 0) {
    record_.set_deadline_at_ms(record_.created_at_ms() + record_.options().deadline_ms());
  }
  record_.set_run(1);
  record_.set_body_bytes(body_bytes_);
  record_.set_prompt_tokens_estimated(
      static_cast<int64_t>(static_cast<double>(body_bytes_) / kBytesPerToken));
  command.record = record_;

  const absl::Status status = committer_.Execute(std::move(command));
  if (absl::IsAlreadyExists(status)) {
    // Somebody was quicker with the same token.
    const std::optional<JobNumber> other = dispatcher_.FindJobByToken(seal.idempotency_token());
    if (other.has_value()) return Found(*other);
  }
  RETURN_IF_ERROR(status);
  rows_in_store_ = false;  // they are the job's now
  v1::SubmitReply reply;
  reply.set_result(v1::SubmitReply::CREATED);
  reply.set_requests(static_cast<int64_t>(rows_));
  ListBadLines(reply);
  ASSIGN_OR_RETURN(*reply.mutable_job(), dispatcher_.GetStatus(job_, clock_.Now()));
  return reply;
}

absl::StatusOr<v1::SubmitReply> StoreSubmission::Seal(const v1::SubmitSeal& seal) {
  if (ended_) return absl::FailedPreconditionError("the job has been sealed already");
  RETURN_IF_ERROR(failed_);
  ended_ = true;
  RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(FindDuplicates());
  RETURN_IF_ERROR(Flush());
  if (rows_ == 0 && bad_lines_.count() == 0) {
    v1::BadLine empty;
    empty.set_reason("the input has no requests");
    bad_lines_.Add(std::move(empty));
    return Refuse();
  }
  if (refused()) return Refuse();
  if (!seal.idempotency_token().empty()) {
    const std::optional<JobNumber> job = dispatcher_.FindJobByToken(seal.idempotency_token());
    if (job.has_value()) return Found(*job);
  }
  return Make(seal);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Submission>> Submission::Begin(Store& store, CommandSink& committer,
                                                              Dispatcher& dispatcher, Clock& clock,
                                                              const v1::SubmitBegin& begin,
                                                              std::string temporary_dir,
                                                              SubmissionIdentity identity) {
  RETURN_IF_ERROR(CheckOptions(begin.options()));
  RETURN_IF_ERROR(dispatcher.TakesNewJobs());
  ASSIGN_OR_RETURN(const JobNumber job, NextJobNumber(store));
  auto submission =
      std::make_unique<StoreSubmission>(store, committer, dispatcher, clock, begin, job,
                                        std::move(temporary_dir), std::move(identity));
  RETURN_IF_ERROR(submission->WriteFirstRow());
  return std::unique_ptr<Submission>(std::move(submission));
}

}  // namespace nightshift
