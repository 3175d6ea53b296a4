#include "coordinator/http/upload_form.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "coordinator/http/api_reply.h"
#include "coordinator/http/batch_object.h"

namespace nightshift {
namespace {

constexpr std::array<absl::string_view, 6> kPurposes = {"assistants", "batch",     "fine-tune",
                                                        "vision",     "user_data", "evals"};
// A first line up to this long is looked at when it is uploaded; longer ones when a batch is made.
constexpr size_t kBeginningBytes = size_t{64} << 10;
constexpr int64_t kLookBytes = int64_t{16} << 20;

HttpReply MissingField(absl::string_view name) {
  return BadParameter(name, "missing_required_parameter",
                      absl::StrCat("Missing required parameter: '", name, "'."));
}

}  // namespace

bool IsFilePurpose(absl::string_view purpose) {
  return std::find(kPurposes.begin(), kPurposes.end(), purpose) != kPurposes.end();
}

HttpReply UnknownPurpose() {
  return BadParameter("purpose", "invalid_value",
                      "Invalid 'purpose': supported values are 'assistants', 'batch', "
                      "'fine-tune', 'vision', 'user_data' and 'evals'.");
}

int64_t FileLifetime(absl::string_view purpose, int64_t seconds) {
  return seconds == 0 && purpose == "batch" ? kOutputLifetimeSeconds : seconds;
}

MultipartParser::Handlers UploadForm::Handlers() {
  return {[this](const PartHead& head) { return BeginPart(head); },
          [this](absl::string_view bytes) { return TakeData(bytes); },
          [this] {
            in_file_ = false;
            return absl::OkStatus();
          }};
}

absl::Status UploadForm::BeginPart(const PartHead& head) {
  in_file_ = head.name == "file";
  if (!in_file_) {
    field_ = head.name;
    const bool is_new = fields_.try_emplace(field_).second;
    if (is_new) return absl::OkStatus();
    return absl::InvalidArgumentError("The form has the same field twice.");
  }
  if (file_ != nullptr) {
    return absl::InvalidArgumentError("The form has two files; upload one at a time.");
  }
  RETURN_IF_ERROR(may_go_on_());
  next_look_ = kLookBytes;
  filename_ = CleanFileName(head.filename);
  ASSIGN_OR_RETURN(file_, table_.Begin(owner_));
  return absl::OkStatus();
}

absl::Status UploadForm::TakeData(absl::string_view bytes) {
  if (!in_file_) {
    std::string& value = fields_[field_];
    if (value.size() + bytes.size() > kFieldBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("A field of the form is longer than ", kFieldBytesMax, " bytes."));
    }
    value.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  if (beginning_.size() < kBeginningBytes) {
    beginning_.append(bytes.data(), std::min(bytes.size(), kBeginningBytes - beginning_.size()));
  }
  RETURN_IF_ERROR(file_->Write(bytes));
  if (file_->bytes() < next_look_) return absl::OkStatus();
  next_look_ = file_->bytes() + kLookBytes;
  return may_go_on_();
}

bool UploadForm::ReadLifetime(int64_t* seconds, HttpReply* refusal) const {
  const auto anchor = fields_.find("expires_after[anchor]");
  const auto length = fields_.find("expires_after[seconds]");
  *seconds = 0;
  if (anchor == fields_.end() && length == fields_.end()) return true;
  if (anchor == fields_.end() || anchor->second != "created_at") {
    *refusal = BadParameter("expires_after.anchor", "invalid_value",
                            "Invalid 'expires_after.anchor': the supported value is 'created_at'.");
    return false;
  }
  if (length == fields_.end() || !absl::SimpleAtoi(length->second, seconds) ||
      *seconds < kFileLifetimeMin || *seconds > kFileLifetimeMax) {
    *refusal = BadParameter("expires_after.seconds", "invalid_value",
                            absl::StrCat("Invalid 'expires_after.seconds': expected a number from ",
                                         kFileLifetimeMin, " to ", kFileLifetimeMax, "."));
    return false;
  }
  return true;
}

// By its name, and by its first line as far as that was kept.
bool UploadForm::LooksLikeJsonLines() const {
  if (!absl::EndsWithIgnoreCase(filename_, ".jsonl")) return false;
  absl::string_view text = beginning_;
  absl::ConsumePrefix(&text, "\xEF\xBB\xBF");
  text = absl::StripLeadingAsciiWhitespace(text);
  const size_t end = text.find('\n');
  if (text.empty()) return true;
  if (end == absl::string_view::npos && beginning_.size() >= kBeginningBytes) return true;
  return CheckJson(absl::StripAsciiWhitespace(text.substr(0, end))).ok();
}

HttpReply UploadForm::Finish() {
  if (file_ == nullptr) return MissingField("file");
  const auto purpose = fields_.find("purpose");
  if (purpose == fields_.end()) return MissingField("purpose");
  if (!IsFilePurpose(purpose->second)) return UnknownPurpose();
  int64_t lifetime = 0;
  HttpReply refusal;
  if (!ReadLifetime(&lifetime, &refusal)) return refusal;
  if (purpose->second == "batch" && !LooksLikeJsonLines()) {
    return BadParameter("", "", kInvalidBatchFormat);
  }
  lifetime = FileLifetime(purpose->second, lifetime);
  const absl::StatusOr<v1::FileRecord> record = file_->Finish(filename_, purpose->second, lifetime);
  return record.ok() ? JsonReply(FileObject(*record)) : ErrorReply(record.status());
}

}  // namespace nightshift
