#include "coordinator/http/output_files.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "coordinator/core/job_id.h"
#include "coordinator/core/job_state.h"
#include "coordinator/http/rows.h"
#include "coordinator/jobs/output_reader.h"
#include "storage/record.h"

namespace nightshift {
namespace {

constexpr absl::string_view kFilePrefix = "file-";
constexpr size_t kChunkBytes = size_t{256} << 10;
// How far a read from the middle has to skip at most, about.
constexpr int64_t kCheckpointBytes = int64_t{4} << 20;

v1::ReadOutputRequest RequestFor(const OutputFileName& name, const std::string& cursor) {
  v1::ReadOutputRequest request;
  request.set_job(name.job_id);
  request.set_kind(name.errors ? v1::ReadOutputRequest::ERRORS : v1::ReadOutputRequest::RESULTS);
  request.set_cursor(cursor);
  return request;
}

// A part of an output, line chunk by line chunk.
class OutputSource final : public HttpSource {
 public:
  OutputSource(std::unique_ptr<OutputReader> reader, int64_t skip, int64_t length)
      : reader_(std::move(reader)), skip_(skip), left_(length) {}

  absl::StatusOr<absl::string_view> Next() override {
    while (left_ > 0) {
      ASSIGN_OR_RETURN(chunk_, reader_->Next(kChunkBytes));
      absl::string_view lines = chunk_.lines();
      if (lines.empty()) {
        return absl::DataLossError("an output is shorter than it was when it was measured");
      }
      const auto passed = std::min<int64_t>(skip_, static_cast<int64_t>(lines.size()));
      skip_ -= passed;
      lines.remove_prefix(static_cast<size_t>(passed));
      lines = lines.substr(0, static_cast<size_t>(left_));
      left_ -= static_cast<int64_t>(lines.size());
      if (!lines.empty()) return lines;
    }
    return absl::string_view();
  }

 private:
  const std::unique_ptr<OutputReader> reader_;
  v1::OutputChunk chunk_;
  int64_t skip_;
  int64_t left_;
};

}  // namespace

absl::Status NoSuchFile(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("No such File object: ", id));
}

std::string OutputFileId(const OutputFileName& name) {
  return absl::StrCat(kFilePrefix, absl::StripPrefix(name.job_id, kJobIdPrefix),
                      name.errors ? "-error" : "-output",
                      name.run > 1 ? absl::StrCat("-", name.run) : "");
}

std::optional<OutputFileName> ParseOutputFileId(absl::string_view id) {
  const absl::string_view whole = id;
  if (!absl::ConsumePrefix(&id, kFilePrefix) || id.size() < kJobIdChars) return std::nullopt;
  OutputFileName name;
  name.job_id = absl::StrCat(kJobIdPrefix, id.substr(0, kJobIdChars));
  id.remove_prefix(kJobIdChars);
  name.errors = absl::ConsumePrefix(&id, "-error");
  if (!name.errors && !absl::ConsumePrefix(&id, "-output")) return std::nullopt;
  if (!id.empty() && !(absl::ConsumePrefix(&id, "-") && absl::SimpleAtoi(id, &name.run))) {
    return std::nullopt;
  }
  // One spelling for each.
  if (OutputFileId(name) != whole) return std::nullopt;
  return name;
}

absl::StatusOr<v1::OutputFileRecord> OutputFiles::Known(const OutputFileName& name) const {
  const std::string key = RowKey(kOutputRows, OutputFileId(name));
  ASSIGN_OR_RETURN(const std::string value, store_.Get(Family::kFiles, key));
  v1::OutputFileRecord record;
  RETURN_IF_ERROR(DecodeRecord(key, value, &record));
  return record;
}

absl::StatusOr<v1::OutputFileRecord> OutputFiles::Measure(const OutputFileName& name) {
  absl::StatusOr<v1::OutputFileRecord> known = Known(name);
  if (absl::IsNotFound(known.status())) {
    MutexLock lock(&measure_mutex_);
    // Somebody may have been quicker.
    known = Known(name);
    if (absl::IsNotFound(known.status())) {
      ASSIGN_OR_RETURN(known, Count(name));
      RETURN_IF_ERROR(Write(name, *known));
    }
  }
  RETURN_IF_ERROR(known.status());
  if (known->deleted()) return NoSuchFile(OutputFileId(name));
  return known;
}

absl::StatusOr<v1::OutputFileRecord> OutputFiles::Count(const OutputFileName& name) const {
  const absl::StatusOr<JobNumber> job = dispatcher_.FindJob(name.job_id);
  if (!job.ok()) return NoSuchFile(OutputFileId(name));
  ASSIGN_OR_RETURN(const v1::JobRecord record, dispatcher_.GetRecord(*job));
  if (!JobStateInfo(record.state()).terminal || record.run() != name.run) {
    return NoSuchFile(OutputFileId(name));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<OutputReader> reader,
                   OutputReader::Create(store_, dispatcher_, RequestFor(name, "")));
  v1::OutputFileRecord counted;
  counted.add_checkpoints();
  while (true) {
    if (stopping_) return absl::UnavailableError("The coordinator is shutting down.");
    ASSIGN_OR_RETURN(v1::OutputChunk chunk, reader->Next(kChunkBytes));
    if (chunk.lines().empty()) break;
    counted.set_bytes(counted.bytes() + static_cast<int64_t>(chunk.lines().size()));
    counted.set_lines(counted.lines() + chunk.count());
    if (counted.bytes() - counted.checkpoints().rbegin()->offset() < kCheckpointBytes ||
        chunk.cursor().empty()) {
      continue;
    }
    v1::OutputCheckpoint& checkpoint = *counted.add_checkpoints();
    checkpoint.set_offset(counted.bytes());
    checkpoint.set_cursor(std::move(*chunk.mutable_cursor()));
  }
  return counted;
}

absl::StatusOr<std::shared_ptr<HttpSource>> OutputFiles::Read(const OutputFileName& name,
                                                              const v1::OutputFileRecord& measured,
                                                              int64_t offset,
                                                              int64_t length) const {
  // The last one that is not behind the offset; the first is at 0.
  const auto& checkpoints = measured.checkpoints();
  const auto from =
      std::prev(std::upper_bound(checkpoints.begin(), checkpoints.end(), offset,
                                 [](int64_t wanted, const v1::OutputCheckpoint& checkpoint) {
                                   return wanted < checkpoint.offset();
                                 }));
  ASSIGN_OR_RETURN(std::unique_ptr<OutputReader> reader,
                   OutputReader::Create(store_, dispatcher_, RequestFor(name, from->cursor())));
  return std::make_shared<OutputSource>(std::move(reader), offset - from->offset(), length);
}

absl::Status OutputFiles::Write(const OutputFileName& name, const v1::OutputFileRecord& record) {
  WriteSet writes;
  PutRow(kOutputRows, OutputFileId(name), record, writes);
  return store_.Commit(std::move(writes));
}

absl::Status OutputFiles::Sweep() {
  WriteSet writes;
  RETURN_IF_ERROR(ReadRows(store_, kOutputRows, [&](absl::string_view key, absl::string_view) {
    const auto name = ParseOutputFileId(key.substr(kOutputRows.size()));
    const bool gone = !name.has_value() || !dispatcher_.FindJob(name->job_id).ok();
    if (gone) writes.Delete(Family::kFiles, std::string(key));
    return absl::OkStatus();
  }));
  return writes.empty() ? absl::OkStatus() : store_.Commit(std::move(writes));
}

absl::Status OutputFiles::Delete(const OutputFileName& name) {
  MutexLock lock(&measure_mutex_);
  v1::OutputFileRecord record;
  record.set_deleted(true);
  return Write(name, record);
}

}  // namespace nightshift
