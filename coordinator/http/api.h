// The routes of the HTTP API and who may use them. Everything else is answered with 404 in the
// envelope that clients of the OpenAI API expect.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_API_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_API_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/http/api_parts.h"
#include "coordinator/http/batches_api.h"
#include "coordinator/http/files_api.h"
#include "coordinator/http/http_message.h"
#include "coordinator/http/uploads_api.h"

namespace nightshift {

// How long a batch that never became a job (refused, or cancelled before) can still be asked for.
inline constexpr absl::Duration kBatchWithoutJobMemory = absl::Hours(30 * 24);

class Api {
 public:
  explicit Api(ApiParts parts)
      : parts_(parts), files_(parts_), batches_(parts_), uploads_(parts_) {}

  // For paths below /v1.
  HttpReply Handle(HttpRequest& request) const;

  // Removes what has expired, and what is left of jobs that were deleted. Call now and then.
  absl::Status Sweep() const;

 private:
  // Whether the caller's role is for such a request; otherwise `refusal` is filled.
  static bool MayCall(const HttpRequest& request, HttpReply* refusal);
  HttpReply HandleFiles(HttpRequest& request, const std::vector<std::string>& path) const;
  HttpReply HandleBatches(HttpRequest& request, const std::vector<std::string>& path) const;
  HttpReply HandleUploads(HttpRequest& request, const std::vector<std::string>& path) const;
  HttpReply HandleModels(const HttpRequest& request, const std::string& id) const;

  const ApiParts parts_;
  const FilesApi files_;
  const BatchesApi batches_;
  const UploadsApi uploads_;
};

// Who is let in, before any route is looked at.
//
// With tokens, a request must carry one, and its tenant must be within its rate. Without them
// everybody on this machine is let in, and their browsers with them: so pages of other origins, and
// names that only pretend to be this machine, are kept out.
class Gate {
 public:
  // `access` must outlive it.
  explicit Gate(const Access& access) : access_(access) {}

  // True when the request may go on, with its caller set; otherwise `refusal` is filled.
  bool Admits(HttpRequest& request, HttpReply* refusal) const;

 private:
  const Access& access_;
};

HttpReply UnknownRoute(const HttpRequest& request);

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_API_H_
