#include "coordinator/jobs/output_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/commit/job_rows.h"
#include "coordinator/commit/progress_chunk.h"
#include "coordinator/jobs/output_line.h"
#include "coordinator/jobs/row_walk.h"
#include "coordinator/jobs/seen_set.h"
#include "storage/keys.h"
#include "storage/record.h"

namespace nightshift {
namespace {

// A view of the store is dropped after this many lines: it pins what has been deleted since.
constexpr int kLinesPerView = 65536;
// Read ahead no more than one chunk of output uses, and no more than this.
constexpr size_t kReadaheadBytesMax = size_t{2} << 20;

class StoreOutputReader final : public OutputReader {
 public:
  StoreOutputReader(Store& store, const Dispatcher& dispatcher,
                    const v1::ReadOutputRequest& request, JobNumber job, v1::JobRecord record)
      : store_(store),
        dispatcher_(dispatcher),
        job_(job),
        errors_(request.kind() == v1::ReadOutputRequest::ERRORS),
        follow_(request.follow()),
        in_order_(!request.follow() || request.in_order()),
        lines_left_(request.limit() > 0 ? request.limit() : INT64_MAX),
        record_(std::move(record)),
        ended_(JobHasEnded(record_.state())),
        print_unrun_(ended_),
        total_(static_cast<uint64_t>(record_.total())),
        seen_(record_.total()) {
    for (const int error_class : request.classes()) classes_.push_back(error_class);
  }

  absl::Status StartAt(absl::string_view cursor);
  absl::StatusOr<v1::OutputChunk> Next(size_t bytes_max) override;
  bool AtEnd() const override { return at_end_; }

 private:
  // One moment of the store. Outcomes are looked at first: what they name is then there too.
  struct Views {
    Views(const Store& store, JobNumber job, uint64_t first, size_t readahead)
        : outcomes(store, Family::kOutcomes, job, first, UINT64_MAX, readahead),
          responses(store, Family::kResponses, job, first, UINT64_MAX, readahead),
          requests(store, Family::kRequests, job, first, UINT64_MAX, readahead) {}
    RowWalk outcomes;
    RowWalk responses;
    RowWalk requests;
    int lines = 0;
  };

  absl::Status Refresh();
  absl::Status ReadInOrder(v1::OutputChunk& chunk);
  absl::Status ReadFinished(v1::OutputChunk& chunk);
  absl::Status ReadFinishedOf(uint32_t number, absl::string_view finished, v1::OutputChunk& chunk);
  absl::StatusOr<bool> ChunkHasNoLine(uint32_t number) const;
  Views& ViewsAt(uint64_t index);
  absl::Status Take(uint64_t index, bool has_outcome, v1::OutputChunk& chunk);
  bool Wanted(const v1::OutcomeRecord& outcome) const;
  absl::Status Missing(uint64_t index, absl::string_view what, const absl::Status& why);
  bool Full(const v1::OutputChunk& chunk) const {
    return lines_left_ == 0 || chunk.lines().size() >= bytes_max_;
  }

  Store& store_;
  const Dispatcher& dispatcher_;
  const JobNumber job_;
  const bool errors_;
  const bool follow_;
  const bool in_order_;
  std::vector<int> classes_;
  int64_t lines_left_;

  v1::JobRecord record_;
  bool ended_;
  bool print_unrun_;   // requests without an outcome never get one
  int64_t unrun_ = 0;  // of those, met so far
  const uint64_t total_;
  SeenSet seen_;
  uint64_t position_ = 0;      // in input order
  uint32_t follow_chunk_ = 0;  // where following goes on, so that no chunk starves another
  bool at_end_ = false;

  // Of the Next() that is under way.
  size_t bytes_max_ = 0;
  std::optional<Views> views_;
  v1::OutcomeRecord outcome_;
};

absl::Status StoreOutputReader::StartAt(absl::string_view cursor) {
  if (cursor.empty()) return absl::OkStatus();
  OutputCursor at;
  RETURN_IF_ERROR(DecodeCursor(cursor, job_, &at, &seen_));
  if (at.run != record_.run()) {
    return absl::AbortedError("the job has been run again since; read its output from the start");
  }
  // A reader that had gone through looks again for what has finished since.
  position_ = at.position == total_ || !in_order_ ? 0 : at.position;
  return absl::OkStatus();
}

absl::Status StoreOutputReader::Refresh() {
  ASSIGN_OR_RETURN(v1::JobRecord now, dispatcher_.GetRecord(job_));
  if (now.run() != record_.run()) {
    return absl::AbortedError(
        "the job has been run again meanwhile; read its output from the start");
  }
  record_ = std::move(now);
  if (follow_ && !ended_ && JobHasEnded(record_.state())) {
    ended_ = true;
    print_unrun_ = true;
    if (!in_order_) position_ = 0;
    views_.reset();
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::OutputChunk> StoreOutputReader::Next(size_t bytes_max) {
  v1::OutputChunk chunk;
  if (!at_end_) {
    bytes_max_ = std::max(bytes_max, size_t{1});
    RETURN_IF_ERROR(Refresh());
    absl::Status status;
    if (!in_order_ && !ended_) status = ReadFinished(chunk);
    // It may have ended while its chunks were asked for.
    if (status.ok() && (in_order_ || ended_)) status = ReadInOrder(chunk);
    views_.reset();
    RETURN_IF_ERROR(status);
    at_end_ = at_end_ || lines_left_ == 0;
  }
  chunk.set_cursor(EncodeCursor({job_, record_.run(), position_}, seen_));
  return chunk;
}

absl::Status StoreOutputReader::ReadInOrder(v1::OutputChunk& chunk) {
  while (position_ < total_ && !Full(chunk)) {
    const auto number = static_cast<uint32_t>(position_ / kChunkRequests);
    if (position_ % kChunkRequests == 0 && seen_.ContainsNoneOf(number)) {
      ASSIGN_OR_RETURN(const bool none, ChunkHasNoLine(number));
      if (none) seen_.AddChunk(number);
    }
    if (seen_.ContainsChunk(number)) {
      position_ = std::min(total_, (number + 1) * kChunkRequests);
      continue;
    }
    if (seen_.Contains(position_)) {
      ++position_;
      continue;
    }
    RowWalk& outcomes = ViewsAt(position_).outcomes;
    const bool has_outcome = outcomes.Find(position_);
    RETURN_IF_ERROR(outcomes.status());
    if (!has_outcome && follow_ && !ended_) break;
    if (!has_outcome && !print_unrun_) {
      position_ = outcomes.Valid() ? std::min(outcomes.index(), total_) : total_;
      continue;
    }
    // An outcome whose row is gone must not be told as one that never was.
    if (!has_outcome && ++unrun_ > record_.cancelled() + record_.expired()) {
      return Missing(position_, "outcome", absl::OkStatus());
    }
    RETURN_IF_ERROR(Take(position_, has_outcome, chunk));
    ++position_;
  }
  at_end_ = position_ == total_;
  return absl::OkStatus();
}

// Millions of successes need not be looked at for a few errors.
absl::StatusOr<bool> StoreOutputReader::ChunkHasNoLine(uint32_t number) const {
  const std::string key = ProgressKey(job_, number, 0);
  const absl::StatusOr<std::string> value = store_.Get(Family::kProgress, key);
  if (absl::IsNotFound(value.status())) return false;
  RETURN_IF_ERROR(value.status());
  v1::ProgressBase base;
  RETURN_IF_ERROR(DecodeRecord(key, *value, &base));
  const int64_t size = ChunkSize(record_.total(), number);
  if (CountBits(base.finished()) != size) return false;
  return errors_ ? base.sums().succeeded() == size : base.sums().succeeded() == 0;
}

absl::Status StoreOutputReader::ReadFinished(v1::OutputChunk& chunk) {
  const uint32_t chunks = seen_.chunk_count();
  for (uint32_t n = 0; n < chunks && !Full(chunk); ++n) {
    const uint32_t number = (follow_chunk_ + n) % chunks;
    if (seen_.ContainsChunk(number)) continue;
    const absl::StatusOr<std::string> finished = dispatcher_.FinishedBitmap(job_, number);
    // A job that ends gives up its bitmaps.
    if (absl::IsFailedPrecondition(finished.status())) return Refresh();
    RETURN_IF_ERROR(finished.status());
    RETURN_IF_ERROR(ReadFinishedOf(number, *finished, chunk));
    if (Full(chunk)) follow_chunk_ = number;
  }
  return absl::OkStatus();
}

absl::Status StoreOutputReader::ReadFinishedOf(uint32_t number, absl::string_view finished,
                                               v1::OutputChunk& chunk) {
  views_.reset();
  const uint64_t begin = number * kChunkRequests;
  for (size_t byte = 0; byte < finished.size(); ++byte) {
    const absl::string_view seen = seen_.bitmap(number);
    const int seen_bits = byte < seen.size() ? static_cast<uint8_t>(seen[byte]) : 0;
    const int bits = static_cast<uint8_t>(finished[byte]) & ~seen_bits;
    for (int bit = 0; bits >> bit != 0 && !Full(chunk); ++bit) {
      if ((bits >> bit & 1) == 0) continue;
      const uint64_t index = begin + byte * 8 + static_cast<uint64_t>(bit);
      RowWalk& outcomes = ViewsAt(index).outcomes;
      if (!outcomes.Find(index)) return Missing(index, "outcome", outcomes.status());
      RETURN_IF_ERROR(Take(index, true, chunk));
    }
    // A chunk that is seen whole has no bitmap any more.
    if (Full(chunk) || seen_.ContainsChunk(number)) break;
  }
  return absl::OkStatus();
}

StoreOutputReader::Views& StoreOutputReader::ViewsAt(uint64_t index) {
  if (!views_.has_value() || views_->lines >= kLinesPerView) {
    views_.emplace(store_, job_, index, std::min(bytes_max_, kReadaheadBytesMax));
  }
  return *views_;
}

bool StoreOutputReader::Wanted(const v1::OutcomeRecord& outcome) const {
  if ((outcome.kind() != v1::OUTCOME_SUCCEEDED) != errors_) return false;
  if (!errors_ || classes_.empty()) return true;
  return std::find(classes_.begin(), classes_.end(), outcome.error_class()) != classes_.end();
}

// Adds the line of a request, if it belongs here. The views' outcomes stand at it if it has one.
absl::Status StoreOutputReader::Take(uint64_t index, bool has_outcome, v1::OutputChunk& chunk) {
  Views& views = *views_;
  ++views.lines;
  if (has_outcome) {
    RETURN_IF_ERROR(DecodeRecord(views.outcomes.key(), views.outcomes.value(), &outcome_));
  } else {
    outcome_ = UnrunOutcome(record_);
  }
  seen_.Add(index);
  if (!Wanted(outcome_)) return absl::OkStatus();
  if (!views.requests.Find(index)) return Missing(index, "request", views.requests.status());
  ASSIGN_OR_RETURN(const RequestHead request,
                   ReadRequestHead(views.requests.key(), views.requests.value()));
  absl::string_view body;
  if (outcome_.body_size() > 0) {
    if (!views.responses.Find(index)) return Missing(index, "answer", views.responses.status());
    ASSIGN_OR_RETURN(body, DecodeBytes(views.responses.key(), views.responses.value()));
  }
  AppendOutputLine(record_.id(), index, request.custom_id, outcome_, body, chunk.mutable_lines());
  chunk.set_count(chunk.count() + 1);
  --lines_left_;
  return absl::OkStatus();
}

absl::Status StoreOutputReader::Missing(uint64_t index, absl::string_view what,
                                        const absl::Status& why) {
  RETURN_IF_ERROR(why);
  // The job may have been deleted or run again while this view was made.
  RETURN_IF_ERROR(Refresh());
  return absl::DataLossError(
      absl::StrCat("the ", what, " of request ", index, " of job ", record_.id(),
                   " is not in the store; run nightshift audit ", record_.id()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputReader>> OutputReader::Create(
    Store& store, const Dispatcher& dispatcher, const v1::ReadOutputRequest& request) {
  if (request.kind() != v1::ReadOutputRequest::RESULTS &&
      request.kind() != v1::ReadOutputRequest::ERRORS) {
    return absl::InvalidArgumentError("say which file to read: results or errors");
  }
  if (request.limit() < 0) return absl::InvalidArgumentError("the limit must not be negative");
  ASSIGN_OR_RETURN(const JobNumber job, dispatcher.FindJob(request.job()));
  ASSIGN_OR_RETURN(v1::JobRecord record, dispatcher.GetRecord(job));
  auto reader =
      std::make_unique<StoreOutputReader>(store, dispatcher, request, job, std::move(record));
  RETURN_IF_ERROR(reader->StartAt(request.cursor()));
  return std::unique_ptr<OutputReader>(std::move(reader));
}

}  // namespace nightshift
