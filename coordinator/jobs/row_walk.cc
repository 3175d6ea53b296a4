#include "coordinator/jobs/row_walk.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "nightshift/v1/record.pb.h"
#include "storage/keys.h"
#include "storage/record.h"

namespace nightshift {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedInputStream;

// Rows to step over before a seek is the cheaper way.
constexpr int kStepsBeforeSeek = 4;

}  // namespace

RowWalk::RowWalk(const Store& store, Family family, JobNumber job, uint64_t first, uint64_t end,
                 size_t readahead_bytes)
    : job_(job),
      rows_(store.Scan(family, RequestRowKey(job, first),
                       end == UINT64_MAX ? JobKey(job + 1) : RequestRowKey(job, end),
                       {.readahead_bytes = readahead_bytes})) {
  Look();
}

void RowWalk::Look() {
  valid_ = rows_->Valid();
  if (!valid_) {
    if (status_.ok()) status_ = rows_->status();
    return;
  }
  const std::optional<ParsedRequestKey> key = ParseRequestRowKey(rows_->key());
  if (!key.has_value()) {
    valid_ = false;
    status_ = absl::DataLossError(
        absl::StrCat("job number ", job_, " has a row whose key has another length"));
    return;
  }
  index_ = key->index;
}

void RowWalk::Next() {
  rows_->Next();
  Look();
}

bool RowWalk::Find(uint64_t index) {
  for (int steps = 0; valid_ && index_ < index && steps < kStepsBeforeSeek; ++steps) Next();
  if (valid_ && index_ < index) {
    rows_->Seek(RequestRowKey(job_, index));
    Look();
  }
  return valid_ && index_ == index;
}

absl::StatusOr<RequestHead> ReadRequestHead(absl::string_view key, absl::string_view value) {
  ASSIGN_OR_RETURN(const absl::string_view payload, DecodeBytes(key, value));
  CodedInputStream in(reinterpret_cast<const uint8_t*>(payload.data()),
                      static_cast<int>(payload.size()));
  RequestHead head;
  const auto take_view = [&](absl::string_view* view) {
    uint32_t length = 0;
    if (!in.ReadVarint32(&length)) return false;
    const auto at = static_cast<size_t>(in.CurrentPosition());
    if (length > payload.size() - at) return false;
    *view = payload.substr(at, length);
    return in.Skip(static_cast<int>(length));
  };
  bool good = true;
  while (good) {
    const uint32_t tag = in.ReadTag();
    if (tag == 0) break;
    const bool is_bytes =
        WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    absl::string_view body;
    if (field == v1::RequestRecord::kCustomIdFieldNumber && is_bytes) {
      good = take_view(&head.custom_id);
    } else if (field == v1::RequestRecord::kBodyFieldNumber && is_bytes) {
      good = take_view(&body);
      head.body_bytes = body.size();
    } else if (field == v1::RequestRecord::kInvalidReasonFieldNumber && is_bytes) {
      good = take_view(&head.invalid_reason);
    } else if (field == v1::RequestRecord::kEndpointFieldNumber && !is_bytes) {
      good = in.ReadVarint64(&head.endpoint);
    } else {
      good = WireFormatLite::SkipField(&in, tag);
    }
  }
  if (!good || static_cast<size_t>(in.CurrentPosition()) != payload.size()) {
    return absl::DataLossError("a request's row is not a valid request; run nightshift audit");
  }
  return head;
}

}  // namespace nightshift
