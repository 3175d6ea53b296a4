// The form that uploads a file: takes its fields in any order, streams the file into the table, and
// checks it as far as an upload is checked.
//
// Not thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_UPLOAD_FORM_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_UPLOAD_FORM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/http/file_table.h"
#include "coordinator/http/http_message.h"
#include "coordinator/http/multipart.h"

namespace nightshift {

// Of a field that is not the file; more is refused.
inline constexpr size_t kFieldBytesMax = size_t{4} << 10;

// Seconds that a client may give a file to live.
inline constexpr int64_t kFileLifetimeMin = 3600;
inline constexpr int64_t kFileLifetimeMax = 2'592'000;
inline constexpr char kInvalidBatchFormat[] = "Invalid file format for Batch API. Must be .jsonl";
// Of a part of a file that is not whole yet: nobody can ask for it, and no list shows it.
inline constexpr char kUploadPartPurpose[] = "upload.part";

bool IsFilePurpose(absl::string_view purpose);
HttpReply UnknownPurpose();
// What a file of this purpose gets when its client chose `seconds`, 0 for no choice: 0 is for ever.
int64_t FileLifetime(absl::string_view purpose, int64_t seconds);

class UploadForm {
 public:
  // `may_go_on` is asked before the file and every 16 MiB of it: an error (the disk is filling up)
  // ends the upload.
  UploadForm(FileTable& table, FileOwner owner, std::function<absl::Status()> may_go_on)
      : table_(table), owner_(std::move(owner)), may_go_on_(std::move(may_go_on)) {}

  // The handlers for the parser of this form's body; they must not outlive it.
  MultipartParser::Handlers Handlers();

  // After the last byte: keeps the file and returns its object, or the refusal. Nothing of a
  // refused upload stays.
  HttpReply Finish();

 private:
  absl::Status BeginPart(const PartHead& head);
  absl::Status TakeData(absl::string_view bytes);
  // False with the refusal.
  bool ReadLifetime(int64_t* seconds, HttpReply* refusal) const;
  bool LooksLikeJsonLines() const;

  FileTable& table_;
  const FileOwner owner_;
  const std::function<absl::Status()> may_go_on_;
  std::unique_ptr<FileUpload> file_;
  std::string filename_;
  int64_t next_look_ = 0;
  std::string beginning_;  // of the file, for a first look at it
  bool in_file_ = false;
  std::string field_;  // the part that is read now, unless it is the file
  std::map<std::string, std::string> fields_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_UPLOAD_FORM_H_
