#include "coordinator/http/files_api.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/core/job_state.h"
#include "coordinator/http/api_reply.h"
#include "coordinator/http/byte_range.h"
#include "coordinator/http/multipart.h"
#include "coordinator/http/rows.h"
#include "coordinator/http/upload_form.h"
#include "storage/record.h"

namespace nightshift {
namespace {

constexpr int kFilesListed = 10'000;
constexpr int kFilesListedMax = 10'000;
constexpr size_t kContentPieceBytes = size_t{256} << 10;
// Of a whole form. A line in the sand far above any disk: what really bounds an upload is the room.
constexpr int64_t kUploadBytesMax = int64_t{1} << 50;
constexpr int kPartialContent = 206;
constexpr int kRangeNotSatisfiable = 416;

constexpr char kOutputPurpose[] = "batch_output";

// A part of an uploaded file.
class UploadSource final : public HttpSource {
 public:
  UploadSource(std::unique_ptr<OpenFile> file, int64_t offset, int64_t length)
      : file_(std::move(file)), offset_(offset), left_(length), buffer_(kContentPieceBytes) {}

  absl::StatusOr<absl::string_view> Next() override {
    const auto wanted = static_cast<size_t>(std::min<int64_t>(left_, kContentPieceBytes));
    ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset_, buffer_.data(), wanted));
    if (got < wanted) return absl::DataLossError("an uploaded file is shorter than it was");
    offset_ += static_cast<int64_t>(got);
    left_ -= static_cast<int64_t>(got);
    return absl::string_view(buffer_.data(), got);
  }

 private:
  const std::unique_ptr<OpenFile> file_;
  int64_t offset_;
  int64_t left_;
  std::vector<char> buffer_;
};

HttpReply FileErrorReply(const absl::Status& status) {
  if (!absl::IsNotFound(status)) return ErrorReply(status);
  ApiError error;
  error.status = 404;
  error.message = std::string(status.message());
  error.param = "id";
  return ErrorReply(error);
}

}  // namespace

HttpReply FilesApi::Upload(HttpRequest& request) const {
  const std::string* const type = request.Header("content-type");
  const absl::StatusOr<std::string> boundary = MultipartBoundary(type == nullptr ? "" : *type);
  if (!boundary.ok()) return ErrorReply(boundary.status());
  UploadForm form(*parts_.files, OwnerOf(parts_, request.caller),
                  [this] { return parts_.dispatcher->TakesNewJobs(); });
  MultipartParser parser(*boundary, form.Handlers());
  absl::Status status = request.body->Read(
      kUploadBytesMax, [&](absl::string_view bytes) { return parser.Feed(bytes); });
  if (status.ok()) status = parser.Finish();
  return status.ok() ? form.Finish() : ErrorReply(status);
}

absl::StatusOr<v1::FileRecord> FilesApi::OutputAsFile(const Caller& caller,
                                                      const OutputFileName& name,
                                                      const v1::OutputFileRecord& measured) const {
  const std::string id = OutputFileId(name);
  const absl::Status none = NoSuchFile(id);
  const std::string batch_id = BatchIdOfJob(name.job_id);
  const absl::StatusOr<BatchView> view = LoadBatch(parts_, caller, batch_id);
  if (absl::IsNotFound(view.status())) return none;
  RETURN_IF_ERROR(view.status());
  const bool there = view->has_job && JobStateInfo(view->job.state()).terminal &&
                     view->job_record.run() == name.run && measured.lines() > 0 &&
                     !measured.deleted();
  const int64_t expires_at_ms = OutputExpiresAtMs(*view);
  if (!there || expires_at_ms <= absl::ToUnixMillis(parts_.clock->WallNow())) return none;
  v1::FileRecord file;
  file.set_id(id);
  file.set_filename(absl::StrCat(batch_id, name.errors ? "_error.jsonl" : "_output.jsonl"));
  file.set_purpose(kOutputPurpose);
  file.set_bytes(measured.bytes());
  file.set_created_at_ms(view->job.finished_at_ms());
  file.set_expires_at_ms(expires_at_ms);
  return file;
}

absl::StatusOr<v1::FileRecord> FilesApi::Find(const Caller& caller, const std::string& id,
                                              v1::OutputFileRecord* measured) const {
  const std::optional<OutputFileName> output = ParseOutputFileId(id);
  if (!output.has_value()) {
    absl::StatusOr<v1::FileRecord> file = parts_.files->Find(id);
    if (file.ok() && (file->purpose() == kUploadPartPurpose || !caller.Sees(file->tenant()))) {
      return NoSuchFile(id);
    }
    return file;
  }
  // Before it is read through for a length: whether it is there for this caller at all.
  if (!LoadBatch(parts_, caller, BatchIdOfJob(output->job_id)).ok()) return NoSuchFile(id);
  v1::OutputFileRecord own;
  if (measured == nullptr) measured = &own;
  ASSIGN_OR_RETURN(*measured, parts_.outputs->Measure(*output));
  return OutputAsFile(caller, *output, *measured);
}

HttpReply FilesApi::List(const HttpRequest& request) const {
  const std::string* const purpose = request.Query("purpose");
  std::map<std::string, v1::FileRecord> files;
  const auto take = [&](v1::FileRecord record) {
    if (purpose == nullptr || record.purpose() == *purpose) files[record.id()] = std::move(record);
  };
  for (v1::FileRecord& record : parts_.files->List()) {
    if (record.purpose() == kUploadPartPurpose || !request.caller.Sees(record.tenant())) continue;
    take(std::move(record));
  }
  // Outputs whose length nobody has asked for yet are not in the list: it would take as long as
  // reading them all.
  const absl::Status status =
      ReadRows(*parts_.store, kOutputRows, [&](absl::string_view key, absl::string_view value) {
        const auto name = ParseOutputFileId(key.substr(kOutputRows.size()));
        v1::OutputFileRecord measured;
        RETURN_IF_ERROR(DecodeRecord(key, value, &measured));
        if (!name.has_value()) return absl::OkStatus();
        absl::StatusOr<v1::FileRecord> file = OutputAsFile(request.caller, *name, measured);
        if (file.ok()) take(*std::move(file));
        return absl::OkStatus();
      });
  if (!status.ok()) return ErrorReply(status);
  std::vector<ListEntry> entries;
  entries.reserve(files.size());
  for (const auto& [id, record] : files) entries.push_back({record.created_at_ms(), id});
  Page page;
  HttpReply refusal;
  if (!TakePage(request, std::move(entries), kFilesListed, kFilesListedMax, &page, &refusal)) {
    return refusal;
  }
  std::vector<std::string> objects;
  objects.reserve(page.entries.size());
  for (const ListEntry& entry : page.entries) objects.push_back(FileObject(files[entry.id]));
  return ListReply(objects, page);
}

HttpReply FilesApi::Get(const HttpRequest& request, const std::string& id) const {
  const absl::StatusOr<v1::FileRecord> file = Find(request.caller, id);
  return file.ok() ? JsonReply(FileObject(*file)) : FileErrorReply(file.status());
}

HttpReply FilesApi::Content(const HttpRequest& request, const std::string& id) const {
  v1::OutputFileRecord measured;
  const absl::StatusOr<v1::FileRecord> file = Find(request.caller, id, &measured);
  if (!file.ok()) return FileErrorReply(file.status());
  const std::string* const wanted = request.Header("range");
  const ByteRange range = ParseByteRange(wanted == nullptr ? "" : *wanted, file->bytes());
  HttpReply reply;
  if (range.kind == ByteRange::Kind::kUnsatisfiable) {
    ApiError error;
    error.status = kRangeNotSatisfiable;
    error.message = absl::StrCat("The file has ", file->bytes(), " bytes; nothing of the range.");
    reply = ErrorReply(error);
    reply.headers.emplace_back("Content-Range", absl::StrCat("bytes */", file->bytes()));
    return reply;
  }
  if (range.kind == ByteRange::Kind::kPart) {
    reply.status = kPartialContent;
    reply.headers.emplace_back(
        "Content-Range", absl::StrCat("bytes ", range.offset, "-", range.offset + range.length - 1,
                                      "/", file->bytes()));
  }
  reply.headers.emplace_back("Accept-Ranges", "bytes");
  reply.headers.emplace_back("ETag", absl::StrCat("\"", id, "\""));
  // Whatever the client says that it accepts: it gets the bytes as they are.
  reply.content_type = "application/octet-stream";
  if (range.length == 0) return reply;
  reply.source_bytes = range.length;
  if (const std::optional<OutputFileName> output = ParseOutputFileId(id); output.has_value()) {
    auto source = parts_.outputs->Read(*output, measured, range.offset, range.length);
    if (!source.ok()) return ErrorReply(source.status());
    reply.source = *std::move(source);
    return reply;
  }
  absl::StatusOr<std::unique_ptr<OpenFile>> open = parts_.files->OpenForReading(id);
  if (!open.ok()) return FileErrorReply(open.status());
  reply.source = std::make_shared<UploadSource>(*std::move(open), range.offset, range.length);
  return reply;
}

HttpReply FilesApi::Delete(const HttpRequest& request, const std::string& id) const {
  const absl::StatusOr<v1::FileRecord> file = Find(request.caller, id);
  if (!file.ok()) return FileErrorReply(file.status());
  // One whose job is there is told as validated, though its record does not say so yet.
  const std::vector<std::string> validating = parts_.batches->ValidatingWith(id);
  if (!std::all_of(validating.begin(), validating.end(), [this](const std::string& batch) {
        return parts_.dispatcher->FindJob(JobIdOfBatch(batch)).ok();
      })) {
    ApiError error;
    error.status = 409;
    error.message = absl::StrCat("The file ", id,
                                 " is the input of a batch that is being validated; it can be "
                                 "deleted as soon as that is done.");
    error.retry_after_s = 1;
    return ErrorReply(error);
  }
  const std::optional<OutputFileName> output = ParseOutputFileId(id);
  const absl::Status status =
      output.has_value() ? parts_.outputs->Delete(*output) : parts_.files->Delete(id);
  if (!status.ok()) return FileErrorReply(status);
  return JsonReply(absl::StrCat("{\"id\":\"", id, "\",\"object\":\"file\",\"deleted\":true}\n"));
}

}  // namespace nightshift
