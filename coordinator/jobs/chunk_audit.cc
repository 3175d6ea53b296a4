#include "coordinator/jobs/chunk_audit.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "coordinator/commit/progress_chunk.h"
#include "coordinator/commit/progress_sums.h"
#include "coordinator/jobs/row_walk.h"
#include "coordinator/jobs/submission_check.h"
#include "storage/keys.h"
#include "storage/record.h"

namespace nightshift {
namespace {

// A view is torn when a commit of this job falls between the making of its first and its last part,
// a fraction of a millisecond. More than a few in a row mean that something else is wrong.
constexpr int kViewTriesMax = 1000;

using Rows = std::vector<std::pair<std::string, std::string>>;

absl::Status ReadRows(StoreIterator& rows, Rows* out) {
  for (; rows.Valid(); rows.Next()) {
    out->emplace_back(std::string(rows.key()), std::string(rows.value()));
  }
  return rows.status();
}

// All families at one moment. A store hands out a view per family, so the chunk's progress rows are
// looked at before and after the others: every commit that adds an outcome changes them.
class ChunkView {
 public:
  // nullptr when a commit came between.
  static std::unique_ptr<ChunkView> Make(const Store& store, JobNumber job, uint32_t chunk,
                                         uint32_t size, AuditFindings* findings) {
    const std::string begin = ProgressKey(job, chunk, 0);
    const std::string end = ProgressKey(job, chunk + 1, 0);
    const std::unique_ptr<StoreIterator> before = store.Scan(Family::kProgress, begin, end);
    auto view = std::make_unique<ChunkView>(store, job, chunk * kChunkRequests, size);
    const std::unique_ptr<StoreIterator> after = store.Scan(Family::kProgress, begin, end);
    Rows rows_after;
    absl::Status status = ReadRows(*before, &view->progress);
    if (status.ok()) status = ReadRows(*after, &rows_after);
    findings->AddStatus(absl::StrCat("progress of chunk ", chunk), status);
    if (status.ok() && view->progress != rows_after) return nullptr;
    return view;
  }

  ChunkView(const Store& store, JobNumber job, uint64_t begin, uint32_t size)
      : outcomes(store, Family::kOutcomes, job, begin, begin + size, kReadaheadBytes),
        responses(store, Family::kResponses, job, begin, begin + size, kReadaheadBytes),
        attempts(store, Family::kAttempts, job, begin, begin + size, 0),
        requests(store, Family::kRequests, job, begin, begin + size, kReadaheadBytes) {}

  RowWalk outcomes;
  RowWalk responses;
  RowWalk attempts;
  RowWalk requests;
  Rows progress;
};

class ChunkAuditor {
 public:
  ChunkAuditor(ChunkView& view, uint64_t begin, ChunkRecount* recount, AuditFindings* findings)
      : view_(view), begin_(begin), recount_(*recount), findings_(*findings) {}

  void Run(uint32_t chunk, uint32_t size, absl::string_view in_memory) {
    ProgressChunk progress(size);
    for (const auto& [key, value] : view_.progress) {
      findings_.AddStatus("progress", progress.AddRow(key, value));
    }
    v1::ProgressSums sums;
    for (uint32_t offset = 0; offset < size; ++offset) {
      index_ = begin_ + offset;
      const bool finished = BitIsSet(progress.bitmap, offset);
      const bool invalid = CheckRequest();
      const bool has_outcome = CheckOutcome(finished, invalid, &sums);
      CheckAttempts(has_outcome);
      if (!has_outcome) ++recount_.unfinished;
      if (BitIsSet(in_memory, offset) && !finished) {
        Find("is finished in the coordinator's memory, but not in its store");
      }
    }
    for (const RowWalk* walk :
         {&view_.outcomes, &view_.responses, &view_.attempts, &view_.requests}) {
      findings_.AddStatus(absl::StrCat("chunk ", chunk), walk->status());
    }
    if (!SumsAgree(sums, progress.sums)) {
      findings_.Add(absl::StrCat("chunk ", chunk, ": the sums kept (", Words(progress.sums),
                                 ") are not those of its outcomes (", Words(sums), ")"));
    }
    AddSums(sums, &recount_.sums);
  }

 private:
  void Find(absl::string_view what) { findings_.Add(absl::StrCat("request ", index_, " ", what)); }

  static std::string Words(const v1::ProgressSums& sums) {
    int64_t by_class = 0;
    for (const auto& [error_class, count] : sums.failed_by_class()) by_class += count;
    return absl::StrCat(sums.succeeded(), " succeeded, ", sums.failed(), " failed, ", by_class,
                        " with a class, ", sums.prompt_tokens(), " and ", sums.completion_tokens(),
                        " tokens, $", sums.cost_usd());
  }

  // Whether the row is that of an input line that cannot be used.
  bool CheckRequest() {
    if (!view_.requests.Find(index_)) {
      if (view_.requests.status().ok()) Find("has no row");
      return false;
    }
    const absl::StatusOr<RequestHead> head =
        ReadRequestHead(view_.requests.key(), view_.requests.value());
    findings_.AddStatus(absl::StrCat("request ", index_), head.status());
    if (!head.ok()) return false;
    if (head->custom_id.empty()) Find("has no custom_id");
    if (!head->invalid_reason.empty()) return true;
    if (head->body_bytes == 0) Find("has no body");
    if (EndpointPath(static_cast<Endpoint>(head->endpoint)).empty()) Find("has no endpoint");
    return false;
  }

  bool CheckOutcome(bool finished, bool invalid, v1::ProgressSums* sums) {
    if (!view_.outcomes.Find(index_)) {
      if (finished) Find("is marked as finished but has no outcome");
      if (view_.responses.Find(index_)) Find("has an answer but no outcome");
      if (invalid) Find("is an input line that cannot be used, but has no outcome");
      return false;
    }
    if (!finished) Find("has an outcome but is not marked as finished");
    v1::OutcomeRecord outcome;
    const absl::Status status =
        DecodeRecord(view_.outcomes.key(), view_.outcomes.value(), &outcome);
    findings_.AddStatus(absl::StrCat("the outcome of request ", index_), status);
    if (!status.ok()) return true;
    AddOutcome(outcome, sums);
    switch (outcome.kind()) {
      case v1::OUTCOME_SUCCEEDED:
      case v1::OUTCOME_FAILED:
        break;
      case v1::OUTCOME_CANCELLED:
        ++recount_.cancelled;
        break;
      case v1::OUTCOME_EXPIRED:
        ++recount_.expired;
        break;
      default:
        Find(absl::StrCat("has an outcome of an unknown kind, ", int{outcome.kind()}));
    }
    if (invalid != (outcome.error_code() == kInvalidRequestLine)) {
      Find(invalid ? "is an input line that cannot be used, but its outcome is another"
                   : "is said to be an input line that cannot be used, but its row is whole");
    }
    CheckAnswer(outcome.body_size());
    return true;
  }

  void CheckAnswer(int64_t size) {
    if (!view_.responses.Find(index_)) {
      if (size != 0) {
        Find(absl::StrCat("has an outcome with an answer of ", size, " bytes, but no answer"));
      }
      return;
    }
    if (size == 0) {
      Find("has an answer although its outcome has none");
      return;
    }
    const absl::StatusOr<absl::string_view> body =
        DecodeBytes(view_.responses.key(), view_.responses.value());
    findings_.AddStatus(absl::StrCat("the answer of request ", index_), body.status());
    if (body.ok() && static_cast<int64_t>(body->size()) != size) {
      Find(absl::StrCat("has an answer of ", body->size(), " bytes where its outcome says ", size));
    }
  }

  void CheckAttempts(bool has_outcome) {
    if (!view_.attempts.Find(index_)) return;
    v1::AttemptRecord attempts;
    findings_.AddStatus(absl::StrCat("the attempts of request ", index_),
                        DecodeRecord(view_.attempts.key(), view_.attempts.value(), &attempts));
    if (has_outcome) Find("has its outcome but is still counted as being retried");
  }

  ChunkView& view_;
  const uint64_t begin_;
  uint64_t index_ = 0;
  ChunkRecount& recount_;
  AuditFindings& findings_;
};

}  // namespace

void AuditFindings::AddStatus(absl::string_view where, const absl::Status& status) {
  if (status.ok()) return;
  Add(absl::StrCat(where, ": ", absl::string_view(status.message())));
}

void AuditChunk(const Store& store, JobNumber job, int64_t total, uint32_t chunk,
                absl::string_view in_memory, ChunkRecount* recount, AuditFindings* findings) {
  const uint32_t size = ChunkSize(total, chunk);
  std::unique_ptr<ChunkView> view;
  for (int i = 0; i < kViewTriesMax && view == nullptr; ++i) {
    view = ChunkView::Make(store, job, chunk, size, findings);
  }
  if (view == nullptr) {
    findings->Add(absl::StrCat("chunk ", chunk, " changes too fast to be looked at; run it again"));
    return;
  }
  ChunkAuditor(*view, chunk * kChunkRequests, recount, findings).Run(chunk, size, in_memory);
}

}  // namespace nightshift
