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
#include "worker/backends/kinds/kind.h"
#include "worker/core/call.h"

namespace nightshift {

class BackendTarget {
 public:
  // InvalidArgument when the base URL is none.
  static absl::StatusOr<std::unique_ptr<BackendTarget>> Create(BackendSpec spec);

  const BackendSpec& spec() const { return spec_; }
  const BackendKind& kind() const { return *kind_; }
  // The server's own protocol where it is spoken, else null.
  const NativeDialect* native() const { return native_; }
  // For a backend given without a kind: what it has been found to be. Calls under way go on as they
  // began.
  void SetDetected(const BackendKind& kind, bool native);

  // Taken apart already, since libcurl would do that for every call. Null for an endpoint that this
  // build does not know.
  CURLU* url(Endpoint endpoint) const;
  // Of a path below the base URL that is not the same for every call; null when it makes no URL.
  CurlUrlPtr UrlOf(absl::string_view path) const;

  // What is sent for a request: the user's bytes but for what this backend needs otherwise.
  struct Wire {
    std::string path;  // empty: the endpoint's own
    std::string body;
    const NativeDialect* native = nullptr;  // in whose form; null = OpenAI's
    std::string model;                      // as sent; only where `native` is set
  };
  // InvalidArgument names what this backend cannot be asked.
  absl::StatusOr<Wire> Translate(CallRequest& request, bool stream) const;

  // Another key from now on. Calls under way keep theirs; for a handle that has been prepared, ask
  // `headers` before its next call.
  void SetKey(const std::string& key);
  // What goes with every call; never changed, but replaced.
  using Headers = std::shared_ptr<curl_slist>;
  const Headers& headers() const { return headers_; }

  // Sets everything about `easy` that is the same for every request to this backend, `method`
  // aside: headers, key, proxy, protocols.
  void Prepare(CURL* easy) const;

  // USD for an answer; negative when no price is known.
  double Cost(int64_t prompt_tokens, int64_t completion_tokens) const;

 private:
  explicit BackendTarget(BackendSpec spec) : spec_(std::move(spec)) {}
  absl::StatusOr<std::string> ModelOf(const CallRequest& request) const;

  const BackendSpec spec_;
  const BackendKind* kind_ = nullptr;
  const NativeDialect* native_ = nullptr;
  bool loopback_ = false;
  std::vector<CurlUrlPtr> urls_;  // by endpoint number
  Headers headers_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_BACKEND_TARGET_H_
