#include "coordinator/http/batch_maker.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/http/file_lines.h"
#include "coordinator/jobs/submission.h"
#include "proto/limits.h"

namespace nightshift {
namespace {

// What is handed to the submission at a time.
constexpr int kRequestsPerAdd = 256;
constexpr size_t kBytesPerAdd = size_t{1} << 20;
// Bad lines whose codes are remembered; the job's own checks list as many.
constexpr int kErrorsMax = kBadLinesListedMax;
constexpr absl::Duration kRest = absl::Seconds(1);

v1::BadLine AsBadLine(const v1::BatchError& error, absl::string_view custom_id) {
  v1::BadLine bad;
  bad.set_line(error.line());
  bad.set_field(error.param());
  bad.set_reason(error.message());
  bad.set_custom_id(custom_id.data(), custom_id.size());
  return bad;
}

// What the batch shows of a refusal: its own findings in their words, the submission's in theirs.
v1::BatchErrors RefusalOf(const v1::SubmitReply& reply, const v1::BatchErrors& own) {
  v1::BatchErrors errors;
  errors.set_count(reply.bad_count());
  int next = 0;
  for (const v1::BadLine& bad : reply.bad_lines()) {
    while (next < own.errors_size() && own.errors(next).line() < bad.line()) ++next;
    const bool ours = next < own.errors_size() && own.errors(next).line() == bad.line();
    *errors.add_errors() = ours ? own.errors(next) : BatchErrorOf(bad);
  }
  return errors;
}

}  // namespace

BatchMaker::BatchMaker(BatchMakerParts parts) : parts_(std::move(parts)) {
  for (std::string& id : parts_.batches->Validating()) Add(std::move(id));
  for (int i = 0; i < kBatchMakers; ++i) threads_.emplace_back([this] { Run(); });
}

BatchMaker::~BatchMaker() { Stop(); }

void BatchMaker::Add(std::string batch_id) {
  MutexLock lock(&mutex_);
  queue_.push_back({std::move(batch_id), {}});
  changed_.Signal();
}

void BatchMaker::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool BatchMaker::Next(Waiting* next) {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    const MonotonicTime now = parts_.clock->Now();
    std::deque<Waiting>& from = queue_.empty() ? again_ : queue_;
    if (!from.empty() && from.front().due <= now) {
      *next = std::move(from.front());
      from.pop_front();
      return true;
    }
    if (from.empty()) {
      changed_.Wait(&mutex_);
    } else {
      changed_.WaitFor(&mutex_, from.front().due - now);
    }
  }
  return false;
}

void BatchMaker::Run() {
  Waiting batch;
  while (Next(&batch)) {
    const absl::Status status = Make(batch.id);
    if (status.ok()) continue;
    if (!std::exchange(batch.told, true)) {
      LogWarning(batch.id, " waits in validating: ", status.message(), "; it is tried again");
    }
    batch.due = parts_.clock->Now() + kRest;
    MutexLock lock(&mutex_);
    again_.push_back(std::move(batch));
    // The other thread may sleep without knowing of it.
    changed_.Signal();
  }
}

bool BatchMaker::Cancelled(const std::string& id) const {
  const absl::StatusOr<v1::BatchRecord> batch = parts_.batches->Find(id);
  return !batch.ok() || batch->cancelling_at_ms() > 0;
}

absl::Status BatchMaker::FailForGood(const std::string& id, absl::string_view code,
                                     absl::string_view param, absl::string_view message) {
  v1::BatchErrors errors;
  errors.set_count(1);
  v1::BatchError& error = *errors.add_errors();
  error.set_code(code.data(), code.size());
  error.set_param(param.data(), param.size());
  error.set_message(message.data(), message.size());
  return parts_.batches->Fail(id, errors);
}

absl::Status BatchMaker::Make(const std::string& id) {
  const absl::StatusOr<v1::BatchRecord> batch = parts_.batches->Find(id);
  if (!batch.ok() || batch->phase() != v1::BATCH_PHASE_VALIDATING) return absl::OkStatus();
  // An earlier try, or an earlier run, came as far as this.
  if (parts_.dispatcher->FindJob(JobIdOfBatch(id)).ok()) return Made(id);
  if (batch->cancelling_at_ms() > 0) return CancelledFirst(id);
  const absl::StatusOr<v1::FileRecord> file = parts_.files->Find(batch->input_file_id());
  // Another tenant's is not there.
  const bool there = file.ok() && file->tenant() == batch->tenant();
  if (!there || file->purpose() != "batch") {
    return FailForGood(
        id, "invalid_request", "file_id",
        absl::StrCat("Cannot find file ", batch->input_file_id(),
                     there ? " with purpose 'batch'." : ", or it has been deleted."));
  }
  absl::StatusOr<std::unique_ptr<OpenFile>> open = parts_.files->OpenForReading(file->id());
  if (absl::IsDataLoss(open.status())) {
    return FailForGood(id, "invalid_request", "file_id", open.status().message());
  }
  RETURN_IF_ERROR(open.status());
  const absl::Status status = Submit(*batch, **open);
  // Nothing that another try could mend.
  if (absl::IsInvalidArgument(status)) {
    return FailForGood(id, "invalid_request", "", status.message());
  }
  if (stopping_ || !Cancelled(id)) return status;
  return parts_.dispatcher->FindJob(JobIdOfBatch(id)).ok() ? status : CancelledFirst(id);
}

// The batch ends before there is a job.
absl::Status BatchMaker::CancelledFirst(const std::string& id) {
  return parts_.batches
      ->Update(id,
               [this](v1::BatchRecord& record) {
                 record.set_phase(v1::BATCH_PHASE_CANCELLED);
                 record.set_ended_at_ms(absl::ToUnixMillis(parts_.clock->WallNow()));
               })
      .status();
}

// There is a job; should somebody have cancelled the batch meanwhile, so is the job.
absl::Status BatchMaker::Made(const std::string& id) {
  const absl::StatusOr<v1::BatchRecord> batch = parts_.batches->Update(
      id, [](v1::BatchRecord& record) { record.set_phase(v1::BATCH_PHASE_MADE); });
  RETURN_IF_ERROR(batch.status());
  if (batch->cancelling_at_ms() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JobNumber job, parts_.dispatcher->FindJob(JobIdOfBatch(id)));
  JobCommand command;
  command.kind = JobCommand::Kind::kCancel;
  command.job = job;
  const absl::Status status = parts_.committer->Execute(std::move(command));
  // It may have come to its end in the meantime.
  return absl::IsFailedPrecondition(status) ? absl::OkStatus() : status;
}

BatchLineRules BatchMaker::RulesFor(const v1::BatchRecord& batch) const {
  BatchLineRules rules;
  rules.endpoint = static_cast<Endpoint>(batch.endpoint());
  std::set<std::string> models;
  for (const v1::WorkerStatus& worker : parts_.dispatcher->ListWorkers(parts_.clock->Now())) {
    if (worker.state() == "gone") continue;
    for (const v1::WorkerBackendStatus& backend : worker.backends()) {
      // It has others that it does not tell.
      if (backend.models().empty() || backend.models_size() >= kModelsToldMax) return rules;
      models.insert(backend.models().begin(), backend.models().end());
    }
  }
  if (!models.empty()) rules.models = std::move(models);
  return rules;
}

absl::Status BatchMaker::Submit(const v1::BatchRecord& batch, const OpenFile& file) {
  v1::SubmitBegin begin;
  *begin.mutable_options() = batch.options();
  SubmissionIdentity identity;
  identity.job_id = JobIdOfBatch(batch.id());
  identity.tenant = batch.tenant();
  identity.deadline = absl::FromUnixMillis(batch.created_at_ms() + batch.window_ms());
  ASSIGN_OR_RETURN(const std::unique_ptr<Submission> submission,
                   Submission::Begin(*parts_.store, *parts_.committer, *parts_.dispatcher,
                                     *parts_.clock, begin, parts_.temporary_dir, identity));
  const BatchLineRules rules = RulesFor(batch);
  v1::BatchErrors own;
  v1::SubmitRequests requests;
  size_t bytes = 0;
  FileLines lines(file, kBatchLineBytesMax);
  FileLines::Line line;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, lines.Next(&line));
    if (more) {
      v1::SubmittedRequest& request = *requests.add_requests();
      v1::BatchError error;
      bool good = false;
      if (line.too_long) {
        error.set_line(line.number);
        error.set_code("invalid_json_line");
        error.set_message(absl::StrCat("This line is longer than ", kBatchLineBytesMax, " bytes."));
      } else {
        good = CheckBatchLine(line.text, line.number, rules, &request, &error);
      }
      if (!good) {
        request.set_line(line.number);
        *request.mutable_bad() = AsBadLine(error, request.custom_id());
        if (own.errors_size() < kErrorsMax) *own.add_errors() = std::move(error);
      }
      bytes += request.body().size();
    }
    if (!more || requests.requests_size() >= kRequestsPerAdd || bytes >= kBytesPerAdd) {
      if (stopping_) return absl::OkStatus();
      if (Cancelled(batch.id())) return absl::OkStatus();
      RETURN_IF_ERROR(submission->Add(std::move(requests)));
      requests.Clear();
      bytes = 0;
    }
    if (!more) break;
  }
  v1::SubmitSeal seal;
  seal.set_idempotency_token(batch.id());
  ASSIGN_OR_RETURN(const v1::SubmitReply reply, submission->Seal(seal));
  if (reply.result() != v1::SubmitReply::REFUSED) return Made(batch.id());
  if (reply.requests() == 0 && own.errors_size() == 0) {
    return FailForGood(batch.id(), "empty_file", "", "The input file has no requests.");
  }
  return parts_.batches->Fail(batch.id(), RefusalOf(reply, own));
}

}  // namespace nightshift
