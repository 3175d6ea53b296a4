#include "coordinator/http/batch_events.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr size_t kChunkBytes = size_t{64} << 10;
// A longer place is not told: the HTTP library takes no line of a head beyond 8 KiB, and the place
// comes back in one, as a header or in the URL.
constexpr size_t kPlaceBytesMax = size_t{7} << 10;
constexpr absl::Duration kLook = absl::Milliseconds(50);
constexpr int kLooks = 20;
constexpr absl::Duration kBatchInterval = absl::Seconds(1);
constexpr absl::Duration kCommentInterval = absl::Seconds(15);
// Between the places in the two files; none has it.
constexpr char kPlaceMark = '.';

}  // namespace

absl::StatusOr<std::shared_ptr<BatchEvents>> BatchEvents::Create(const ApiParts& parts,
                                                                 const Caller& caller,
                                                                 const std::string& batch_id,
                                                                 absl::string_view place,
                                                                 std::atomic<int>& streams) {
  ASSIGN_OR_RETURN(const BatchView view, LoadBatch(parts, caller, batch_id));
  // Counted before anything can fail: the destructor takes it back.
  ++streams;
  std::shared_ptr<BatchEvents> events(new BatchEvents(parts, caller, batch_id, streams));
  if (streams > kEventStreamsMax) {
    return absl::ResourceExhaustedError("Too many event streams; try again.");
  }
  if (!place.empty()) {
    const std::pair<std::string, std::string> cursors =
        absl::StrSplit(place, absl::MaxSplits(kPlaceMark, 1));
    events->files_[0].cursor = cursors.first;
    events->files_[1].cursor = cursors.second;
    if (!view.has_job) return absl::InvalidArgumentError("There is no such place yet.");
  }
  RETURN_IF_ERROR(events->OpenFiles(view));
  return events;
}

BatchEvents::~BatchEvents() { --streams_; }

absl::Status BatchEvents::OpenFiles(const BatchView& view) {
  if (!view.has_job) return absl::OkStatus();
  ASSIGN_OR_RETURN(job_, parts_.dispatcher->FindJob(view.job.id()));
  for (File& file : files_) {
    if (file.reader != nullptr) continue;
    v1::ReadOutputRequest request;
    request.set_job(view.job.id());
    request.set_kind(file.kind);
    request.set_cursor(file.cursor);
    request.set_follow(true);
    ASSIGN_OR_RETURN(file.reader, OutputReader::Create(*parts_.store, *parts_.dispatcher, request));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> BatchEvents::Next() {
  text_.clear();
  for (int look = 0; look < kLooks && !ended_; ++look) {
    if (*parts_.stopping) {
      ended_ = true;
      break;
    }
    RETURN_IF_ERROR(Step());
    if (!text_.empty()) {
      sent_at_ = parts_.clock->Now();
      break;
    }
    absl::SleepFor(kLook);
  }
  if (text_.empty() && !ended_ && parts_.clock->Now() - sent_at_ >= kCommentInterval) {
    sent_at_ = parts_.clock->Now();
    text_ = ":\n\n";
  }
  return absl::string_view(text_);
}

absl::Status BatchEvents::Step() {
  if (job_ != 0) {
    // The count first: what changes while it is looked at is found the next time.
    const uint64_t seen = parts_.dispatcher->ChangeCount(job_);
    if (seen == seen_ && !behind_) return absl::OkStatus();
    seen_ = seen;
  }
  absl::StatusOr<BatchView> view = LoadBatch(parts_, caller_, batch_id_);
  if (absl::IsNotFound(view.status())) {
    // Deleted meanwhile.
    ended_ = true;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(view.status());
  RETURN_IF_ERROR(OpenFiles(*view));
  bool at_end = true;
  if (view->has_job) {
    for (File& file : files_) {
      bool file_at_end = false;
      RETURN_IF_ERROR(TakeLines(file, &file_at_end));
      at_end = at_end && file_at_end;
    }
  } else {
    const std::string status = BatchStatusOf(*view);
    at_end = status == "failed" || status == "cancelled";
  }
  if (!text_.empty()) {
    const std::string place =
        absl::StrCat(files_[0].cursor, std::string(1, kPlaceMark), files_[1].cursor);
    const bool known = !files_[0].cursor.empty() && !files_[1].cursor.empty();
    // Of the last event, which has no end yet.
    if (known && place.size() <= kPlaceBytesMax) absl::StrAppend(&text_, "id: ", place, "\n");
    absl::StrAppend(&text_, "\n");
  }
  if (at_end) {
    // It may have ended since it was looked at.
    ASSIGN_OR_RETURN(view, LoadBatch(parts_, caller_, batch_id_));
  }
  std::string batch = BatchObject(*view);
  const MonotonicTime now = parts_.clock->Now();
  const bool due = told_.empty() || (batch != told_ && now - told_at_ >= kBatchInterval);
  const bool batch_waits = batch != told_ && !due;
  if (at_end || due) {
    absl::StrAppend(&text_, "event: batch\ndata: ", batch, "\n");
    told_ = std::move(batch);
    told_at_ = now;
  }
  behind_ = !text_.empty() || batch_waits;
  ended_ = at_end;
  return absl::OkStatus();
}

absl::Status BatchEvents::TakeLines(File& file, bool* at_end) {
  ASSIGN_OR_RETURN(const v1::OutputChunk chunk, file.reader->Next(kChunkBytes));
  file.cursor = chunk.cursor();
  for (absl::string_view line : absl::StrSplit(chunk.lines(), '\n', absl::SkipEmpty())) {
    if (!text_.empty()) absl::StrAppend(&text_, "\n");
    absl::StrAppend(&text_, "event: ", file.event, "\ndata: ", line, "\n");
  }
  *at_end = chunk.lines().empty() && file.reader->AtEnd();
  return absl::OkStatus();
}

}  // namespace nightshift
