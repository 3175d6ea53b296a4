// /v1/uploads: a file that comes in parts, in any order and at the same time, and becomes a file
// like any other when it is completed.
//
// A part is a file of its own until then, with a purpose that no list shows and the upload's time
// to live: what is never completed goes by itself. Thread-safe; of two that end the same upload the
// second is refused.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_UPLOADS_API_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_UPLOADS_API_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/http/api_parts.h"
#include "coordinator/http/http_message.h"
#include "nightshift/v1/files.pb.h"

namespace nightshift {

// Of a part; a larger one is answered with 413.
inline constexpr int64_t kUploadPartBytesMax = int64_t{64} << 20;
// An upload must be completed within this time.
inline constexpr absl::Duration kUploadLifetime = absl::Hours(1);
// How long an upload's end can still be asked for.
inline constexpr absl::Duration kUploadMemory = absl::Hours(24);
// Of one upload; more are refused.
inline constexpr size_t kUploadPartsMax = 10'000;

class UploadsApi {
 public:
  // The parts must outlive it.
  explicit UploadsApi(const ApiParts& parts) : parts_(parts) {}

  HttpReply Create(HttpRequest& request) const;
  HttpReply AddPart(HttpRequest& request, const std::string& id) const;
  HttpReply Complete(HttpRequest& request, const std::string& id) const;
  HttpReply Cancel(const HttpRequest& request, const std::string& id) const;

  // Forgets uploads that ended or expired kUploadMemory ago. Parts expire as files do.
  absl::Status Sweep() const;

 private:
  absl::StatusOr<v1::UploadRecord> Find(const Caller& caller, const std::string& id) const;
  // Also FailedPrecondition when nothing more can be done with it.
  absl::StatusOr<v1::UploadRecord> FindPending(const Caller& caller, const std::string& id) const;
  // Writes the record in place of `before`; Aborted when somebody was quicker.
  absl::Status Replace(const v1::UploadRecord& before, const v1::UploadRecord& after) const;
  // The parts put together in that order; nothing of it stays after an error.
  absl::StatusOr<v1::FileRecord> Join(const v1::UploadRecord& upload,
                                      const std::vector<std::string>& part_ids,
                                      const std::string& md5) const;
  // Removes the parts that have come for it. Should that fail, they expire.
  void RemoveParts(const std::string& id) const;
  HttpReply Object(const v1::UploadRecord& upload) const;

  const ApiParts& parts_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_UPLOADS_API_H_
