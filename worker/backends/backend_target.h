// A backend as the calls to it need it: URLs and headers made once, used by every call.
// Belongs to the event loop; the handles that use it must go before it.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_BACKEND_TARGET_H_
#define NIGHTSHIFT_WORKER_BACKENDS_BACKEND_TARGET_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/endpoint.h"
#include "worker/backends/backend_spec.h"
#include "worker/backends/curl_handles.h"

namespace nightshift {

class BackendTarget {
 public:
  // InvalidArgument when the base URL is none.
  static absl::StatusOr<std::unique_ptr<BackendTarget>> Create(BackendSpec spec);

  const BackendSpec& spec() const { return spec_; }
  // Taken apart already, since libcurl would do that for every call. Null for an endpoint that this
  // build does not know.
  CURLU* url(Endpoint endpoint) const;

  // Sets everything about `easy` that is the same for every request to this backend, `method`
  // aside: headers, key, proxy, protocols.
  void Prepare(CURL* easy) const;

  // USD for an answer; negative when no price is known.
  double Cost(int64_t prompt_tokens, int64_t completion_tokens) const;

 private:
  explicit BackendTarget(BackendSpec spec) : spec_(std::move(spec)) {}

  const BackendSpec spec_;
  bool loopback_ = false;
  std::vector<CurlUrlPtr> urls_;  // by endpoint number
  CurlListPtr headers_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_BACKEND_TARGET_H_
