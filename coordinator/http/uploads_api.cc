#include "coordinator/http/uploads_api.h"

#include <openssl/evp.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/http/api_reply.h"
#include "coordinator/http/multipart.h"
#include "coordinator/http/rows.h"
#include "coordinator/http/upload_form.h"
#include "storage/record.h"

namespace nightshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kBodyBytesMax = int64_t{1} << 20;
// A form around a part.
constexpr int64_t kFormBytes = int64_t{64} << 10;
constexpr size_t kCopyBytes = size_t{256} << 10;
constexpr int64_t kMillisPerSecond = 1000;
constexpr absl::string_view kFilePrefix = "file-";
constexpr absl::string_view kPartPrefix = "part_";
constexpr absl::string_view kUploadPrefix = "upload_";

// The same characters behind another prefix; empty for an id of another kind.
std::string WithPrefix(absl::string_view id, absl::string_view from, absl::string_view to) {
  return absl::ConsumePrefix(&id, from) ? absl::StrCat(to, id) : "";
}

absl::Status NoSuchUpload(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("No such Upload object: ", id));
}

// Reads a small JSON body. False with the refusal.
bool ReadObject(HttpRequest& request, Json* json, HttpReply* refusal) {
  std::string body;
  const absl::Status status = request.body->Read(kBodyBytesMax, [&](absl::string_view bytes) {
    body.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  });
  if (!status.ok()) {
    *refusal = ErrorReply(status);
    return false;
  }
  *json = Json::parse(body, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (json->is_object()) return true;
  *refusal = BadParameter("", "", "The body is not a JSON object.");
  return false;
}

HttpReply Missing(absl::string_view name) {
  return BadParameter(name, "missing_required_parameter",
                      absl::StrCat("Missing required parameter: '", name, "'."));
}

std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

class Md5 {
 public:
  Md5() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_md5(), nullptr); }
  ~Md5() { EVP_MD_CTX_free(context_); }
  Md5(const Md5&) = delete;
  Md5& operator=(const Md5&) = delete;
  void Add(absl::string_view bytes) { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }
  std::string Hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_, digest, &size);
    return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
  }

 private:
  EVP_MD_CTX* const context_;
};

}  // namespace

absl::StatusOr<v1::UploadRecord> UploadsApi::Find(const Caller& caller,
                                                  const std::string& id) const {
  const std::string key = RowKey(kUploadRows, id);
  const absl::StatusOr<std::string> value = parts_.store->Get(Family::kFiles, key);
  if (absl::IsNotFound(value.status())) return NoSuchUpload(id);
  RETURN_IF_ERROR(value.status());
  v1::UploadRecord record;
  RETURN_IF_ERROR(DecodeRecord(key, *value, &record));
  if (!caller.Sees(record.tenant())) return NoSuchUpload(id);
  return record;
}

absl::StatusOr<v1::UploadRecord> UploadsApi::FindPending(const Caller& caller,
                                                         const std::string& id) const {
  ASSIGN_OR_RETURN(v1::UploadRecord upload, Find(caller, id));
  if (upload.status() == v1::UPLOAD_STATUS_COMPLETED) {
    return absl::FailedPreconditionError(absl::StrCat("The upload ", id, " is completed."));
  }
  if (upload.status() == v1::UPLOAD_STATUS_CANCELLED) {
    return absl::FailedPreconditionError(absl::StrCat("The upload ", id, " is cancelled."));
  }
  if (upload.expires_at_ms() <= absl::ToUnixMillis(parts_.clock->WallNow())) {
    return absl::FailedPreconditionError(absl::StrCat("The upload ", id, " has expired."));
  }
  return upload;
}

absl::Status UploadsApi::Replace(const v1::UploadRecord& before,
                                 const v1::UploadRecord& after) const {
  const std::string key = RowKey(kUploadRows, after.id());
  WriteSet writes;
  writes.ExpectValue(Family::kFiles, key, EncodeRecord(key, before));
  PutRow(kUploadRows, after.id(), after, writes);
  return parts_.store->Commit(std::move(writes));
}

HttpReply UploadsApi::Object(const v1::UploadRecord& upload) const {
  Json json;
  json["id"] = upload.id();
  json["object"] = "upload";
  json["bytes"] = upload.bytes();
  json["created_at"] = upload.created_at_ms() / kMillisPerSecond;
  json["expires_at"] = upload.expires_at_ms() / kMillisPerSecond;
  json["filename"] = upload.filename();
  json["purpose"] = upload.purpose();
  json["status"] = upload.status() == v1::UPLOAD_STATUS_COMPLETED   ? "completed"
                   : upload.status() == v1::UPLOAD_STATUS_CANCELLED ? "cancelled"
                                                                    : "pending";
  json["file"] = nullptr;
  const absl::StatusOr<v1::FileRecord> file = parts_.files->Find(upload.file_id());
  if (file.ok()) json["file"] = Json::parse(FileObject(*file));
  return JsonReply(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

HttpReply UploadsApi::Create(HttpRequest& request) const {
  Json body;
  HttpReply refusal;
  if (!ReadObject(request, &body, &refusal)) return refusal;
  v1::UploadRecord upload;
  upload.set_filename(CleanFileName(TextOf(body, "filename")));
  upload.set_purpose(TextOf(body, "purpose"));
  if (upload.filename().empty()) return Missing("filename");
  if (upload.purpose().empty()) return Missing("purpose");
  if (TextOf(body, "mime_type").empty()) return Missing("mime_type");
  if (!IsFilePurpose(upload.purpose())) return UnknownPurpose();
  if (upload.purpose() == "batch" && !absl::EndsWithIgnoreCase(upload.filename(), ".jsonl")) {
    return BadParameter("", "", kInvalidBatchFormat);
  }
  const auto bytes = body.find("bytes");
  if (bytes == body.end()) return Missing("bytes");
  if (!bytes->is_number_unsigned() || bytes->get<uint64_t>() > uint64_t{1} << 50) {
    return BadParameter("bytes", "invalid_value", "Invalid 'bytes': expected a whole number.");
  }
  upload.set_bytes(static_cast<int64_t>(bytes->get<uint64_t>()));
  if (const auto after = body.find("expires_after"); after != body.end() && !after->is_null()) {
    const bool shaped = after->is_object() && TextOf(*after, "anchor") == "created_at" &&
                        after->contains("seconds") && (*after)["seconds"].is_number_unsigned();
    const int64_t seconds = shaped ? (*after)["seconds"].get<int64_t>() : 0;
    if (seconds < kFileLifetimeMin || seconds > kFileLifetimeMax) {
      return BadParameter("expires_after", "invalid_value",
                          "Invalid 'expires_after': expected the anchor 'created_at' and 3600 to "
                          "2592000 seconds.");
    }
    upload.set_file_lifetime_s(seconds);
  }
  if (const absl::Status room = parts_.dispatcher->TakesNewJobs(); !room.ok()) {
    return ErrorReply(room);
  }
  const absl::Time now = parts_.clock->WallNow();
  upload.set_id(
      WithPrefix(parts_.files->NewId(absl::ToUnixMillis(now)), kFilePrefix, kUploadPrefix));
  upload.set_created_at_ms(absl::ToUnixMillis(now));
  upload.set_expires_at_ms(absl::ToUnixMillis(now + kUploadLifetime));
  upload.set_status(v1::UPLOAD_STATUS_PENDING);
  upload.set_tenant(request.caller.tenant);
  WriteSet writes;
  PutNewRow(kUploadRows, upload.id(), upload, writes);
  const absl::Status status = parts_.store->Commit(std::move(writes));
  return status.ok() ? Object(upload) : ErrorReply(status);
}

HttpReply UploadsApi::AddPart(HttpRequest& request, const std::string& id) const {
  const absl::StatusOr<v1::UploadRecord> upload = FindPending(request.caller, id);
  if (!upload.ok()) return ErrorReply(upload.status());
  const std::string* const type = request.Header("content-type");
  const absl::StatusOr<std::string> boundary = MultipartBoundary(type == nullptr ? "" : *type);
  if (!boundary.ok()) return ErrorReply(boundary.status());
  // Also of an upload that an admin adds to.
  const FileOwner owner = {upload->tenant(), parts_.access->FileBytesMax(request.caller)};
  std::unique_ptr<FileUpload> part;
  bool in_data = false;
  MultipartParser parser(
      *boundary, {[&](const PartHead& head) -> absl::Status {
                    in_data = head.name == "data";
                    if (!in_data) return absl::OkStatus();
                    if (part != nullptr) {
                      return absl::InvalidArgumentError("The form has 'data' twice.");
                    }
                    RETURN_IF_ERROR(parts_.dispatcher->TakesNewJobs());
                    ASSIGN_OR_RETURN(part, parts_.files->Begin(owner));
                    return absl::OkStatus();
                  },
                  [&](absl::string_view bytes) -> absl::Status {
                    if (!in_data) return absl::OkStatus();
                    if (part->bytes() + static_cast<int64_t>(bytes.size()) > kUploadPartBytesMax) {
                      return absl::OutOfRangeError(
                          absl::StrCat("A part is at most ", kUploadPartBytesMax, " bytes long."));
                    }
                    return part->Write(bytes);
                  },
                  [] { return absl::OkStatus(); }});
  absl::Status status =
      request.body->Read(kUploadPartBytesMax + kFormBytes,
                         [&](absl::string_view bytes) { return parser.Feed(bytes); });
  if (status.ok()) status = parser.Finish();
  if (!status.ok()) return ErrorReply(status);
  if (part == nullptr) return Missing("data");
  // The upload's id is its name: that is how it is found out where a part belongs.
  const absl::StatusOr<v1::FileRecord> record =
      part->Finish(id, kUploadPartPurpose, absl::ToInt64Seconds(kUploadLifetime));
  if (!record.ok()) return ErrorReply(record.status());
  Json json;
  json["id"] = WithPrefix(record->id(), kFilePrefix, kPartPrefix);
  json["object"] = "upload.part";
  json["created_at"] = record->created_at_ms() / kMillisPerSecond;
  json["upload_id"] = id;
  return JsonReply(json.dump() + "\n");
}

absl::StatusOr<v1::FileRecord> UploadsApi::Join(const v1::UploadRecord& upload,
                                                const std::vector<std::string>& part_ids,
                                                const std::string& md5) const {
  ASSIGN_OR_RETURN(const std::unique_ptr<FileUpload> whole, parts_.files->Begin({upload.tenant()}));
  Md5 hash;
  std::vector<char> buffer(kCopyBytes);
  for (const std::string& part_id : part_ids) {
    RETURN_IF_ERROR(parts_.dispatcher->TakesNewJobs());
    if (*parts_.stopping) return absl::UnavailableError("The coordinator is shutting down.");
    const std::string file_id = WithPrefix(part_id, kPartPrefix, kFilePrefix);
    const absl::StatusOr<v1::FileRecord> part = parts_.files->Find(file_id);
    if (!part.ok() || part->purpose() != kUploadPartPurpose || part->filename() != upload.id()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Invalid 'part_ids': the upload has no part ", part_id, "."));
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<OpenFile> file, parts_.files->OpenForReading(file_id));
    for (int64_t offset = 0; offset < part->bytes();) {
      ASSIGN_OR_RETURN(const size_t got, file->ReadAt(offset, buffer.data(), buffer.size()));
      if (got == 0) return absl::DataLossError("a part is shorter than it was");
      RETURN_IF_ERROR(whole->Write(absl::string_view(buffer.data(), got)));
      hash.Add(absl::string_view(buffer.data(), got));
      offset += static_cast<int64_t>(got);
    }
  }
  if (whole->bytes() != upload.bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("The parts have ", whole->bytes(),
                                                   " bytes together; the upload was announced "
                                                   "with ",
                                                   upload.bytes(), "."));
  }
  if (!md5.empty() && absl::AsciiStrToLower(md5) != hash.Hex()) {
    return absl::InvalidArgumentError("The md5 is not that of the parts in this order.");
  }
  return whole->Finish(upload.filename(), upload.purpose(),
                       FileLifetime(upload.purpose(), upload.file_lifetime_s()));
}

HttpReply UploadsApi::Complete(HttpRequest& request, const std::string& id) const {
  Json body;
  HttpReply refusal;
  if (!ReadObject(request, &body, &refusal)) return refusal;
  const auto list = body.find("part_ids");
  if (list == body.end()) return Missing("part_ids");
  std::vector<std::string> part_ids;
  std::set<std::string> seen;
  for (const Json& part : *list) {
    if (!list->is_array() || !part.is_string() || part_ids.size() >= kUploadPartsMax ||
        !seen.insert(part.get<std::string>()).second) {
      return BadParameter("part_ids", "invalid_value",
                          absl::StrCat("Invalid 'part_ids': expected up to ", kUploadPartsMax,
                                       " ids of parts, each once."));
    }
    part_ids.push_back(part.get<std::string>());
  }
  const absl::StatusOr<v1::UploadRecord> upload = FindPending(request.caller, id);
  if (!upload.ok()) return ErrorReply(upload.status());
  const absl::StatusOr<v1::FileRecord> file = Join(*upload, part_ids, TextOf(body, "md5"));
  if (!file.ok()) return ErrorReply(file.status());
  v1::UploadRecord completed = *upload;
  completed.set_status(v1::UPLOAD_STATUS_COMPLETED);
  completed.set_file_id(file->id());
  if (const absl::Status status = Replace(*upload, completed); !status.ok()) {
    // Somebody ended it meanwhile: the file is nobody's.
    (void)parts_.files->Delete(file->id());
    return ErrorReply(status);
  }
  RemoveParts(id);
  return Object(completed);
}

HttpReply UploadsApi::Cancel(const HttpRequest& request, const std::string& id) const {
  const absl::StatusOr<v1::UploadRecord> upload = FindPending(request.caller, id);
  if (!upload.ok()) return ErrorReply(upload.status());
  v1::UploadRecord cancelled = *upload;
  cancelled.set_status(v1::UPLOAD_STATUS_CANCELLED);
  const absl::Status status = Replace(*upload, cancelled);
  if (!status.ok()) return ErrorReply(status);
  RemoveParts(id);
  return Object(cancelled);
}

void UploadsApi::RemoveParts(const std::string& id) const {
  std::vector<std::string> ids;
  for (const v1::FileRecord& file : parts_.files->List()) {
    if (file.purpose() == kUploadPartPurpose && file.filename() == id) ids.push_back(file.id());
  }
  if (const absl::Status status = parts_.files->DeleteAll(ids); !status.ok()) {
    LogWarning("the parts of ", id, " stay until they expire: ", status.ToString());
  }
}

absl::Status UploadsApi::Sweep() const {
  const int64_t before = absl::ToUnixMillis(parts_.clock->WallNow() - kUploadMemory);
  WriteSet writes;
  const absl::Status read =
      ReadRows(*parts_.store, kUploadRows, [&](absl::string_view key, absl::string_view value) {
        v1::UploadRecord record;
        RETURN_IF_ERROR(DecodeRecord(key, value, &record));
        if (record.expires_at_ms() < before) writes.Delete(Family::kFiles, std::string(key));
        return absl::OkStatus();
      });
  if (!read.ok() || writes.empty()) return read;
  return parts_.store->Commit(std::move(writes));
}

}  // namespace nightshift
